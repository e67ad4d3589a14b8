package sweep

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// WaitOptions say how submitted runs are followed.
type WaitOptions struct {
	Exec     slurm.Exec
	Observer Observer
	Now      func() time.Time
	// Study is the folder of the sweep's study, whose jobs may submit the sweep's runs; or empty.
	Study string
	// Ready is called once, when the sweep's folder exists; or nil.
	Ready func() error

	// The rest is for tests; 0 = the default.
	Poll  time.Duration // a second between two reads of the folders
	Pause time.Duration // 40 seconds before Slurm is first asked; the pause grows to 4.5 times that
	Grace time.Duration // a minute, which a result may need to become visible
}

// waiter follows the runs of a sweep. Their folders are the truth; Slurm only tells that a job is
// gone without a result.
type waiter struct {
	*runner
	WaitOptions
	pause   time.Duration
	asked   time.Time         // when Slurm is asked next
	gone    map[int]time.Time // runs without a job, by their index: since when
	queue   *Queue            // the last answer
	failing bool              // Slurm did not answer the last time
	held    map[string]bool   // jobs about which there was a note
}

// Wait returns when every run of the sweep in dir has its result, or no job any more. It submits
// nothing. A sweep that a job of its study prepares later is waited for.
//
// Errors: [train.ErrInterrupted] when ctx ended, which leaves the jobs alone; a [*FailedError].
func Wait(ctx context.Context, dir string, opts WaitOptions) (*sweepdir.Sweep, error) {
	opts.Poll = cmp.Or(opts.Poll, time.Second)
	opts.Pause = cmp.Or(opts.Pause, 40*time.Second)
	opts.Grace = cmp.Or(opts.Grace, time.Minute)
	now := opts.Now()
	w := &waiter{WaitOptions: opts, pause: opts.Pause, asked: now.Add(opts.Pause), gone: map[int]time.Time{}, held: map[string]bool{}}
	w.runner = &runner{opts: Options{Observer: opts.Observer, Now: opts.Now}, dir: dir}
	tick := time.NewTicker(opts.Poll)
	defer tick.Stop()
	for {
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		if w.jobs != nil && len(w.in(waiting))+len(w.in(running)) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the jobs stay in Slurm (grpo status shows them, grpo cancel cancels them)",
				train.ErrInterrupted)
		}
	}
	s, err := sweepdir.Open(dir)
	if err != nil {
		return nil, err
	}
	return s, w.verdict(s)
}

// look reads the folders, and asks Slurm if that is due.
func (w *waiter) look(ctx context.Context) error {
	if w.jobs == nil && sweepdir.IsSweep(w.dir) {
		if w.Ready != nil {
			if err := w.Ready(); err != nil {
				return err
			}
		}
		s, err := sweepdir.Open(w.dir)
		if err != nil {
			return err
		}
		w.manifest = s.Manifest
		w.scan(s)
		for _, j := range w.in(waiting) {
			j.watch = newWatch(j.path)
		}
	}
	for _, j := range slices.Concat(w.in(waiting), w.in(running)) {
		alive, moved := j.watch.poll()
		if !alive {
			continue
		}
		if stampOf(filepath.Join(j.path, rundir.ResultFile)) != (stamp{}) {
			if state := sweepdir.StateOf(w.dir, j.entry); state.Finished() {
				w.finish(Ended, j, state)
				continue
			}
		}
		if held, _ := rundir.Held(j.path); held {
			w.begin(j)
		}
		if moved {
			w.emit(Event{Kind: Progress, State: j.watch.state(j.entry)}, j)
		}
	}
	now := w.Now()
	if !now.Before(w.asked) {
		w.ask(ctx, now)
	}
	return w.giveUpGone(now)
}

// begin reports that a run has started.
func (w *waiter) begin(j *job) {
	if j.phase == waiting {
		j.phase = running
		w.emit(Event{Kind: Started, State: j.watch.state(j.entry)}, j)
	}
}

// ask asks Slurm what became of the runs. The pause grows, and differs from that of others who wait.
func (w *waiter) ask(ctx context.Context, now time.Time) {
	jitter := time.Duration(now.Nanosecond()) * w.pause / 8 / time.Duration(time.Second)
	w.asked = now.Add(w.pause + jitter)
	w.pause = min(w.pause*3/2, w.Pause*9/2)
	dirs := []string{w.dir}
	if w.Study != "" {
		dirs = append(dirs, w.Study)
	}
	queues, err := readQueues(ctx, dirs, w.Exec)
	if err != nil {
		if !w.failing && ctx.Err() == nil {
			w.note("Slurm does not answer and is asked again: %v", err)
		}
		w.failing = true
		return
	}
	w.failing, w.queue = false, queues[0]
	if _, continuing := queues[len(queues)-1].alive(); len(continuing) > 0 {
		clear(w.gone) // that job may still submit runs
		return
	}
	if w.jobs == nil {
		w.miss(-1, now)
	}
	for _, j := range slices.Concat(w.in(waiting), w.in(running)) {
		t := w.queue.Task(j.entry.Index)
		if t == nil || t.Ended() {
			w.miss(j.entry.Index, now)
			continue
		}
		delete(w.gone, j.entry.Index)
		if t.Held() && !w.held[t.ID] {
			w.held[t.ID] = true
			w.note("%s", heldText(t))
		}
		switch {
		case t.Waiting() && j.phase == running:
			j.phase = waiting
			w.emit(Event{Kind: Queued, State: j.watch.state(j.entry)}, j)
		case !t.Waiting():
			w.begin(j)
		}
	}
}

// miss notes that a run has no job; -1 means a sweep that does not exist yet.
func (w *waiter) miss(index int, now time.Time) {
	if _, known := w.gone[index]; !known {
		w.gone[index] = now
	}
}

// giveUpGone gives up the runs whose jobs left the queue some time ago without a visible result.
func (w *waiter) giveUpGone(now time.Time) error {
	late := func(index int) bool {
		since, ok := w.gone[index]
		return ok && now.Sub(since) >= w.Grace
	}
	if w.jobs == nil && late(-1) {
		return fmt.Errorf("%s was not submitted: the job that submits it ended (see %s in its study)", w.dir, SlurmDir)
	}
	for _, j := range slices.Concat(w.in(waiting), w.in(running)) {
		if !late(j.entry.Index) {
			continue
		}
		state := sweepdir.StateOf(w.dir, j.entry)
		if state.Finished() {
			w.finish(Ended, j, state)
			continue
		}
		why, log := w.queue.ended(j.entry.Index)
		switch {
		case state.State == rundir.StateFailed && state.Error != "":
			why = state.Error
		case why == "":
			why = "its job left the queue without a result"
		}
		j.phase, j.failure = failed, fmt.Errorf("%s", why)
		e := Event{Kind: GaveUp, State: state, Err: j.failure, LogPath: log}
		if log != "" {
			e.LogTail = lastLines(log, 0)
		}
		w.emit(e, j)
	}
	return nil
}
