//go:build unix

package sweep

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// processEnv makes the test binary a program of two commands:
//
//	task ...     one run, as `grpo task`
//	launch DIR   the launcher of the sweep in DIR
const processEnv = "SWEEP_TEST_PROCESS"

// holdEnv makes a task wait after this step until it is asked to stop, so that
// what a test does to a running run never depends on how fast the machine is.
const holdEnv = "SWEEP_TEST_HOLD"

// hangEnv names a file; the task that makes it hangs at its second step.
const hangEnv = "SWEEP_TEST_HANG"

func TestMain(m *testing.M) {
	if os.Getenv(processEnv) == "" {
		// A draw makes a plan or a folder. -rapid.checks overrides it.
		if err := flag.Set("rapid.checks", "40"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch os.Args[1] {
	case "task":
		err = taskProcess(ctx, os.Args[2:])
	case "launch":
		_, err = Run(ctx, os.Args[2], Options{Launcher: local(), Observer: &journal{}, Now: time.Now, Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond, Cores: 2})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpo:", err)
	}
	os.Exit(codeOf(err))
}

func codeOf(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, config.ErrConfig):
		return 2
	case errors.Is(err, rundir.ErrNothingSaved):
		return ExitNothingSaved
	case errors.Is(err, rundir.ErrInterrupted):
		return ExitInterrupted
	}
	return exitFailed
}

func taskProcess(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("task", flag.ExitOnError)
	dir, index := fs.String("sweep", "", ""), fs.Int("index", -1, "")
	threads, supervised := fs.Int("threads", 0, ""), fs.Bool("supervised", false, "")
	if err := fs.Parse(args); err != nil || !*supervised || os.Getenv("GOMAXPROCS") != strconv.Itoa(*threads) {
		return fmt.Errorf("called by %q with GOMAXPROCS=%s: %v", args, os.Getenv("GOMAXPROCS"), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	o := TaskOptions{Threads: *threads, Now: time.Now, Observer: quiet{}}
	if step, err := strconv.Atoi(os.Getenv(holdEnv)); err == nil {
		o.Observer = holding{done: ctx.Done(), step: step}
	}
	if how := os.Getenv(dieEnv); how != "" {
		o.Observer = dying{how: how}
	}
	if name := os.Getenv(hangEnv); name != "" {
		if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			f.Close()
			o.Observer = holding{done: nil, step: 2} // which nothing ends
		}
	}
	_, err := Task(ctx, *dir, *index, o)
	return err
}

// holding is an observer that stops a run at a step.
type holding struct {
	quiet
	done <-chan struct{}
	step int
}

func (h holding) Step(m rundir.Metrics) {
	if m.Step >= h.step {
		<-h.done
	}
}

// local starts this test binary.
func local() Local {
	return Local{Path: os.Args[0], Name: "grpo", Env: append(os.Environ(), processEnv+"=1", "GOMAXPROCS=64"), Now: time.Now}
}

// uninterrupted runs a sweep in this process, run after run.
func uninterrupted(t *testing.T, m sweepdir.Manifest) *sweepdir.Sweep {
	t.Helper()
	dir := writeSweep(t, m)
	for i := range m.Runs {
		expect.OK(t, expect.Err(Task(t.Context(), dir, i, taskOptions())))
	}
	return openSweep(t, dir)
}

func openSweep(t *testing.T, dir string) *sweepdir.Sweep {
	t.Helper()
	s, err := sweepdir.Open(dir)
	expect.OK(t, err)
	return s
}

// timeless is a result without its time and without the hash of the lines of
// metrics, which hold times; what they say otherwise is compared line by line.
func timeless(r rundir.Result) rundir.Result {
	r.WallS = 0
	r.Files = maps.Clone(r.Files)
	delete(r.Files, rundir.MetricsFile)
	return r
}

// same compares two finished sweeps to the bit, times apart.
func same(t *testing.T, got, want *sweepdir.Sweep) {
	t.Helper()
	for i, g := range got.Runs {
		w := want.Runs[i].Run
		if !g.Finished() {
			t.Errorf("run %d is %s: %s", i, g.State, g.Error)
			continue
		}
		a, b := timeless(*g.Run.Result), timeless(*w.Result)
		x, _ := rundir.Marshal(a)
		y, _ := rundir.Marshal(b)
		if !bytes.Equal(x, y) {
			t.Errorf("run %d: result %s\nwant %s", i, x, y)
		}
		for _, err := range []error{
			rundir.CompareMetrics(g.Run.Metrics, w.Metrics), rundir.CompareEvals(g.Run.Evals, w.Evals), rundir.CompareSamples(g.Run.Samples, w.Samples),
		} {
			if err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		}
		if len(g.Run.Metrics) == 0 {
			t.Errorf("run %d has no metrics to compare", i)
		}
	}
}

func TestLocal(t *testing.T) {
	long(t)
	m := realManifest(t, []string{"0.001", "0.003"}, 2)
	dir := writeSweep(t, m)
	j := &journal{}
	s, err := Run(t.Context(), dir, Options{Launcher: local(), Observer: j, Now: time.Now, Cores: 2, Poll: 20 * time.Millisecond})
	expect.OK(t, err)
	same(t, s, uninterrupted(t, m))
	if j.count(Started) != 4 || j.count(Ended) != 4 || j.count(Progress) == 0 {
		t.Errorf("%d started, %d ended, %d times progress", j.count(Started), j.count(Ended), j.count(Progress))
	}
	text, err := os.ReadFile(filepath.Join(s.Runs[2].Path(dir), sweepdir.TaskLog))
	want := textutil.CommandLine([]string{"grpo", "task", "--sweep", dir, "--index", "2", "--threads", "1", "--supervised"})
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("log %q, %v", text, err)
	}
}

func TestLocalFails(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "problems.jsonl")
	m := realManifest(t, []string{"0.001", "0.003"}, 1)
	broken := realManifest(t, []string{"0.001", "0.003"}, 1, "data.source=gsm8k", "data.train_file="+file, "data.val_file="+file)
	m.Runs[1] = broken.Runs[1]
	m.Hash = m.Identity()
	dir := writeSweep(t, m)
	s, err := Run(t.Context(), dir, Options{Launcher: local(), Observer: &journal{}, Now: time.Now, Cores: 2, Poll: 20 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "lr=0.003, seed 1: ") || !strings.Contains(err.Error(), file) || states(s) != "done failed" {
		t.Errorf("error %v, states %s", err, states(s))
	}
	l := local()
	l.Path = filepath.Join(t.TempDir(), "none")
	_, err = Run(t.Context(), dir, Options{Launcher: l, Observer: &journal{}, Now: time.Now, Poll: time.Millisecond, Pause: time.Millisecond})
	var early *EarlyDeathsError
	if !errors.As(err, &early) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// A child that hangs is found, reported, killed and replaced, and nothing is lost.
func TestLocalHangs(t *testing.T) {
	long(t)
	m := realManifest(t, []string{"0.001", "0.003"}, 1, "train.n_grpo_steps=4", "eval.every_n_steps=1")
	dir := writeSweep(t, m)
	l, j := local(), &journal{}
	l.Env = append(l.Env, hangEnv+"="+filepath.Join(t.TempDir(), "hung"))
	s, err := Run(t.Context(), dir, Options{Launcher: l, Observer: j, Now: time.Now, Cores: 1, Poll: 20 * time.Millisecond, Pause: time.Millisecond, HangAfter: 3 * time.Second})
	expect.OK(t, err)
	same(t, s, uninterrupted(t, m))
	e := j.first(Hung)
	if e.Err == nil || !strings.Contains(e.Err.Error(), "no sign of life for 3s") || !strings.Contains(j.of(e.Entry.Index), "started, hung, died, started, ended") {
		t.Errorf("%v: %s", e.Err, j.of(e.Entry.Index))
	}
}

// launch starts a launcher in a process of its own.
func launch(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "launch", dir)
	c.Env = append(append(os.Environ(), processEnv+"=1"), env...)
	c.Stderr = &bytes.Buffer{}
	expect.OK(t, c.Start())
	return c
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("after a minute still not: %s", what)
}

// atWork counts runs on which a process works, with at least this many steps.
func atWork(s *sweepdir.Sweep, steps int) (n int) {
	for _, r := range s.Runs {
		if r.State == rundir.StateRunning && r.Run != nil && len(r.Run.Metrics) >= steps {
			n++
		}
	}
	return n
}

// A launcher that is asked to stop leaves checkpoints and no process; one that
// is killed leaves its children to do the same by themselves.
func TestLocalStops(t *testing.T) {
	long(t)
	m := realManifest(t, []string{"0.001", "0.003"}, 1, "train.n_grpo_steps=12", "eval.every_n_steps=6")
	want := uninterrupted(t, m)
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{{"SIGINT", syscall.SIGINT, ExitInterrupted}, {"SIGTERM", syscall.SIGTERM, ExitInterrupted}, {"SIGKILL", syscall.SIGKILL, -1}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeSweep(t, m)
			c := launch(t, dir, holdEnv+"=3")
			eventually(t, "both runs are running", func() bool { return atWork(openSweep(t, dir), 3) == 2 })
			for _, r := range openSweep(t, dir).Runs {
				pid := r.Run.Status.PID
				if group, err := syscall.Getpgid(pid); err != nil || group != pid {
					t.Errorf("Ctrl-C on the terminal would reach process %d in group %d (%v)", pid, group, err)
				}
			}
			expect.OK(t, c.Process.Signal(tt.signal))
			c.Wait()
			if got := c.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, want %d: %s", got, tt.code, c.Stderr)
			}
			if tt.code == ExitInterrupted && !strings.Contains(fmt.Sprint(c.Stderr), "grpo: interrupted: 0 of 2 runs done; the same command continues") {
				t.Errorf("stderr: %s", c.Stderr)
			}
			if tt.code != ExitInterrupted {
				eventually(t, "the children stopped", func() bool { return atWork(openSweep(t, dir), 0) == 0 })
			}
			s := openSweep(t, dir)
			for _, r := range s.Runs {
				if r.State != rundir.StateInterrupted || r.Run.Status.Step != 3 {
					t.Errorf("run %d is %s at step %d", r.Index, r.State, r.Run.Status.Step)
				}
			}
			c = launch(t, dir)
			if err := c.Wait(); err != nil {
				t.Errorf("the same command again: %v: %s", err, c.Stderr)
			}
			same(t, openSweep(t, dir), want)
		})
	}
}

// Two commands on one folder at the same time share the work.
func TestLocalTwiceAtOnce(t *testing.T) {
	long(t)
	m := realManifest(t, []string{"0.001", "0.003"}, 2)
	dir := writeSweep(t, m)
	for _, c := range []*exec.Cmd{launch(t, dir), launch(t, dir)} {
		t.Cleanup(func() { c.Process.Kill() })
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.Stderr)
		}
		if s := openSweep(t, dir); !s.Finished() {
			t.Errorf("a command ended while the sweep is %s", states(s))
		}
	}
	for _, r := range openSweep(t, dir).Runs {
		text, err := os.ReadFile(filepath.Join(r.Path(dir), rundir.LogFile))
		if n := strings.Count(string(text), "starting, "); err != nil || n != 1 {
			t.Errorf("run %d was started %d times, %v", r.Index, n, err)
		}
	}
}
