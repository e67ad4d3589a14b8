package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

const (
	// A run is given up after maxDeaths processes in a row without a new checkpoint.
	maxDeaths = 3
	// A sweep is stopped after maxEarlyDeaths processes that died before their first
	// step within earlyTime of its start: they have a common cause.
	maxEarlyDeaths = 3
	earlyTime      = time.Minute
	// A result may appear so long after its process on another machine has ended.
	resultDelay = time.Minute
	// A process hangs after at least hangSteps mean step times without a heartbeat.
	hangSteps = 20
)

// ended handles the end of a run's process.
//
// A process that reported an error in status.json would fail the same way again, so
// its run is given up. Any other end without a result (a crash, kill -9, no memory)
// is a death. The exit code alone is not enough: a panic of Go has that of a usage
// error.
func (r *runner) ended(j *job, exit Exit) {
	r.running--
	state := sweepdir.StateOf(r.dir, j.entry)
	reported := state.State == rundir.StateFailed && state.Run != nil && state.Run.Status.PID == j.process.ID()
	switch {
	case state.Finished():
		r.finish(Ended, j, state)
	case state.State == rundir.StateRunning: // another process has the folder
		r.follow(j, state)
	case reported, exit.Code == 0 && state.Error != "":
		r.giveUp(j, state, errors.New(state.Error))
	case exit.Code == exitFailed:
		r.giveUp(j, state, r.exitError(j, exit))
	case r.isAtRung(state) && r.halted == nil:
		j.phase = paused
		r.emit(Event{Kind: Paused, State: state}, j)
	case r.halted != nil:
		j.phase = stopped
		r.emit(Event{Kind: Stopped, State: state}, j)
	case j.killed != nil:
		r.died(j, state, j.killed)
	default:
		r.died(j, state, r.exitError(j, exit))
	}
}

// exitError is the error of an exit with the program's own message.
func (r *runner) exitError(j *job, exit Exit) error {
	needLess := "lower --jobs, or let a run need less"
	if cfg, m, err := frozenModel(j.entry); err == nil {
		needLess += ": " + budget.NeedLess(m, cfg)
	}
	tail, _ := logTail(j.path, j.logFrom)
	message := lastMessage(tail)
	// Go's runtime ends a program that gets no memory with one of these messages.
	noMemory := slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "failed to reserve"},
		func(s string) bool { return strings.Contains(message, s) })
	switch {
	case noMemory:
		return fmt.Errorf("it ran out of memory (%s); %s", message, needLess)
	case exit.Signal == "killed":
		j.watch.poll()
		return fmt.Errorf("%s; %s; %s", exit, needLess, j.watch.state(j.entry).Run.Reached())
	case message == "":
		return errors.New(exit.String())
	case exit.Code == exitFailed:
		return errors.New(message)
	}
	return fmt.Errorf("%s: %s", exit, message)
}

// died decides whether a run whose process died is tried again.
func (r *runner) died(j *job, state sweepdir.RunState, why error) {
	j.watch.poll()
	if saved := j.watch.saved(); saved > j.saved {
		j.saved, j.deaths = saved, 0
	}
	j.deaths++
	r.emit(Event{Kind: Died, State: state, Err: why}, j)
	j.phase, j.notBefore = waiting, r.opts.Now().Add(r.opts.Pause)
	if !j.watch.stepped() && r.opts.Now().Sub(r.started) < earlyTime {
		if r.early++; r.early >= maxEarlyDeaths && r.halted == nil {
			_, log := logTail(j.path, j.logFrom)
			r.halt(&EarlyDeathsError{Run: r.name(j), Reason: why, Log: log})
			return
		}
	}
	if j.deaths >= maxDeaths {
		why = fmt.Errorf("%d processes in a row died without a new checkpoint; the last: %w", j.deaths, why)
		r.giveUp(j, state, why)
	}
}

// giveUp is [scan.giveUp], which stops the sweep with FailFast.
func (r *runner) giveUp(j *job, state sweepdir.RunState, why error) {
	r.scan.giveUp(j, state, why)
	if r.opts.FailFast {
		r.halt(fmt.Errorf("%s failed", r.name(j)))
	}
}

// poll reads the folders of the running runs.
func (r *runner) poll() {
	now := r.opts.Now()
	// The time that a laptop slept, or this process was stopped, does not count.
	since := min(now.Sub(r.lastPoll), 2*r.opts.Poll)
	r.lastPoll = now
	for _, j := range r.in(running, elsewhere) {
		alive, moved := j.watch.poll()
		if moved {
			r.emit(Event{Kind: Progress, State: j.watch.state(j.entry)}, j)
		}
		switch {
		case j.phase == elsewhere:
			r.wait(j)
		case alive:
			j.watch.silent = 0
		default:
			j.watch.silent += since
			r.killIfHung(j)
		}
	}
}

func (r *runner) killIfHung(j *job) {
	limit := max(r.opts.HangAfter, hangSteps*j.watch.stepTime())
	if j.watch.silent < limit || j.killed != nil {
		return
	}
	j.killed = fmt.Errorf("no sign of life for %s", j.watch.silent.Round(time.Second))
	r.emit(Event{Kind: Hung, State: j.watch.state(j.entry), Err: j.killed}, j)
	if err := j.process.Kill(); err != nil {
		r.note("%s: it hangs and could not be killed: %v", r.name(j), err)
	}
}

// wait takes over a run of another grpo that ended without a result. The result of
// another machine may need a while to appear on a network file system.
func (r *runner) wait(j *job) {
	if held, known := rundir.Held(j.path); held || !known {
		return
	}
	state := sweepdir.StateOf(r.dir, j.entry)
	if state.Finished() {
		r.finish(Ended, j, state)
		return
	}
	owners, _ := rundir.Owners(j.path)
	ended := state.State == rundir.StateInterrupted || state.State == rundir.StateFailed
	if n := len(owners); n > 0 && owners[n-1].Elsewhere() && !ended {
		now := r.opts.Now()
		if j.free.IsZero() {
			j.free = now
		}
		if now.Sub(j.free) < resultDelay {
			return
		}
	}
	j.phase = waiting
}

// EarlyDeathsError reports a sweep that was stopped because several processes
// died before their first step.
type EarlyDeathsError struct {
	Run    string // the last of them: arm and seed
	Reason error
	Log    string
}

// Error implements error.
func (e *EarlyDeathsError) Error() string {
	return fmt.Sprintf("stopped: %d processes died before their first step within a minute; "+
		"the last, %s: %v (log: %s)", maxEarlyDeaths, e.Run, e.Reason, e.Log)
}

// verdict is the error of a sweep that ended in this state.
func (r *runner) verdict(s *sweepdir.Sweep) error {
	e, done := r.failures(s)
	early, stoppedEarly := r.halted.(*EarlyDeathsError)
	switch {
	case r.interrupted && e.Left > 0:
		also := ""
		if n := len(e.Failures); n > 0 {
			also = fmt.Sprintf(", %d failed", n)
		}
		return fmt.Errorf("%w: %d of %s done%s; the same command continues", rundir.ErrInterrupted, done,
			textutil.Count(e.Total, "run"), also)
	case stoppedEarly:
		return early
	case len(e.Failures) > 0:
		return e
	case r.undecided != nil:
		return r.undecided
	}
	return nil
}
