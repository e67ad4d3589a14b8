package sweep

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Failure is a run that was given up.
type Failure struct {
	Run    string // arm and seed
	Reason error
	Log    string // empty if no process was started
}

// FailedError reports the runs of a sweep that failed.
type FailedError struct {
	Failures []Failure
	Total    int // runs of the sweep
	Left     int // runs that have no result because of the failures
}

// Error implements error, a line for each run.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("%d of %s failed", len(e.Failures), textutil.Count(e.Total, "run"))
	if e.Left > 0 {
		text += fmt.Sprintf(", and %d were not finished", e.Left)
	}
	again := "the same command tries only failed runs again"
	if e.Left > 0 {
		again = "the same command trains the missing runs"
	}
	text += "; " + again
	for _, f := range e.Failures {
		text += fmt.Sprintf("\n  %s: %v", f.Run, f.Reason)
		if f.Log != "" {
			text += fmt.Sprintf(" (log: %s)", f.Log)
		}
	}
	return text
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
	done := 0
	e := &FailedError{}
	for _, state := range s.Runs {
		if state.Finished() {
			done++
		}
		if state.State != sweepdir.Stopped {
			e.Total++
		}
	}
	for _, j := range r.in(failed) {
		f := Failure{Run: r.name(j), Reason: j.failure}
		if j.attempts > 0 {
			_, f.Log = logTail(j.path, j.logFrom)
		}
		e.Failures = append(e.Failures, f)
	}
	e.Left = e.Total - done - len(e.Failures) - len(r.in(queued))
	early, stoppedEarly := r.halted.(*EarlyDeathsError)
	switch {
	case r.interrupted && e.Left > 0:
		also := ""
		if n := len(e.Failures); n > 0 {
			also = fmt.Sprintf(", %d failed", n)
		}
		return fmt.Errorf("%w: %d of %s done%s; the same command continues", train.ErrInterrupted, done,
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

func taskLog(run string) string { return filepath.Join(run, sweepdir.TaskLog) }

// logTail returns the end of the output of a run's process since offset, or of the
// run's own log if the process printed nothing, and the path of that log.
func logTail(dir string, offset int64) (text, path string) {
	path = taskLog(dir)
	text = lastLines(path, offset)
	if own := filepath.Join(dir, rundir.LogFile); text == "" && stampOf(own) != (stamp{}) {
		return lastLines(own, 0), own
	}
	return text, path
}

// lastLines returns at most tailLines lines from the last tailBytes of a file, and of
// a panic the first lines, which have the message.
func lastLines(path string, from int64) string {
	const tailLines, tailBytes = 12, 64 << 10
	data, _, err := regular.Tail(path, from, tailBytes)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	begin := max(0, len(lines)-tailLines)
	for i, l := range lines {
		if bytes.HasPrefix(l, []byte("panic: ")) || bytes.HasPrefix(l, []byte("fatal error: ")) {
			begin = i
			break
		}
	}
	return string(bytes.Join(lines[begin:min(begin+tailLines, len(lines))], []byte("\n")))
}

// lastMessage is the message with which a program ended, if its log has one.
func lastMessage(text string) string {
	var message string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, p := range []string{"panic: ", "fatal error: ", "runtime: "} {
			if strings.HasPrefix(line, p) {
				return line
			}
		}
		if rest, ok := strings.CutPrefix(line, "grpo: "); ok {
			message = rest
		}
	}
	return message
}
