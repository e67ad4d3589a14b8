package cmd

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/hubtest"
	"grpo/pkg/hub"
	"grpo/pkg/model/kernel"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/train"
)

// gc saves a third of the time of commands that end within a second: the collector runs less often.
const gc = "400"

func TestMain(m *testing.M) {
	os.Setenv("GOGC", gc)
	programs := maps.Clone(fakeSlurm)
	plots.DPI, sweep.ProbeTime = 20, 0
	programs["grpo"] = func() {
		checkOutputs()
		dir, at, _ := strings.Cut(os.Getenv("HOLD_RUN"), ":")
		if step, err := strconv.Atoi(at); err == nil && slices.Contains(os.Args, dir) {
			observed = func(ctx context.Context, o train.Observer) train.Observer {
				h := holding{Observer: o, done: ctx.Done(), step: step}
				if os.Getenv("HOLD_FOREVER") != "" {
					h.done = nil
				}
				return h
			}
		}
		os.Exit(Main())
	}
	testscript.Main(m, programs)
}

// holding stops a run after a step until it is interrupted.
type holding struct {
	train.Observer
	done <-chan struct{}
	step int
}

func (h holding) Begin(resumedAt, steps int) {
	h.Observer.Begin(resumedAt, steps)
	if h.step == 0 {
		<-h.done
	}
}

func (h holding) Step(m rundir.Metrics) {
	h.Observer.Step(m)
	if m.Step >= h.step {
		<-h.done
	}
}

// Each script is one scenario as a user types it. In addition to testscript's own
// commands there are:
//
//	exits CODE prog args...   run a program that must end with this exit code
//	samerun DIR1 DIR2         two runs must be equal to the bit, times apart
//	truncate FILE N           cut a file to its first N bytes
//
// sbatch, squeue, scontrol and scancel are those of slurm_fake_test.go.
//
// HUB is the address of a server like the Hugging Face Hub, with the model org/tiny, and GitHub.
//
// TINY is a small Hugging Face folder, to read only: "tiny DIR" makes a copy of it.
//
// EXAMPLES is the folder examples of the repository.
//
// With HOLD_RUN=DIR:N in its environment, a run of the sweep in DIR waits
// after step N (0: before its first step) until it is asked to stop, with HOLD_FOREVER
// until it is killed.
func TestScripts(t *testing.T) {
	shared, err := filepath.Abs(filepath.Join("..", "..", "shared"))
	expect.OK(t, err)
	examples, err := filepath.Abs(filepath.Join("..", "examples"))
	expect.OK(t, err)
	tiny := decodertest.Folder(t)
	hub := pullServer(t, tiny, shared)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOGC", gc)
			e.Setenv("SHARED", shared)
			e.Setenv("TINY", tiny) // a tiny Llama checkpoint
			e.Setenv("HUB", hub)
			e.Setenv("EXAMPLES", examples)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared":
				_, err := os.Stat(shared)
				return err == nil, nil
			case "long": // what takes half a minute: GRPO_LONG=1, as in CI
				return os.Getenv("GRPO_LONG") != "", nil
			case "avx512":
				return kernel.Name() == "avx512", nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "samerun": sameRun, "truncate": truncate, "tiny": tinyCopy,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE prog args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func sameRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: samerun DIR1 DIR2")
	}
	a, err := rundir.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := rundir.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(different(a, b))
}

// different is how two runs differ, times apart.
func different(a, b *rundir.Run) error {
	err := errors.Join(rundir.CompareMetrics(a.Metrics, b.Metrics), rundir.CompareEvals(a.Evals, b.Evals),
		rundir.CompareSamples(a.Samples, b.Samples))
	if len(a.Metrics) == 0 || a.Result == nil || b.Result == nil || a.Result.WeightsSHA256 != b.Result.WeightsSHA256 ||
		a.Result.Checks != b.Result.Checks {
		return errors.Join(err, errors.New("there is nothing to compare, or the weights or the checks differ"))
	}
	return err
}

func tinyCopy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tiny DIR")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(ts.Getenv("TINY"))))
}

func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// pullServer starts a server with the model org/tiny, a model of another network, and the data sets
// that are below shared. It returns its address.
func pullServer(t *testing.T, tiny, shared string) string {
	s := hubtest.New(t)
	s.AddFolder(t, "org/tiny", tiny)
	s.Files["org/mamba/config.json"] = []byte(`{"model_type":"mamba"}`)
	s.Files["org/mamba/model.safetensors"] = []byte("x")
	for _, d := range hub.DataSets() {
		for _, f := range d.Files {
			if data, err := os.ReadFile(filepath.Join(shared, "data", d.Name, f.Name)); err == nil {
				s.Files[f.Path] = data
			}
		}
	}
	return s.URL
}
