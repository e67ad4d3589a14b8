//go:build unix

package cmd

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/supervised"
)

// waitFor waits until a process has written what is asked for.
func waitFor(t *testing.T, c *exec.Cmd, what func() bool) {
	t.Helper()
	for range 6000 {
		if what() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nothing after a minute: %s", c.Stderr)
}

// exitOf waits for the end of a process and returns its exit code, -1 after a
// signal.
func exitOf(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		return code(t, err)
	case <-time.After(time.Minute):
		c.Process.Kill()
		<-done
		t.Fatalf("it did not end: %s", c.Stderr)
		return 0
	}
}

// notIgnored skips a test of a signal that processes ignore here, as hangups under nohup(1).
func notIgnored(t *testing.T, sig os.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skipf("%s is ignored here", sig)
	}
}

// fullPipe is a pipe that takes no more bytes: a process that prints into it
// waits, on every machine in the same place.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	expect.OK(t, err)
	t.Cleanup(func() { read.Close(); write.Close() })
	expect.OK(t, write.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for {
		if _, err := write.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	return write
}

// A command that has nothing to save ends at the first signal.
func TestFirstSignalEndsWhatOnlyReads(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	mustSucceed(t, "train", "-c", "smoke", "--steps", "2", "--out", "run", "--quiet")
	mustSucceed(t, "data", "generate", "-c", "smoke", "--out", "problems")
	// The first prints its counts before it ends, and would wait for the pipe: see
	// TestInterruptedEvalPrintsItsCounts.
	for _, tt := range readers[1:] {
		t.Run(tt.args, func(t *testing.T) {
			notIgnored(t, tt.with)
			// A signal that comes before the program listens ends it too; then it
			// gets more time to start.
			for delay := 200 * time.Millisecond; delay < time.Minute; delay *= 2 {
				c := grpo(t, strings.Fields(tt.args)...)
				c.Stdout = fullPipe(t)
				expect.OK(t, c.Start())
				time.Sleep(delay)
				c.Process.Signal(tt.with)
				got := exitOf(t, c)
				if got == -1 {
					continue
				}
				if stderr := c.Stderr.(*bytes.Buffer).String(); got != exitInterrupted || !strings.HasSuffix(stderr, "grpo: interrupted\n") {
					t.Errorf("exit code %d, want %d: %s", got, exitInterrupted, stderr)
				}
				return
			}
			t.Error("it never listened to the signal")
		})
	}
}

// Signals within half a second are one request to stop; one that comes later
// ends the process at once.
func TestSecondSignal(t *testing.T) {
	long(t)
	dir := filepath.Join(t.TempDir(), "s")
	mustSucceed(t, "sweep", "lr", "--values", "1e-3", "--seeds", "1", "-c", "smoke", "--out", dir, "--prepare")
	c := grpo(t, "task", "--sweep", dir, "--index", "0")
	c.Env = append(c.Env, "HOLD_RUN="+dir+":2", "HOLD_FOREVER=1")
	expect.OK(t, c.Start())
	log := func() string {
		runs, _ := os.ReadDir(filepath.Join(dir, "runs"))
		if len(runs) == 0 {
			return ""
		}
		data, _ := os.ReadFile(filepath.Join(dir, "runs", runs[0].Name(), "run.log"))
		return string(data)
	}
	waitFor(t, c, func() bool { return strings.Contains(log(), "step 2:") })
	first := time.Now()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
		if time.Since(first) > time.Minute {
			t.Fatal("the second signal does not end it")
		}
	}
	if got := code(t, <-done); got != -1 {
		t.Errorf("exit code %d, want its end by a signal: %s", got, c.Stderr)
	}
	if took := time.Since(first); took < oneRequest {
		t.Errorf("it ended %s after the first signal, want at least %s", took, oneRequest)
	}
}

// A supervised run saves nothing on the way: it ends with 130 and leaves no
// weights and no temporary file.
func TestSFTInterrupted(t *testing.T) {
	long(t)
	dir := filepath.Join(t.TempDir(), "base")
	c := grpo(t, "sft", "--out", dir, "--quiet")
	expect.OK(t, c.Start())
	waitFor(t, c, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, supervised.SFTLogFile))
		return err == nil && bytes.Contains(data, []byte("\n"))
	})
	c.Process.Signal(os.Interrupt)
	if got := exitOf(t, c); got != exitInterrupted {
		t.Errorf("exit code %d, want %d: %s", got, exitInterrupted, c.Stderr)
	}
	if got, want := names(t, dir), ".claims config.yaml sft.jsonl"; got != want {
		t.Errorf("it left %s, want %s", got, want)
	}
}

// names lists a folder, hidden files too.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// An estimate that is interrupted is none, and leaves no folder.
func TestDryRunInterrupted(t *testing.T) {
	long(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			notIgnored(t, sig)
			temp := t.TempDir()
			// Four models are measured, one after the other.
			c := grpo(t, "sweep", "hidden_size", "--values", "16,32,48,64", "--set", "model.init=random", "--seeds", "1", "--dry-run", "--out", filepath.Join(t.TempDir(), "s"))
			c.Env = append(c.Env, "TMPDIR="+temp)
			expect.OK(t, c.Start())
			waitFor(t, c, func() bool { return strings.Contains(names(t, temp), "grpo-probe-") })
			c.Process.Signal(sig)
			if got := exitOf(t, c); got != exitInterrupted {
				t.Errorf("exit code %d, want %d: %s", got, exitInterrupted, c.Stderr)
			}
			if out := c.Stdout.(*bytes.Buffer).String(); out != "" {
				t.Errorf("it printed %s", out)
			}
			if left := names(t, temp); left != "" {
				t.Errorf("it left %s", left)
			}
		})
	}
}
