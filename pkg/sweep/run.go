package sweep

import (
	"context"
	"fmt"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// One goroutine owns all state of a sweep: it starts processes while there are free
// slots, and then waits until a process ends, the folders are due to be read, or the
// context ends. Each run is in one of the phases below. Its state is always read
// from its folder: result.json means finished, status.json has the last checkpoint
// and the reason of a failure, a claim means that a process is running it. So this
// process may be killed at any time, and another may run the same sweep.
//
//	waiting -> running -> finished            result.json exists
//	              |-> waiting                 the process died: again from the checkpoint
//	              |-> failed                  it reported an error, or died too often
//	              |-> stopped                 interrupted
//	waiting -> elsewhere -> finished/waiting  another grpo has the run's folder
type phase int

const (
	waiting phase = iota
	running
	elsewhere
	finished
	failed
	stopped
	queued // in Slurm, which trains it
	paused // at a rung of halving, until all runs have reached it
	halved // its arm was stopped
)

// job is a run of the sweep as this process knows it.
type job struct {
	entry sweepdir.Entry
	path  string
	phase phase

	process  Process
	watch    *watch    // while running or elsewhere
	free     time.Time // when the process of another machine was seen to have ended
	logFrom  int64     // offset of the process's part of the log
	attempts int       // processes started
	killed   error     // why this program killed the process

	deaths    int // in a row, without a new checkpoint
	saved     int // step of the last checkpoint known
	notBefore time.Time
	failure   error
}

type runner struct {
	opts     Options
	dir      string
	manifest sweepdir.Manifest
	jobs     []*job
	slots    int // parallel runs
	running  int
	ends     chan func() // a process has ended; the function handles it
	started  time.Time
	lastPoll time.Time

	early       int // deaths before the first step
	interrupted bool
	halted      error // why no more runs are started
	undecided   error // why the arms at a rung could not be compared
}

// Run trains the missing runs of the sweep in dir (see [Prepare]) and returns the
// sweep afterwards, also if runs failed.
//
// Errors: a manifest that can't be read; [train.ErrInterrupted] when ctx ended
// before all runs had their result; [*EarlyDeathsError]; and a [*FailedError] that
// names each failed run.
func Run(ctx context.Context, dir string, opts Options) (*sweepdir.Sweep, error) {
	s, err := sweepdir.Open(dir)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	now := opts.Now()
	r := &runner{
		opts: opts, dir: dir, manifest: s.Manifest, ends: make(chan func(), len(s.Runs)),
		started: now, lastPoll: now, slots: Slots(opts.Jobs, opts.Cores, len(s.Runs)),
	}
	if opts.Jobs > opts.Cores {
		r.note("%d runs at a time instead of %d: this machine has %d cores, "+
			"and two threads on one would only slow both down", opts.Cores, opts.Jobs, opts.Cores)
	}
	r.scan(s)
	r.leaveQueued(ctx)
	r.reuseRuns()
	r.limitSlots()
	r.loop(ctx)
	after, err := sweepdir.Open(dir)
	if err != nil {
		return s, err
	}
	return after, r.verdict(after)
}

func (r *runner) note(format string, args ...any) { r.opts.Observer.Note(fmt.Sprintf(format, args...)) }

// in returns the runs in a phase.
func (r *runner) in(p phase) (out []*job) {
	for _, j := range r.jobs {
		if j.phase == p {
			out = append(out, j)
		}
	}
	return out
}

// waitingEntries returns the entries of the runs that wait.
func (r *runner) waitingEntries() (out []sweepdir.Entry) {
	for _, j := range r.in(waiting) {
		out = append(out, j.entry)
	}
	return out
}

// threads is the share of the cores for a run that is started now.
func (r *runner) threads() int {
	active := min(r.slots, r.running+len(r.in(waiting)))
	return max(1, r.opts.Cores/max(1, active))
}

// scan finds the finished runs, and reports at once those that can't be trained.
func (r *runner) scan(s *sweepdir.Sweep) {
	for _, state := range s.Runs {
		j := &job{entry: state.Entry, path: state.Path(r.dir)}
		r.jobs = append(r.jobs, j)
		err := state.CheckFolder(r.dir) // of a link not even the log is read
		if err == nil && state.Finished() {
			err = sameRewards(state) // in a sweep, all runs are trained on the same rewards
		}
		switch {
		case err != nil:
			r.giveUp(j, state, err)
		case state.Finished():
			r.finish(Found, j, state)
		case state.State == sweepdir.Dead:
			r.note("%s: %s", r.name(j), state.Error)
		case state.State == sweepdir.Stopped:
			j.phase = halved
			r.emit(Event{Kind: Found, State: state}, j)
		}
	}
}

// sameRewards returns an error if a finished run was trained with other contents of a script of its
// reward functions.
func sameRewards(s sweepdir.RunState) error {
	if s.Run.Meta == nil || len(s.Run.Meta.RewardFiles) == 0 {
		return nil
	}
	c, err := frozen(s.Entry)
	if err != nil {
		return err
	}
	return train.SameRewards(c, s.Run.Meta)
}

// finish reports a run that has its result.
func (r *runner) finish(kind EventKind, j *job, state sweepdir.RunState) {
	j.phase = finished
	r.emit(Event{Kind: kind, State: state}, j)
}

// loop runs until this process has nothing left to do or to wait for.
func (r *runner) loop(ctx context.Context) {
	tick := time.NewTicker(r.opts.Poll)
	defer tick.Stop()
	done := ctx.Done()
	for {
		if ctx.Err() != nil && done != nil {
			done = nil
			r.interrupted = true
			r.halt(ctx.Err())
		}
		r.fill()
		if r.idle() {
			if r.decide() {
				continue
			}
			return
		}
		select {
		case handle := <-r.ends:
			handle()
		case <-tick.C:
			r.poll()
		case <-done:
		}
	}
}

// idle says whether there is nothing to wait for.
func (r *runner) idle() bool {
	return r.running == 0 && (r.halted != nil || len(r.in(waiting))+len(r.in(elsewhere)) == 0)
}

// halt asks all processes to save and stop, and starts no others.
func (r *runner) halt(why error) {
	if r.halted != nil {
		return
	}
	r.halted = why
	for _, j := range r.in(running) {
		if err := j.process.Interrupt(); err != nil {
			r.note("%s: it could not be asked to stop: %v", r.name(j), err)
		}
	}
	if r.running > 0 {
		r.note("waiting for %s to save", textutil.Count(r.running, "run"))
	}
}

// fill starts runs while there are free slots.
func (r *runner) fill() {
	now := r.opts.Now()
	for _, j := range r.in(waiting) {
		if r.halted != nil || r.running >= r.slots {
			return
		}
		if !now.Before(j.notBefore) {
			r.start(j)
		}
	}
}

// start starts a process for a run, unless another grpo is running or has
// finished it.
func (r *runner) start(j *job) {
	switch state := sweepdir.StateOf(r.dir, j.entry); {
	case state.Finished():
		r.finish(Found, j, state)
		return
	case state.State == rundir.StateRunning:
		r.follow(j, state)
		return
	case r.isAtRung(state):
		j.phase = paused
		return
	}
	j.attempts++
	j.killed = nil
	j.watch = newWatch(j.path)
	j.saved = max(j.saved, j.watch.base)
	j.logFrom = stampOf(taskLog(j.path)).size
	p, err := r.opts.Launcher.Start(r.dir, j.entry, r.threads())
	if err != nil {
		r.died(j, sweepdir.StateOf(r.dir, j.entry), err)
		return
	}
	j.process, j.phase = p, running
	r.running++
	r.emit(Event{Kind: Started, State: j.watch.state(j.entry), From: j.watch.base}, j)
	go func() {
		exit := p.Wait()
		r.ends <- func() { r.ended(j, exit) }
	}()
}

// follow leaves a run to another grpo that is running it.
func (r *runner) follow(j *job, state sweepdir.RunState) {
	j.phase, j.watch, j.free = elsewhere, newWatch(j.path), time.Time{}
	r.emit(Event{Kind: Elsewhere, State: state}, j)
}

func (r *runner) name(j *job) string {
	return fmt.Sprintf("%s, seed %d", r.manifest.NameOf(j.entry.Arm), j.entry.Seed)
}

// emit completes an event and reports it, with the end of the run's log if it has an
// error.
func (r *runner) emit(e Event, j *job) {
	e.Entry, e.Attempt = j.entry, j.attempts
	if e.Err != nil && j.attempts > 0 {
		e.LogTail, e.LogPath = logTail(j.path, j.logFrom)
	}
	r.opts.Observer.Event(e)
}
