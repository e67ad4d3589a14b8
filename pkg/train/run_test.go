package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// small is a run of the base model that takes well under a second.
func small(set ...string) config.Config {
	r, err := config.Load(config.LoadOptions{Path: "smoke", Set: append([]string{
		"train.n_grpo_steps=8", "eval.every_n_steps=3", "rollout_batch_size=48", "data.train_size=256", "data.val_size=24", "data.test_size=12", "data.unseen_size=12",
	}, set...)})
	if err != nil {
		panic(err)
	}
	return r.Config
}

// watch is an observer that can end the run's context after a step.
type watch struct {
	after   int
	cancel  context.CancelFunc
	resumed int
	notes   []string
}

func (w *watch) Begin(resumedAt, _ int) { w.resumed = resumedAt }
func (w *watch) Step(m rundir.Metrics) {
	if w.cancel != nil && m.Step == w.after {
		w.cancel()
	}
}
func (w *watch) Eval(rundir.Eval) {}
func (w *watch) Note(s string)    { w.notes = append(w.notes, s) }

func options(dir string, o Observer, threads int) Options {
	return Options{Dir: dir, Threads: threads, Now: time.Now, Observer: o}
}

func mustLoad(t testing.TB, o config.LoadOptions) config.Config {
	t.Helper()
	r, err := config.Load(o)
	expect.OK(t, err)
	return r.Config
}

// modelOf is the model of a configuration.
func modelOf(t testing.TB, c config.Model, lora config.LoRA) *policy.Model {
	t.Helper()
	m, err := policy.Resolve(c, lora)
	expect.OK(t, err)
	return m
}

func mustRun(t testing.TB, cfg config.Config, dir string, threads int) *rundir.Run {
	t.Helper()
	expect.OK(t, expect.Err(Run(context.Background(), cfg, options(dir, &watch{}, threads))))
	return open(t, dir)
}

// watched makes or continues a run, and returns what it reported.
func watched(t testing.TB, cfg config.Config, dir string) *watch {
	t.Helper()
	w := &watch{}
	_, err := Run(context.Background(), cfg, options(dir, w, 1))
	expect.OK(t, err)
	return w
}

func uninterrupted(t testing.TB, cfg config.Config) *rundir.Run {
	t.Helper()
	return mustRun(t, cfg, t.TempDir(), 1)
}

// interrupted makes a run that ends after a step and can continue.
func interrupted(t testing.TB, cfg config.Config, after int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, cfg, options(dir, &watch{after: after, cancel: cancel}, 1))
	if !errors.Is(err, rundir.ErrInterrupted) || errors.Is(err, rundir.ErrNothingSaved) {
		t.Fatalf("interrupted after step %d: error %v, want rundir.ErrInterrupted", after, err)
	}
	return dir
}

// long marks tests that the race detector (-short) can skip: they do not depend on threads, and it
// makes them ten times slower.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short")
	}
}

func open(t testing.TB, dir string) *rundir.Run {
	t.Helper()
	r, err := rundir.Open(dir)
	expect.OK(t, err)
	return r
}

func sameBits(t *testing.T, a, b *rundir.Run) {
	t.Helper()
	for _, err := range []error{
		rundir.CompareMetrics(a.Metrics, b.Metrics), rundir.CompareEvals(a.Evals, b.Evals), rundir.CompareSamples(a.Samples, b.Samples),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if a.Result == nil || b.Result == nil || a.Result.WeightsSHA256 != b.Result.WeightsSHA256 {
		t.Error("the weights differ, or a result is missing")
	}
}

// resumesExactly makes a run, and the same run interrupted after a step and continued, on other numbers of
// threads, and compares their bits.
func resumesExactly(t *testing.T, cfg config.Config, after int) (want, got *rundir.Run) {
	t.Helper()
	want = mustRun(t, cfg, t.TempDir(), 2)
	got = mustRun(t, cfg, interrupted(t, cfg, after), 3)
	sameBits(t, want, got)
	return want, got
}

// A run that is interrupted after any of its steps and continued is bit-identical to the
// uninterrupted one, and so is one with another number of threads.
func TestResumeIsExact(t *testing.T) {
	cfg := small("output.checkpoint_every_n_steps=2")
	want := mustRun(t, cfg, t.TempDir(), 2)
	steps := []int{1, 4, 7}
	if testing.Short() {
		steps = steps[1:2]
	}
	for _, step := range steps {
		dir := interrupted(t, cfg, step)
		if r := open(t, dir); r.Status.State != rundir.StateInterrupted || r.Status.Step != step {
			t.Errorf("interrupted after step %d: status %+v", step, *r.Status)
		}
		// Lines after the checkpoint, and a partial one, are cut.
		f, err := os.OpenFile(filepath.Join(dir, rundir.MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
		expect.OK(t, err)
		expect.OK(t, expect.Err(f.WriteString(`{"step": 99, "upd`)))
		expect.OK(t, f.Close())
		w := &watch{}
		if _, err := Run(context.Background(), cfg, options(dir, w, 3)); err != nil {
			t.Fatalf("continue after step %d: %v", step, err)
		}
		if w.resumed != step {
			t.Errorf("continued after step %d, want %d", w.resumed, step)
		}
		sameBits(t, want, open(t, dir))
	}
}

func TestInterruptedBeforeAnything(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, small(), options(t.TempDir(), &watch{}, 1)); !errors.Is(err, rundir.ErrNothingSaved) {
		t.Errorf("error %v, want rundir.ErrNothingSaved", err)
	}
}

func close(a, b, rtol float64) bool { return math.Abs(a-b) <= rtol*math.Abs(b)+1e-7 }

// On-policy no clip fraction is reported; with several passes over a rollout there is one.
func TestClipFraction(t *testing.T) {
	long(t)
	on := mustRun(t, small("loss_type=grpo_clip", "n_grpo_steps=2"), t.TempDir(), 1).Metrics
	off := mustRun(t, small("loss_type=grpo_clip", "n_grpo_steps=2", "epochs_per_rollout_batch=4", "cliprange=0.01"), t.TempDir(), 1).Metrics
	for i := range on {
		if on[i].ClipFraction != nil {
			t.Errorf("on-policy step %d has clip fraction %v", i+1, *on[i].ClipFraction)
		}
		if off[i].ClipFraction == nil || *off[i].ClipFraction <= 0 || *off[i].ClipFraction >= 1 {
			t.Errorf("off-policy step %d has clip fraction %v", i+1, off[i].ClipFraction)
		}
		if *on[i].SamplerDiff > 1e-5 || *off[i].SamplerDiff > 1e-5 {
			t.Errorf("step %d: sampler and graph differ by %g and %g", i+1, *on[i].SamplerDiff, *off[i].SamplerDiff)
		}
	}
	if off[0].Updates != 4 || on[0].Updates != 1 {
		t.Errorf("%d and %d updates in the first step, want 4 and 1", off[0].Updates, on[0].Updates)
	}
}

// A run that can't learn has a warning with the reason.
func TestRunsThatCannotLearn(t *testing.T) {
	long(t)
	for _, c := range []struct {
		name   string
		set    []string
		want   string
		status string
	}{
		{"no rate", []string{"learning_rate=0"}, "the weights did not move in 8 updates (learning rate 0)", rundir.StateDone},
		{"no signal", []string{"model.init=random", "sampling_max_tokens=3"}, "none of 48 groups had a learning signal", rundir.StateDone},
		{"none right", []string{"model.init=random", "sampling_max_tokens=3"}, "0 correct of 24 validation problems", rundir.StateDone},
		{"collapse", []string{"learning_rate=0.1", "data.val_size=150"}, "validation reward fell to", rundir.StateDiverged},
		{"not finite", []string{"learning_rate=1e38", "adam_eps=1e-30"}, "the run diverged at step", rundir.StateDiverged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, small(c.set...), t.TempDir(), 1)
			if r.Result.Status != c.status {
				t.Errorf("status %s, want %s", r.Result.Status, c.status)
			}
			if !slices.ContainsFunc(r.Result.Warnings, func(w string) bool { return strings.Contains(w, c.want) }) {
				t.Errorf("warnings %q, want one with %q", r.Result.Warnings, c.want)
			}
		})
	}
	if w := mustRun(t, small(), t.TempDir(), 1).Result.Warnings; len(w) != 0 {
		t.Errorf("a run that learns has warnings: %q", w)
	}
}

// Validation draws don't depend on other evaluations, the test split is read once, and the counts
// add up.
func TestEvaluationLines(t *testing.T) {
	long(t)
	r := mustRun(t, small(), t.TempDir(), 1)
	steps := map[string][]int{}
	for _, e := range r.Evals {
		steps[e.Split] = append(steps[e.Split], e.Step)
		if err := e.Check(); err != nil {
			t.Errorf("%s after step %d: %v", e.Split, e.Step, err)
		}
	}
	for split, want := range map[string][]int{"val": {0, 3, 6, 8}, "unseen": {0, 3, 6, 8}, "test": {8}} {
		if !slices.Equal(steps[split], want) {
			t.Errorf("%s was evaluated after steps %v, want %v", split, steps[split], want)
		}
	}
	alone := mustRun(t, small("data.unseen_size=0", "eval.greedy=false"), t.TempDir(), 1)
	if a, b := alone.Result.Final.Sampled, r.Result.Final.Sampled; a.CorrectNum != b.CorrectNum || a.Length != b.Length {
		t.Errorf("sampled validation changed with what else is evaluated: %+v and %+v", a, b)
	}
	best, err := model.ReadCheckpointFile(filepath.Join(r.Dir, rundir.CheckpointDir, "best.safetensors"))
	expect.OK(t, err)
	last, err := model.ReadCheckpointFile(filepath.Join(r.Dir, rundir.CheckpointDir, "last.safetensors"))
	expect.OK(t, err)
	if last.Params.Hash() != r.Result.WeightsSHA256 {
		t.Error("the last checkpoint is not the result's weights")
	}
	if same := best.Params.Hash() == last.Params.Hash(); same != (r.Result.BestStep == r.Result.Steps) {
		t.Errorf("best step %d of %d, but best and last weights equal: %v", r.Result.BestStep, r.Result.Steps, same)
	}
}

// Seeds are paired: arms of one seed get the same problems in the same order.
func TestArmsGetTheSameProblems(t *testing.T) {
	long(t)
	problems := func(set ...string) (out []string) {
		for _, s := range mustRun(t, small(append(set, "save_samples=48", "n_grpo_steps=2", "eval.every_n_steps=1")...), t.TempDir(), 1).Samples {
			if s.Split == "train" {
				out = append(out, s.Problem)
			}
		}
		return out
	}
	a, b, c := problems(), problems("loss_type=no_baseline", "learning_rate=1e-4"), problems("seed=2")
	if len(a) != 96 || !slices.Equal(a, b) {
		t.Error("two arms of one seed meet other problems")
	}
	if slices.Equal(a, c) {
		t.Error("two seeds meet the same problems in the same order")
	}
}

// TestEvaluationIsNotTheRollouts: with constant weights, runs with different rollout sampling have
// the same evaluation counts.
func TestEvaluationIsNotTheRollouts(t *testing.T) {
	long(t)
	still := []string{"lr=0", "n_grpo_steps=1", "every_n_steps=1", "rollout_batch_size=16"}
	want := mustRun(t, small(still...), t.TempDir(), 2)
	for _, set := range [][]string{
		{"sampling_temperature=1.3"}, {"sampling_top_p=0.5"}, {"sampling_top_k=2"}, {"sampling_min_tokens=30"}, {"sampling_max_tokens=20", "eval.max_tokens=64"},
	} {
		t.Run(set[0], func(t *testing.T) {
			got := mustRun(t, small(append(set, still...)...), t.TempDir(), 2)
			if err := rundir.CompareEvals(got.Evals, want.Evals); err != nil {
				t.Error(err)
			}
			if err := rundir.CompareMetrics(got.Metrics, want.Metrics); err == nil {
				t.Error("the rollouts are the same")
			}
		})
	}
	for _, set := range []string{"eval.temperature=0.5", "eval.top_p=0.5", "eval.top_k=2", "eval.min_tokens=30", "eval.max_tokens=20"} {
		t.Run(set, func(t *testing.T) {
			got := mustRun(t, small(append(still, set)...), t.TempDir(), 2)
			if err := rundir.CompareMetrics(got.Metrics, want.Metrics); err != nil {
				t.Error(err)
			}
			if err := rundir.CompareEvals(got.Evals, want.Evals); err == nil {
				t.Error("the evaluations are the same")
			}
		})
	}
}

// evaluateCheckpoint is [infer.EvaluateCheckpoint] without notes.
func evaluateCheckpoint(cfg config.Config, split string, n, threads int, check budget.MemoryCheck) ([]rundir.Eval, []infer.EvalSample, error) {
	out, err := infer.EvaluateCheckpoint(context.Background(), infer.EvalOptions{Split: split, Samples: n,
		Options: infer.Options{Config: cfg, Threads: threads, Note: func(string) {}, Memory: check}})
	if err != nil {
		return nil, nil, err
	}
	return out.Evals, out.Samples, nil
}

func mustProblems(t *testing.T, cfg config.Config) *dataset.Splits {
	t.Helper()
	p, err := dataset.Of(config.Resolve(cfg))
	expect.OK(t, err)
	return p
}

// Everything of a run that may take long is reported, with consistent counts.
func TestProgressOfRun(t *testing.T) {
	for name, c := range map[string]struct {
		set, want []string
	}{
		"grpo": {[]string{"train.gradient_accumulation_steps=2", "beta=0.1"},
			[]string{"opening model", "evaluating val", "sampling", "scoring the rollout under the reference model", "update", "writing a checkpoint"}},
		"dpo": {[]string{"algorithm.type=dpo", "train.n_grpo_steps=1"},
			[]string{"sampling", "scoring the pairs under the reference model", "update"}},
	} {
		seen := map[string]bool{}
		o := options(t.TempDir(), &watch{}, 1)
		o.Progress = func(a model.Activity) {
			for _, want := range c.want {
				if strings.HasPrefix(a.What, want) {
					seen[want] = true
				}
			}
			if a.Done > a.Of || a.Part < 0 || a.Part > 1 || a.Of > 0 && a.Unit == "" {
				t.Errorf("%s: %+v", name, a)
			}
		}
		expect.OK(t, expect.Err(Run(t.Context(), tinyDecoder(t, c.set...), o)))
		if len(seen) != len(c.want) {
			t.Errorf("%s: only %v of %q", name, seen, c.want)
		}
	}
}

// errorOf is the error of a run that starts or continues in dir.
func errorOf(cfg config.Config, dir string) error {
	_, err := Run(context.Background(), cfg, options(dir, &watch{}, 1))
	return err
}
