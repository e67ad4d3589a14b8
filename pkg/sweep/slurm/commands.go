// Package slurm calls the commands of Slurm: sbatch, squeue, scontrol and scancel. It needs neither
// accounting (sacct) nor the JSON output, whose form differs between versions.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/process"
	"grpo/internal/textutil"
)

// Exec runs a program with this standard input and returns its standard output. A program that
// can't be run or reports an error is an [*Error].
type Exec func(ctx context.Context, stdin, name string, args ...string) (stdout string, err error)

// Error is the failure of one of Slurm's commands.
type Error struct {
	Program string
	Text    string // its message on one line
	Missing bool   // it is not on PATH
}

// Error implements error.
func (e *Error) Error() string {
	if e.Missing {
		return e.Program + " is not on PATH: Slurm's commands are needed (run this on a login node of the cluster)"
	}
	return fmt.Sprintf("%s: %s", e.Program, e.Text)
}

// IsMissing reports whether an error means that a command of Slurm is not on PATH.
func IsMissing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Missing
}

// Each command has a deadline: a controller that is down lets squeue wait for long, and one under load
// takes a job late.
const (
	answerWithin = 20 * time.Second
	submitWithin = time.Minute
)

// Commands runs the commands that are on PATH. One that does not end in time, or prints without end,
// is killed.
func Commands(ctx context.Context, stdin, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &Error{Program: name, Missing: true}
	}
	limit := answerWithin
	if name == "sbatch" {
		limit = submitWithin
	}
	out, message, err := process.Output(ctx, limit, stdin, path, args...)
	if err != nil {
		return "", &Error{Program: name, Text: messageOf(name, message, err)}
	}
	return out, nil
}

// messageOf puts the lines of an error on one, without the program's name.
func messageOf(name, text string, err error) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{name + ": ", "error: ", "fatal: "} {
			line = strings.TrimPrefix(line, prefix)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	var exit *exec.ExitError
	if len(lines) == 0 || !errors.As(err, &exit) { // not its own end
		lines = append([]string{err.Error()}, lines...)
	}
	return textutil.Printable(strings.Join(lines, "; "), 500)
}

// Task is a line of squeue: a job, or one task of an array.
type Task struct {
	Job     string // the job's, or the array's id
	ID      string // "12", or "12_3" for a task of an array
	Index   int    // in the array; -1 without one
	State   string // "PENDING", "RUNNING", "NODE_FAIL" and so on
	Reason  string // why it waits, or why it ended
	Node    string // empty while it waits
	Comment string
}

// ended are the states in which Slurm does nothing more with a job.
var ended = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
	"REVOKED", "TIMEOUT",
}

// Ended reports whether Slurm does nothing more with the job. Whether a run has its result is in
// its folder.
func (t Task) Ended() bool { return slices.Contains(ended, t.State) }

// Waiting reports whether the job waits to start, for the first time or again.
func (t Task) Waiting() bool {
	return t.State == "PENDING" || strings.HasPrefix(t.State, "REQUEUE") || t.State == "SPECIAL_EXIT"
}

// Held reports whether the job waits until somebody releases it.
func (t Task) Held() bool {
	reason := strings.ToLower(t.Reason)
	return t.Waiting() && (strings.Contains(reason, "held") || t.State == "REQUEUE_HOLD" || t.State == "SPECIAL_EXIT")
}

// LaunchFailed reports whether Slurm holds the job because its node could not start it.
func (t Task) LaunchFailed() bool {
	return t.Held() && strings.HasPrefix(strings.ReplaceAll(t.Reason, "_", " "), "launch failed")
}

// HeldText is how a held job starts; empty for another job.
func (t Task) HeldText() string {
	if !t.Held() {
		return ""
	}
	by := "Slurm holds job"
	switch {
	case t.LaunchFailed():
		by = "its node could not start it, and " + by
	case t.Reason == "JobHeldAdmin":
		by = "an operator of the cluster, who alone can release it, holds job"
	}
	return fmt.Sprintf("%s %s (%s); it starts after scontrol release %s", by, t.ID, t.Reason, t.ID)
}

// Tasks asks for the state of jobs, in one call. A job that Slurm no longer knows, or never knew,
// has no line.
func Tasks(ctx context.Context, run Exec, ids []string) ([]Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := run(ctx, "", "squeue", "-h", "-r", "-t", "all", "-j", strings.Join(ids, ","), "-o", "%i|%K|%T|%r|%N|%k")
	if err != nil {
		if e, ok := err.(*Error); ok && strings.Contains(strings.ToLower(e.Text), "invalid job id") {
			return nil, nil
		}
		return nil, err
	}
	var tasks []Task
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 6)
		if len(f) < 5 {
			continue
		}
		t := Task{ID: f[0], Index: -1, State: f[2], Reason: none(f[3]), Node: none(f[4])}
		t.Job, _, _ = strings.Cut(f[0], "_")
		if i, err := strconv.Atoi(f[1]); err == nil {
			t.Index = i
		}
		if len(f) == 6 {
			t.Comment = none(f[5])
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// none is empty for what Slurm writes in place of nothing.
func none(text string) string {
	switch text {
	case "None", "(null)", "N/A", "Unknown":
		return ""
	}
	return text
}

// Info is a job as scontrol shows it.
type Info struct {
	State     string
	Reason    string
	Limit     time.Time // when its time ends, or it was cancelled; zero = unknown or never
	Preempted bool
	Restarts  int // how often Slurm has put it back into the queue
}

// Cancelled reports whether the user has cancelled the job. While its processes end, Slurm calls it
// completing, like a job at its time limit and one that Slurm has put back into the queue.
func (i Info) Cancelled() bool {
	return i.State == "CANCELLED" || i.State == "COMPLETING" && !i.Preempted && !i.TimedOut()
}

// TimedOut reports whether the job is over its time limit.
func (i Info) TimedOut() bool { return i.State == "TIMEOUT" || i.Reason == "TimeLimit" }

// Show asks about one job. Slurm writes times without their zone: they are those of zone.
func Show(ctx context.Context, run Exec, id string, zone *time.Location) (Info, error) {
	out, err := run(ctx, "", "scontrol", "show", "job", id)
	if err != nil {
		return Info{}, err
	}
	var info Info
	seen := map[string]bool{}
	for _, word := range strings.Fields(out) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		switch key {
		case "JobState":
			info.State = value
		case "Reason":
			info.Reason = none(value)
		case "Restarts":
			info.Restarts, _ = strconv.Atoi(value)
		case "PreemptTime":
			info.Preempted = none(value) != ""
		case "EndTime":
			if t, err := time.ParseInLocation("2006-01-02T15:04:05", value, zone); err == nil {
				info.Limit = t
			}
		}
	}
	return info, nil
}

// MaxArraySize asks for the cluster's limit: indices of an array are below it. Slurm's default is
// returned if it does not tell.
func MaxArraySize(ctx context.Context, run Exec) int {
	const usual = 1001
	out, err := run(ctx, "", "scontrol", "show", "config")
	if err != nil {
		return usual
	}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(line, "=")
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && strings.TrimSpace(key) == "MaxArraySize" && n > 1 {
			return n
		}
	}
	return usual
}

// Requeue puts a running job back into the queue. Slurm may have done so itself.
func Requeue(ctx context.Context, run Exec, id string) error {
	_, err := run(ctx, "", "scontrol", "requeue", id)
	if e, ok := err.(*Error); ok && strings.Contains(strings.ToLower(e.Text), "pending execution") {
		return nil
	}
	return err
}

// Cancel cancels jobs, arrays with all their tasks.
func Cancel(ctx context.Context, run Exec, ids []string) error {
	_, err := run(ctx, "", "scancel", ids...)
	return err
}
