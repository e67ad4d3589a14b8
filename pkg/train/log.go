package train

import (
	"fmt"
	"math"
	"os"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/tensorboard"
)

// What a run writes while it runs, besides checkpoints: run.log for people, the JSONL logs, the event
// file for TensorBoard, and its status.

// teeLog appends a run's events to run.log and passes them on. The log has times and is for people:
// no code reads it, and a write error does not stop the run.
type teeLog struct {
	next Observer
	file *os.File
	now  func() time.Time
}

// openTee opens the log for appending.
func openTee(path string, next Observer, now func() time.Time) (*teeLog, error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the run's log: %w", err)
	}
	return &teeLog{next, f, now}, nil
}

func (l *teeLog) write(format string, args ...any) {
	textutil.Fprintf(l.file, l.now().UTC().Format(time.RFC3339)+" "+format+"\n", args...)
}

func (l *teeLog) Begin(resumedAt, steps int) {
	if resumedAt > 0 {
		l.write("continuing after step %d of %d", resumedAt, steps)
	} else {
		l.write("starting, %d steps", steps)
	}
	l.next.Begin(resumedAt, steps)
}

func (l *teeLog) Step(m rundir.Metrics) {
	what := fmt.Sprintf("train reward %.4f", m.Reward.Mean)
	if math.IsNaN(m.Reward.Mean) {
		what = "no completion has a reward"
	}
	if p := m.Preference; p != nil {
		what = fmt.Sprintf("%g pairs, %.3f of them ranked right, margin %.4g",
			p["pairs"], p["rewards/accuracies"], p["rewards/margins"])
	}
	entropy := fmt.Sprintf("%.4g", m.Entropy)
	if math.IsNaN(m.Entropy) {
		entropy = "n/a"
	}
	l.write("step %d: %s, loss %.6g, gradient norm %.4g, entropy %s, length %.1f",
		m.Step, what, m.Loss, m.GradNorm, entropy, m.Length)
	l.next.Step(m)
}

func (l *teeLog) Eval(e rundir.Eval) {
	score := ""
	if s := e.Sampled.Score; s != nil {
		score = fmt.Sprintf(", mean of eval.reward %.6g", *s)
	}
	l.write("step %d: %s: sampled %d of %d right%s", e.Step, e.Split, e.Sampled.CorrectNum, e.Sampled.N, score)
	if e.Greedy != nil {
		l.write("step %d: %s: greedy %d of %d right", e.Step, e.Split, e.Greedy.CorrectNum, e.Greedy.N)
	}
	l.next.Eval(e)
}

func (l *teeLog) Note(text string) {
	l.write("%s", text)
	l.next.Note(text)
}

func (l *teeLog) Close() error { return l.file.Close() }

// logs are the JSONL files of a run by name, open for appending.
type logs map[string]*rundir.Log

var logFiles = []string{rundir.MetricsFile, rundir.EvalFile, rundir.SamplesFile}

func (l logs) sync() error {
	for _, name := range logFiles {
		if err := l[name].Sync(); err != nil {
			return err
		}
	}
	return nil
}

// append adds a line to a log, if the folder is still this process's.
func (t *trainer) append(name string, line any) error {
	if err := t.hold.Check(); err != nil {
		return err
	}
	if err := t.logs[name].Append(line); err != nil {
		return err
	}
	return t.events.add(line)
}

// prefixes returns length and checksum of each log.
func (l logs) prefixes() map[string]rundir.Prefix {
	out := map[string]rundir.Prefix{}
	for name, log := range l {
		out[name] = rundir.Prefix{Bytes: log.Size(), SHA256: log.Sum()}
	}
	return out
}

func (l logs) close() {
	for _, log := range l {
		_ = log.Close() // synced before
	}
}

// events writes the event file of a run (output.tensorboard). The file is derived from the logs: a
// process that starts or continues the run replaces it by what the logs hold then, so that no step
// is lost or there twice, and appends an event for each line of the logs.
type events struct {
	file *os.File // nil: no event file
	time *tensorboard.Timeline
}

// openEvents is called after [trainer.begin], which cuts the logs to the checkpoint.
func (t *trainer) openEvents() error {
	if !t.cfg.Output.TensorBoard {
		return nil
	}
	run, err := rundir.Open(t.opts.Dir)
	if err != nil {
		return err
	}
	data, timeline := tensorboard.Run(run)
	path := t.path(rundir.EventsFile)
	if err := rundir.WriteFileAtomic(path, data); err != nil {
		return err
	}
	f, err := regular.Create(path)
	if err != nil {
		return fmt.Errorf("open the event file: %w", err)
	}
	t.events = events{f, timeline}
	return nil
}

// derived completes the files of a finished run that are derived from its logs.
func (t *trainer) derived() error {
	if err := t.events.sync(); err != nil {
		return err
	}
	run, err := rundir.Open(t.opts.Dir)
	if err != nil {
		return err
	}
	if err := t.hold.Check(); err != nil {
		return err
	}
	table := run.CSV(sweepdir.Arms{}.Of(t.opts.Dir), fmt.Sprint(t.cfg.Seed))
	return rundir.WriteFileAtomic(t.path(rundir.TableFile), table)
}

// add appends the event of a line of metrics or of an evaluation.
func (e *events) add(line any) error {
	if e.file == nil {
		return nil
	}
	var data []byte
	switch v := line.(type) {
	case rundir.Metrics:
		data = e.time.Step(v)
	case rundir.Eval:
		data = e.time.Eval(v)
	}
	if _, err := e.file.Write(data); err != nil {
		return fmt.Errorf("append to the event file: %w", rundir.Explain(err))
	}
	return nil
}

// sync makes the events survive a power cut.
func (e *events) sync() error {
	if e.file == nil {
		return nil
	}
	if err := e.file.Sync(); err != nil {
		return fmt.Errorf("sync the event file: %w", rundir.Explain(err))
	}
	return nil
}

func (e *events) close() {
	if e.file != nil {
		_ = e.file.Close() // synced before
	}
}

// statusEvery bounds how often the status follows the steps: each time waits for the disk.
const statusEvery = time.Second

func (t *trainer) writeStatus(name, problem string) error {
	if err := t.hold.Check(); err != nil {
		return err
	}
	t.statusAt = t.opts.Now()
	return rundir.WriteJSON(t.path(rundir.StatusFile), rundir.Status{
		State: name, Step: t.state.Step, Steps: t.cfg.Train.NGRPOSteps, PID: os.Getpid(),
		Updated: t.statusAt.UTC().Format(time.RFC3339), Reward: t.state.Final.Sampled.AnswerReward,
		Error: problem,
	})
}

// stopwatch adds up elapsed time. It ignores backward jumps of the clock, so recorded times are
// never negative.
type stopwatch struct {
	now         func() time.Time
	start, last time.Time
	sum         float64
}

func newStopwatch(now func() time.Time) *stopwatch {
	start := now()
	return &stopwatch{now: now, start: start, last: start}
}

// seconds returns the time since the stopwatch was made.
func (w *stopwatch) seconds() float64 {
	w.lap()
	return w.sum
}

// lap returns the time since the last call of lap or seconds.
func (w *stopwatch) lap() float64 {
	before := w.last
	w.last = w.now()
	s := max(0, w.last.Sub(before).Seconds())
	w.sum += s
	return s
}
