package sweep

import (
	"context"
	"fmt"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// One goroutine owns all state of a sweep: it starts processes while there are free slots, and then
// waits until a process ends, the folders are due to be read, or the context ends. The phases of a
// run are in scan.go.
type runner struct {
	*scan
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
// Errors: a manifest that can't be read; [rundir.ErrInterrupted] when ctx ended
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
		scan: newScan(s, opts), ends: make(chan func(), len(s.Runs)),
		started: now, lastPoll: now, slots: Slots(opts.Jobs, opts.Cores, len(s.Runs)),
	}
	if gone := r.in(failed); opts.FailFast && len(gone) > 0 {
		r.halt(fmt.Errorf("%s failed", r.name(gone[0])))
	}
	if opts.Jobs > opts.Cores {
		r.note("%d runs at a time instead of %d: this machine has %d cores, "+
			"and two threads on one would only slow both down", opts.Cores, opts.Jobs, opts.Cores)
	}
	r.leaveQueued(ctx)
	r.reuseRuns()
	r.slots = opts.fitSlots(r.entries(waiting, planned), r.slots)
	r.loop(ctx)
	after, err := sweepdir.Open(dir)
	if err != nil {
		return s, err
	}
	return after, r.verdict(after)
}

// threads is the share of the cores for a run that is started now.
func (r *runner) threads() int {
	return r.opts.threads(min(r.slots, r.running+len(r.in(waiting))))
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
		isBusy := r.running > 0 || r.halted == nil && len(r.in(waiting, elsewhere)) > 0
		if !isBusy {
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
