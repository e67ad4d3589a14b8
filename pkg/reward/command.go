package reward

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"grpo/internal/textutil"
)

// command is a function whose rewards other processes compute. A batch is split over the workers
// between prompts, always in the same way, and results are in the order of the batch.
type command struct {
	ctx     context.Context
	note    func(string)
	workers []*worker
	memory  *memory // nil: each completion is scored
}

// worker is one of the processes of a command, started again when it fails.
type worker struct {
	spec    Spec
	process *process // nil = none is running
	lines   int      // asked so far, the id of the last
	notes   []string
}

func newCommand(ctx context.Context, s Spec, note func(string)) (*command, error) {
	if _, err := exec.LookPath(s.Command[0]); err != nil {
		return nil, fmt.Errorf("start %s: %w", textutil.CommandLine(s.Command), err)
	}
	c := &command{ctx: ctx, note: note}
	if s.Reuse {
		c.memory = newMemory()
	}
	for range max(1, s.Workers) {
		c.workers = append(c.workers, &worker{spec: s})
	}
	return c, nil
}

// Score returns the scores of a batch, those that the command need not compute from memory.
func (c *command) Score(b Batch) (Scores, error) {
	if c.memory != nil {
		return c.memory.score(b, c.ask)
	}
	s, _, err := c.ask(b)
	return s, err
}

// ask sends each worker its share of the batch. smooth is false if one had to be started again or scored nothing. The
// error is that of the first worker that failed by itself, or that of the context.
func (c *command) ask(b Batch) (s Scores, smooth bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	group := max(1, b.GroupSize)
	groups := len(b.Completions) / group
	n := min(len(c.workers), groups)
	parts, errs := make([]Scores, n), make([]error, n)
	var wait sync.WaitGroup
	for k := range n {
		share := b.Completions[groups*k/n*group : groups*(k+1)/n*group]
		wait.Go(func() {
			r := request{Version: Version, Step: b.Step, MaxTokens: b.MaxTokens, Completions: share}
			if parts[k], errs[k] = c.workers[k].score(ctx, r); errs[k] != nil {
				cancel() // the others need not go on
			}
		})
	}
	wait.Wait()
	var failed error
	smooth = true
	for k, w := range c.workers[:n] {
		for _, text := range w.notes {
			c.note(text)
			smooth = false
		}
		w.notes = nil
		if err := errs[k]; err != nil && (failed == nil || errors.Is(failed, context.Canceled)) {
			failed = err
		}
	}
	if failed != nil {
		return Scores{}, false, failed
	}
	return join(parts), smooth, nil
}

// Close ends the processes.
func (c *command) Close() {
	var wait sync.WaitGroup
	for _, w := range c.workers {
		wait.Go(func() { w.stop(c.ctx.Err() == nil) })
	}
	wait.Wait()
}

func (w *worker) stop(idle bool) {
	if w.process != nil {
		w.process.stop(idle)
		w.process = nil
	}
}

// score returns the rewards of one line. A process that ended or gave no answer is replaced by a
// new one, up to spec.Restarts times; one that gave a wrong answer would give it again.
func (w *worker) score(ctx context.Context, r request) (Scores, error) {
	for restarts := 0; ; restarts++ {
		s, err := w.once(ctx, r)
		if err == nil {
			return s, nil
		}
		last := ""
		if p := w.process; p != nil {
			w.stop(false)
			if last = p.stderr.String(); last != "" {
				last = "; its last lines on stderr:" + last
			}
			r.ID = w.lines
			line, _ := r.encode() // as it was sent
			last += "\n  the request: " + textutil.Printable(strings.TrimSpace(string(line)), shownRequest)
		}
		if ctx.Err() != nil {
			return Scores{}, ctx.Err()
		}
		err = fmt.Errorf("reward %s: step %d: %s: %w%s",
			w.spec.Name, r.Step, textutil.CommandLine(w.spec.Command), err, last)
		var f failure
		switch {
		case errors.As(err, &f) && restarts < w.spec.Restarts:
			w.note(err, "the process is started again")
		case w.spec.NullOnError && r.Step > 0: // before the first step it is a mistake, not a failure
			w.note(err, textutil.Count(len(r.Completions), "completion")+" without this reward (on_error: null)")
			return nulls(len(r.Completions)), nil
		default:
			return Scores{}, err
		}
	}
}

// shownRequest is how much of a request an error shows, in characters.
const shownRequest = 400

// note keeps an error and what follows from it, on one line.
func (w *worker) note(err error, then string) {
	w.notes = append(w.notes, strings.ReplaceAll(err.Error(), "\n  ", " | ")+"; "+then)
}

// once asks the process, which it starts if none is running.
func (w *worker) once(ctx context.Context, r request) (Scores, error) {
	if ctx.Err() != nil {
		return Scores{}, ctx.Err()
	}
	if w.process == nil {
		p, err := startProcess(w.spec.Command)
		if err != nil {
			return Scores{}, err
		}
		w.process = p
	}
	w.lines++
	r.ID = w.lines
	line, err := r.encode()
	if err != nil {
		return Scores{}, err
	}
	answer, err := w.process.ask(ctx, line, w.spec.Timeout)
	if err != nil {
		return Scores{}, err
	}
	s, err := parseAnswer(answer, r.ID, len(r.Completions))
	if err != nil {
		return Scores{}, fmt.Errorf("its answer is wrong: %w", err)
	}
	return s, nil
}
