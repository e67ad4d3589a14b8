//go:build unix

package cmd

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// These tests send signals to real processes: the test binary under the name
// grpo is the program (see TestMain).

func grpo(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Args[0] = "grpo"
	c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GRPO_LONG=") }) // the tests' own
	c.Stdout, c.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// code is the exit code of a process that has ended, or -1 after a signal.
func code(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

func mustSucceed(t *testing.T, args ...string) {
	t.Helper()
	c := grpo(t, args...)
	if err := c.Run(); err != nil {
		t.Fatalf("grpo %s: %v\n%s", strings.Join(args, " "), err, c.Stderr)
	}
}

// slow is a run whose steps take long enough to be hit in the middle.
func slow(dir string) []string {
	return []string{"train", "-c", "smoke", "--steps", "8", "--set", "eval.every_n_steps=1", "--set", "data.val_size=64",
		"--set", "data.test_size=0", "--set", "data.unseen_size=0", "--set", "rollout_batch_size=32",
		"--set", "checkpoint_every_n_steps=2", "--out", dir, "--quiet"}
}

// startRun starts a run and waits until it has written a step.
func startRun(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	c := grpo(t, slow(dir)...)
	expect.OK(t, c.Start())
	waitFor(t, c, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, rundir.MetricsFile))
		return err == nil && bytes.Contains(data, []byte("\n"))
	})
	return c
}

func sameRuns(t *testing.T, a, b string) {
	t.Helper()
	x, err := rundir.Open(a)
	expect.OK(t, err)
	y, err := rundir.Open(b)
	expect.OK(t, err)
	expect.OK(t, different(x, y))
}

// However a process ends, the continued run has the results of an uninterrupted one. Without GRPO_LONG,
// which CI sets, the signals that are handled as SIGINT is are left out.
func TestSignals(t *testing.T) {
	long(t)
	whole := filepath.Join(t.TempDir(), "whole")
	mustSucceed(t, slow(whole)...)
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, c *exec.Cmd)
		want int
	}{
		{"SIGINT", func(t *testing.T, c *exec.Cmd) { c.Process.Signal(os.Interrupt) }, exitResumable},
		{"SIGTERM", func(t *testing.T, c *exec.Cmd) { c.Process.Signal(syscall.SIGTERM) }, exitResumable},
		{"SIGHUP", func(t *testing.T, c *exec.Cmd) { c.Process.Signal(syscall.SIGHUP) }, exitResumable},
		{"two signals as of timeout(1)", func(t *testing.T, c *exec.Cmd) {
			c.Process.Signal(syscall.SIGTERM)
			time.Sleep(2 * time.Millisecond)
			c.Process.Signal(os.Interrupt)
		}, exitResumable},
		{"SIGHUP under nohup(1)", func(t *testing.T, c *exec.Cmd) { c.Process.Signal(syscall.SIGHUP) }, exitDone},
		{"a second SIGINT", func(t *testing.T, c *exec.Cmd) {
			// The first is answered between two steps; until then the process takes
			// the next as anyone would.
			for c.Process.Signal(os.Interrupt) == nil {
				time.Sleep(5 * time.Millisecond)
				if c.ProcessState != nil {
					return
				}
			}
		}, -1},
		{"SIGKILL", func(t *testing.T, c *exec.Cmd) { c.Process.Kill() }, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Getenv("GRPO_LONG") == "" && (tt.name == "SIGTERM" || tt.name == "SIGHUP") {
				t.Skip("it is as SIGINT: GRPO_LONG=1 go test ./cmd")
			}
			if tt.name == "SIGHUP" {
				notIgnored(t, syscall.SIGHUP)
			}
			dir := filepath.Join(t.TempDir(), "run")
			if tt.want == exitDone {
				signal.Ignore(syscall.SIGHUP) // processes inherit it
				defer signal.Reset(syscall.SIGHUP)
			}
			c := startRun(t, dir)
			done := make(chan error, 1)
			go func() { done <- c.Wait() }()
			ended := make(chan struct{})
			go func() { tt.end(t, c); close(ended) }()
			got := code(t, <-done)
			<-ended
			if got != tt.want && !(tt.want == -1 && got == exitResumable) { // it may have been quicker
				t.Errorf("exit code %d, want %d: %s", got, tt.want, c.Stderr)
			}
			if got == exitResumable && !strings.Contains(c.Stderr.(*bytes.Buffer).String(), "the same command continues") {
				t.Errorf("stderr: %q", c.Stderr)
			}
			mustSucceed(t, "train", "--resume", dir, "--quiet")
			sameRuns(t, whole, dir)
		})
	}
}

// Two processes on one folder: the second reports who has it, and the first is
// not disturbed. A claim that a killed process left binds nobody.
func TestTwoProcessesOnOneFolder(t *testing.T) {
	long(t)
	dir := filepath.Join(t.TempDir(), "run")
	first := startRun(t, dir)
	expect.OK(t, first.Process.Signal(syscall.SIGSTOP)) // it would be done before two others have started
	for _, args := range [][]string{slow(dir), {"train", "--resume", dir}} {
		second := grpo(t, args...)
		if got := code(t, second.Run()); got != exitFailed {
			t.Errorf("exit code %d, want %d", got, exitFailed)
		}
		if stderr := second.Stderr.(*bytes.Buffer).String(); !strings.Contains(stderr, "process "+strconv.Itoa(first.Process.Pid)+" is writing to this folder") || !strings.Contains(stderr, dir) {
			t.Errorf("stderr: %q", stderr)
		}
	}
	expect.OK(t, first.Process.Kill())
	first.Wait()
	if _, err := os.Stat(filepath.Join(dir, rundir.ClaimsDir, "1", "heartbeat")); err != nil {
		t.Fatalf("the killed process left no heartbeat: the case shows nothing: %v", err)
	}
	mustSucceed(t, slow(dir)...)
}
