package sweep

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Failure is a run that was given up.
type Failure struct {
	Entry  sweepdir.Entry
	Arm    sweepdir.Arm
	Reason error
	Log    string // empty where no process was started
}

// FailedError reports the runs of a sweep that have no result because they
// failed; the others have theirs, unless Left says otherwise.
type FailedError struct {
	Failures []Failure
	Total    int // runs of the sweep
	Left     int // runs that have no result because of the failures
}

// Error implements error, a line for each run.
func (e *FailedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s failed", len(e.Failures), textutil.Count(e.Total, "run"))
	if e.Left > 0 {
		fmt.Fprintf(&b, ", and %d were not finished", e.Left)
	}
	if again := e.again(); again != "" {
		b.WriteString("; " + again)
	}
	for _, f := range e.Failures {
		fmt.Fprintf(&b, "\n  %s, seed %d: %v", f.Arm.Name, f.Entry.Seed, f.Reason)
		if f.Log != "" {
			fmt.Fprintf(&b, " (log: %s)", f.Log)
		}
	}
	return b.String()
}

// again says what the same command would do.
func (e *FailedError) again() string {
	broken := 0
	for _, f := range e.Failures {
		if f.Entry.Config == "" {
			broken++
		}
	}
	switch {
	case broken == len(e.Failures):
		return "fix the configuration: that makes a new sweep"
	case broken == 0 && e.Left == 0 && len(e.Failures) == 1:
		return "the same command tries it again, and only that one"
	case broken == 0 && e.Left == 0:
		return "the same command tries them again, and only those"
	case broken > 0 && broken < len(e.Failures):
		return "the same command tries those again that have a valid configuration"
	}
	return "the same command makes the missing runs"
}

// EarlyDeathsError reports a sweep that was stopped because process after
// process died before its first step.
type EarlyDeathsError struct {
	Run    string // the last of them: arm and seed
	Reason error
	Log    string
}

// Error implements error.
func (e *EarlyDeathsError) Error() string {
	return fmt.Sprintf("stopped: %d processes died before their first step within a minute; the last, %s: %v (log: %s)",
		maxEarlyDeaths, e.Run, e.Reason, e.Log)
}

// verdict is the error of a sweep that ended in this state.
func (r *runner) verdict(s *sweepdir.Sweep) error {
	done := 0
	for _, state := range s.Runs {
		if isFinished(state) {
			done++
		}
	}
	e := &FailedError{Total: len(s.Runs)}
	for _, j := range r.jobs {
		if j.phase != failed {
			continue
		}
		f := Failure{Entry: j.entry, Arm: r.arms[j.entry.Arm], Reason: j.failure}
		if j.attempts > 0 {
			_, f.Log = logTail(j.path, j.logFrom)
		}
		e.Failures = append(e.Failures, f)
	}
	e.Left = e.Total - done - len(e.Failures)
	early, stoppedEarly := r.halted.(*EarlyDeathsError)
	switch {
	case r.interrupted && e.Left > 0:
		also := ""
		if n := len(e.Failures); n > 0 {
			also = fmt.Sprintf(", %d failed", n)
		}
		return fmt.Errorf("%w: %d of %s done%s; the same command continues", train.ErrInterrupted, done, textutil.Count(e.Total, "run"), also)
	case stoppedEarly:
		return early
	case len(e.Failures) > 0:
		return e
	}
	return nil
}
