// Package slurm calls the commands of Slurm: sbatch, squeue, scontrol and scancel. It needs neither
// accounting (sacct) nor the JSON output, whose form differs between versions.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
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
