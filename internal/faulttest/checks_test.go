//go:build unix

package faulttest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

type nobody struct{}

func (nobody) Begin(int, int)      {}
func (nobody) Step(rundir.Metrics) {}
func (nobody) Eval(rundir.Eval)    {}
func (nobody) Note(string)         {}

// makeRun makes a very small run in dir.
func makeRun(t *testing.T, dir string, seed string) {
	t.Helper()
	r, err := config.Load(config.LoadOptions{Path: "smoke", Set: []string{"seed=" + seed, "n_grpo_steps=2", "every_n_steps=1",
		"rollout_batch_size=16", "val_size=16", "test_size=16", "unseen_size=16"}})
	expect.OK(t, err)
	if _, err := train.Run(t.Context(), r.Config, train.Options{Dir: dir, Threads: 1, Now: time.Now, Observer: nobody{}}); err != nil {
		t.Fatal(err)
	}
}

// TestSame: the comparison that every fault uses finds each kind of difference.
func TestSame(t *testing.T) {
	root := t.TempDir()
	l := &lab{reference: filepath.Join(root, "reference")}
	makeRun(t, l.reference, "1")
	expect.OK(t, l.same(l.reference))
	again := filepath.Join(root, "again")
	makeRun(t, again, "1")
	if err := l.same(again); err != nil {
		t.Errorf("the same run again: %v", err)
	}
	other := filepath.Join(root, "other")
	makeRun(t, other, "2")
	if err := l.same(other); err == nil {
		t.Error("a run of another seed is equal")
	}
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"a leftover", func(dir string) error { return os.WriteFile(filepath.Join(dir, ".x-tmp"), nil, 0o644) }, "the files differ"},
		{"a leftover of the run's own", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".result.json.12-3.grpo-tmp"), nil, 0o644)
		}, "the files differ"},
		{"no result", func(dir string) error { return os.Remove(filepath.Join(dir, rundir.ResultFile)) }, ""},
		{"a line lost", func(dir string) error {
			path := filepath.Join(dir, rundir.MetricsFile)
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, data[:bytes.IndexByte(data, '\n')+1], 0o644))
		}, ""},
		{"other weights", func(dir string) error {
			data, err := os.ReadFile(filepath.Join(other, rundir.CheckpointDir, "last.safetensors"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, rundir.CheckpointDir, "last.safetensors"), data, 0o644))
		}, "the weights differ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			expect.OK(t, errors.Join(os.CopyFS(dir, os.DirFS(l.reference)), c.spoil(dir)))
			expect.Error(t, l.same(dir), c.want)
		})
	}
}

func TestIsReportTemp(t *testing.T) {
	for name, want := range map[string]bool{
		".training.png.12-3.grpo-tmp": true, "sub/.report.html.1-2.grpo-tmp": true, ".results.json.1-2.grpo-tmp": true,
		"training.png": false, ".training.png": false, ".result.json.1-2.grpo-tmp": false, ".metrics.jsonl.1-2.grpo-tmp": false,
		".last.safetensors.1-2.grpo-tmp": false,
	} {
		if got := isReportTemp(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClear(t *testing.T) {
	for _, c := range []struct {
		name string
		o    outcome
		ok   bool
	}{
		{"as it should be", outcome{code: 1, stderr: "run folder x\ngrpo: write x: no space left on device\n"}, true},
		{"another code", outcome{code: 2, stderr: "grpo: no space left on device"}, false},
		{"another reason", outcome{code: 1, stderr: "grpo: permission denied"}, false},
		{"nothing said", outcome{code: 1}, false},
		{"a panic", outcome{code: 1, stderr: "panic: x\n\ngoroutine 1 [running]:\ngrpo: no space left on device"}, false},
		{"a signal", outcome{code: -1, signal: syscall.SIGKILL, stderr: "grpo: no space left on device"}, false},
		{"not the program's last word", outcome{code: 1, stderr: "grpo: x\nno space left on device"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := clear(c.o, []int{1}, noSpace); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	l := &lab{rng: rand.New(rand.NewPCG(1, 2))}
	data := []byte("0123456789")
	for range 1000 {
		what, bad := l.flip(data)
		differ := 0
		for i := range data {
			if bad[i] != data[i] {
				differ++
			}
		}
		if differ != 1 || len(bad) != len(data) {
			t.Fatalf("%s: %q", what, bad)
		}
		if what, bad := l.cut(data); len(bad) >= len(data) || !bytes.HasPrefix(data, bad) {
			t.Fatalf("%s: %q", what, bad)
		}
	}
	if string(data) != "0123456789" {
		t.Error("the original was damaged")
	}
}

// TestStreams: a fault's random moments do not depend on which other faults are tried.
func TestStreams(t *testing.T) {
	l := &lab{seed: 3, took: time.Second, work: "w"}
	a, b := l.at("Disk full"), l.at("kill -9")
	first := []time.Duration{a.moment(), a.moment()}
	if b.moment(); !slices.Equal(first, func() []time.Duration { c := l.at("Disk full"); return []time.Duration{c.moment(), c.moment()} }()) {
		t.Error("the moments of a fault depend on another's")
	}
	if b.moment() == first[0] || a.dir() != filepath.Join("w", "disk-full-1") || a.dir() != filepath.Join("w", "disk-full-2") {
		t.Error("streams or folders are shared")
	}
}

// TestKillChild: a child of another process, or of none, is never killed.
func TestKillChild(t *testing.T) {
	if killed, err := killChild(1<<30, 0); killed || err != nil {
		t.Errorf("a process that does not exist: %v, %v", killed, err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("children are found on Linux only")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestSleep$", "-test.v")
	c.Env = append(os.Environ(), "FAULTTEST_SLEEP=1")
	expect.OK(t, c.Start())
	if killed, err := killChild(c.Process.Pid, 0); killed || err != nil {
		t.Errorf("a process without children: %v, %v", killed, err)
	}
	if killed, err := killChild(os.Getpid(), 3); !killed || err != nil {
		t.Errorf("the one child: %v, %v", killed, err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
}

// TestSleep is the child of TestKillChild.
func TestSleep(t *testing.T) {
	if os.Getenv("FAULTTEST_SLEEP") == "" {
		t.Skip("for a child only")
	}
	time.Sleep(time.Minute)
}
