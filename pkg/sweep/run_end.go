package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// What the runner does when a process ends, and when it hangs.

func taskLog(j *job) string { return filepath.Join(j.path, sweepdir.TaskLog) }

// ended reads what a process left and decides what happens to its run.
//
// A process that knows why it failed writes that into status.json: another
// attempt would meet the same, so there is none before the user's next call.
// Any other end without a result (a crash, kill -9, no memory) is a death. The
// exit code alone would not do, because Go's panics use that of a usage error.
func (r *runner) ended(j *job, exit Exit) {
	r.running--
	state := sweepdir.StateOf(r.dir, j.entry)
	switch {
	case isFinished(state):
		j.phase = finished
		r.emit(Event{Kind: Ended, State: state}, j)
	case state.State == rundir.StateRunning: // another process has the lock
		r.follow(j, state)
	case r.reportedFailure(j, state), exit.Code == 0 && state.Error != "":
		r.giveUp(j, state, errors.New(state.Error))
	case exit.Code == exitFailed:
		r.giveUp(j, state, r.exitError(j, exit))
	case r.halted != nil:
		j.phase = stopped
		r.emit(Event{Kind: Stopped, State: state}, j)
	case j.killed != nil:
		r.died(j, state, j.killed)
	default:
		r.died(j, state, r.exitError(j, exit))
	}
}

// reportedFailure says whether the status records a failure of this process.
func (r *runner) reportedFailure(j *job, s sweepdir.RunState) bool {
	return s.State == rundir.StateFailed && s.Run != nil && s.Run.Status.PID == j.process.ID()
}

// exitError is the error of an exit with the program's own message.
func (r *runner) exitError(j *job, exit Exit) error {
	tail, _ := logTail(j.path, j.logFrom)
	message := lastMessage(tail)
	switch {
	case ranOutOfMemory(message):
		return fmt.Errorf("it ran out of memory (%s); %s", message, needLess)
	case exit.Signal == "killed":
		return fmt.Errorf("%s; %s", exit, needLess)
	case message == "":
		return errors.New(exit.String())
	case exit.Code == exitFailed:
		return errors.New(message)
	}
	return fmt.Errorf("%s: %s", exit, message)
}

// needLess says what to do when runs need more memory than there is.
const needLess = "lower --jobs, or let a run need less (raise train.gradient_accumulation_steps, lower rollout.rollout_batch_size)"

// ranOutOfMemory recognises the messages with which Go's runtime ends a program
// that gets no memory: nothing in the program can catch that.
func ranOutOfMemory(message string) bool {
	return slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "failed to reserve"}, func(s string) bool {
		return strings.Contains(message, s)
	})
}

// died decides whether a run whose process is gone is tried again.
func (r *runner) died(j *job, state sweepdir.RunState, why error) {
	j.watch.poll()
	if saved := j.watch.saved(); saved > j.saved {
		j.saved, j.deaths = saved, 0
	}
	j.deaths++
	early := !j.watch.stepped() && r.opts.Now().Sub(r.started) < earlyTime
	e := Event{Kind: Died, State: state, Err: why}
	e.LogTail, e.LogPath = logTail(j.path, j.logFrom)
	r.emit(e, j)
	j.phase, j.notBefore = waiting, r.opts.Now().Add(r.opts.Pause)
	if early {
		if r.early++; r.early >= maxEarlyDeaths && r.halted == nil {
			r.halt(&EarlyDeathsError{Run: r.name(j), Reason: why, Log: e.LogPath})
			return
		}
	}
	if j.deaths >= maxDeaths {
		r.giveUp(j, state, fmt.Errorf("%d processes in a row died without a new checkpoint; the last: %w", j.deaths, why))
	}
}

// giveUp leaves a run to the next call of the user.
func (r *runner) giveUp(j *job, state sweepdir.RunState, why error) {
	j.phase, j.failure = failed, why
	e := Event{Kind: GaveUp, State: state, Err: why}
	if j.attempts > 0 {
		e.LogTail, e.LogPath = logTail(j.path, j.logFrom)
	}
	r.emit(e, j)
	if r.opts.FailFast {
		r.halt(fmt.Errorf("%s failed", r.name(j)))
	}
}

// poll reads the folders of the running runs.
func (r *runner) poll() {
	now := r.opts.Now()
	// A laptop that slept, or a stopped process, must not count as an hour of
	// silence: only time in which this loop ran counts.
	since := min(now.Sub(r.lastPoll), 2*r.opts.Poll)
	r.lastPoll = now
	for _, j := range r.jobs {
		switch j.phase {
		case running:
			r.watchOver(j, since)
		case elsewhere:
			r.wait(j)
		}
	}
}

// watchOver shows a run's progress, and kills it when it hangs.
func (r *runner) watchOver(j *job, since time.Duration) {
	alive, moved := j.watch.poll()
	if moved {
		r.emit(Event{Kind: Progress, State: j.watch.state(j.entry)}, j)
	}
	if alive {
		j.watch.silent = 0
		return
	}
	j.watch.silent += since
	limit := max(r.opts.HangAfter, hangSteps*j.watch.stepTime())
	if r.opts.HangAfter < 0 || j.watch.silent < limit || j.killed != nil {
		return
	}
	j.killed = fmt.Errorf("no sign of life for %s", j.watch.silent.Round(time.Second))
	e := Event{Kind: Hung, State: j.watch.state(j.entry), Err: j.killed}
	e.LogTail, e.LogPath = logTail(j.path, j.logFrom)
	r.emit(e, j)
	if err := j.process.Kill(); err != nil {
		r.opts.Observer.Note(fmt.Sprintf("%s: it hangs and could not be killed: %v", r.name(j), err))
	}
}

// wait follows a run that another grpo works on, and continues it when that one
// ends without a result.
func (r *runner) wait(j *job) {
	if _, moved := j.watch.poll(); moved {
		r.emit(Event{Kind: Progress, State: j.watch.state(j.entry)}, j)
	}
	if held, known := rundir.Held(j.path); held || !known {
		return
	}
	state := sweepdir.StateOf(r.dir, j.entry)
	if isFinished(state) {
		j.phase = finished
		r.emit(Event{Kind: Ended, State: state}, j)
		return
	}
	j.phase = waiting
}
