package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Queue is where the jobs of a sweep's runs wait, on a cluster.
type Queue interface {
	// Name is the scheduler's, for messages.
	Name() string
	// Ask asks what became of the jobs. If that fails, the last answers stay.
	Ask(ctx context.Context) error
	// Job returns what the last answer shows of a run, by its index.
	Job(index int) JobState
	// Ended describes how the job of a run ended, with the path of its log; empty if that is not known.
	Ended(index int) (text, log string)
	// MaySubmit reports whether a job may still submit runs of the sweep.
	MaySubmit() bool
}

// JobState is what a queue shows of a run.
type JobState struct {
	ID     string // of the job
	Exists bool   // it waits or runs
	Waits  bool
	Held   string // why it waits until somebody acts; empty if nobody must
}

// WaitOptions say how submitted runs are followed.
type WaitOptions struct {
	Queue    Queue
	Observer Observer
	Now      func() time.Time
	// Ready is called once, when the sweep's folder exists; or nil.
	Ready func() error

	// The rest is for tests; 0 = the default.
	Poll  time.Duration // a second between two reads of the folders
	Pause time.Duration // 40 seconds before the queue is first asked; the pause grows to 4.5 times that
	Grace time.Duration // a minute, which a result may need to become visible
}

// waiter follows the runs of a sweep. Their folders are the truth; the queue only tells that a job is
// gone without a result.
type waiter struct {
	*scan // nil until the sweep's folder exists
	WaitOptions
	pause   time.Duration
	asked   time.Time         // when the queue is asked next
	gone    map[int]time.Time // runs without a job, by their index: since when; -1 = the sweep's folder
	failing bool              // the queue did not answer the last time
	held    map[string]bool   // jobs about which there was a note
}

// Wait returns when every run of the sweep in dir has its result and every look was taken, or no job any
// more. It submits nothing. A sweep that a job of its study prepares later is waited for.
//
// Errors: [rundir.ErrInterrupted] when ctx ended, which leaves the jobs alone; a [*FailedError]; a look that no job
// takes.
func Wait(ctx context.Context, dir string, opts WaitOptions) (*sweepdir.Sweep, error) {
	opts.Poll = cmp.Or(opts.Poll, time.Second)
	opts.Pause = cmp.Or(opts.Pause, 40*time.Second)
	opts.Grace = cmp.Or(opts.Grace, time.Minute)
	w := &waiter{
		WaitOptions: opts, pause: opts.Pause, asked: opts.Now().Add(opts.Pause),
		gone: map[int]time.Time{}, held: map[string]bool{},
	}
	tick := time.NewTicker(opts.Poll)
	defer tick.Stop()
	for {
		if err := w.look(ctx, dir); err != nil {
			return nil, err
		}
		if w.scan != nil && len(w.in(waiting, running)) == 0 && (w.manifest.NextLook() < 0 || w.isLate(-1, opts.Now())) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the jobs stay in %s (grpo status shows them, grpo cancel cancels them)",
				rundir.ErrInterrupted, opts.Queue.Name())
		}
	}
	s, err := sweepdir.Open(dir)
	if err != nil {
		return nil, err
	}
	if e, _ := w.failures(s); len(e.Failures) > 0 {
		return s, e
	}
	if k := s.Manifest.NextLook(); k >= 0 {
		return s, fmt.Errorf("the look at %d seeds of %s was not taken: no job in %s does it any more; the same command "+
			"does, and submits the runs after it", s.Manifest.Looks[k].Seeds, dir, opts.Queue.Name())
	}
	return s, nil
}

// look reads the folders, and asks the queue if that is due.
func (w *waiter) look(ctx context.Context, dir string) error {
	if w.scan == nil && sweepdir.IsSweep(dir) {
		if w.Ready != nil {
			if err := w.Ready(); err != nil {
				return err
			}
		}
		s, err := sweepdir.Open(dir)
		if err != nil {
			return err
		}
		w.scan = newScan(s, Options{Observer: w.Observer})
		for _, j := range w.in(waiting) {
			j.watch = newWatch(j.path)
		}
	}
	if w.scan != nil {
		w.readFolders()
		if err := w.readLooks(); err != nil {
			return err
		}
	}
	now := w.Now()
	if !now.Before(w.asked) {
		w.ask(ctx, now)
	}
	if w.scan != nil {
		w.giveUpGone(now)
	} else if w.isLate(-1, now) {
		return fmt.Errorf("%s was not submitted: the job that submits it ended (see the logs of jobs in its study)", dir)
	}
	return nil
}

func (w *waiter) readFolders() {
	for _, j := range w.in(waiting, running) {
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
}

// readLooks reads the decision at a look, which a job takes when all runs up to it have ended.
func (w *waiter) readLooks() error {
	if len(w.in(waiting, running)) > 0 || w.manifest.NextLook() < 0 {
		return nil
	}
	m, err := sweepdir.ReadManifest(w.dir)
	if err != nil {
		return err
	}
	if old := w.manifest.NextLook(); m.NextLook() != old {
		if text := decisionText(m, old); text != "" {
			w.note("%s", text)
		}
		w.followLooks(m)
		for _, j := range w.in(waiting) {
			j.watch = newWatch(j.path)
		}
		delete(w.gone, -1)
	}
	return nil
}

// begin reports that a run has started.
func (w *waiter) begin(j *job) {
	if j.phase == waiting {
		j.phase = running
		w.emit(Event{Kind: Started, State: j.watch.state(j.entry)}, j)
	}
}

// ask asks what became of the runs. The pause grows, and differs from that of others who wait.
func (w *waiter) ask(ctx context.Context, now time.Time) {
	jitter := time.Duration(now.Nanosecond()) * w.pause / 8 / time.Duration(time.Second)
	w.asked = now.Add(w.pause + jitter)
	w.pause = min(w.pause*3/2, w.Pause*9/2)
	if err := w.Queue.Ask(ctx); err != nil {
		if !w.failing && ctx.Err() == nil {
			w.Observer.Note(fmt.Sprintf("%s does not answer and is asked again: %v", w.Queue.Name(), err))
		}
		w.failing = true
		return
	}
	w.failing = false
	if w.Queue.MaySubmit() {
		clear(w.gone)
		return
	}
	if w.scan == nil || len(w.in(waiting, running)) == 0 {
		w.miss(-1, now)
		return
	}
	for _, j := range w.in(waiting, running) {
		is := w.Queue.Job(j.entry.Index)
		if !is.Exists {
			w.miss(j.entry.Index, now)
			continue
		}
		delete(w.gone, j.entry.Index)
		if is.Held != "" && !w.held[is.ID] {
			w.held[is.ID] = true
			w.note("%s", is.Held)
		}
		switch {
		case is.Waits && j.phase == running:
			j.phase = waiting
			w.emit(Event{Kind: Queued, State: j.watch.state(j.entry)}, j)
		case !is.Waits:
			w.begin(j)
		}
	}
}

// miss notes that a run has no job.
func (w *waiter) miss(index int, now time.Time) {
	if _, known := w.gone[index]; !known {
		w.gone[index] = now
	}
}

// isLate says whether a run has had no job for so long that a result would be visible.
func (w *waiter) isLate(index int, now time.Time) bool {
	since, ok := w.gone[index]
	return ok && now.Sub(since) >= w.Grace
}

// giveUpGone gives up the runs whose jobs left the queue some time ago without a visible result.
func (w *waiter) giveUpGone(now time.Time) {
	for _, j := range w.in(waiting, running) {
		if !w.isLate(j.entry.Index, now) {
			continue
		}
		state := sweepdir.StateOf(w.dir, j.entry)
		if state.Finished() {
			w.finish(Ended, j, state)
			continue
		}
		why, log := w.Queue.Ended(j.entry.Index)
		switch {
		case state.State == rundir.StateFailed && state.Error != "":
			why = state.Error
		case why == "":
			why = "its job left the queue without a result"
		}
		j.phase, j.failure = failed, errors.New(why)
		e := Event{Kind: GaveUp, State: state, Err: j.failure, LogPath: log}
		if log != "" {
			e.LogTail = LastLines(log, 0)
		}
		w.emit(e, j)
	}
}
