//go:build withcuda && linux

package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/cudalib"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model/cuda"
	"grpo/pkg/rundir"
)

// emulated makes the tests run on the emulator, unless GRPO_TEST_GPU asks for
// the card.
func emulated(t *testing.T) {
	t.Helper()
	if os.Getenv("GRPO_TEST_GPU") == "" {
		dir := cudaemu.Build(t)
		t.Setenv(cudalib.Env, dir)
		t.Setenv(cuda.CacheEnv, filepath.Join(dir, "cache"))
	}
}

// tiny is a run that takes the emulator seconds.
func tiny(set ...string) config.Config {
	return small(append([]string{
		"train.n_grpo_steps=3", "eval.every_n_steps=2", "rollout_batch_size=16", "data.val_size=12", "data.test_size=6", "data.unseen_size=6",
		"sampling_max_tokens=32",
	}, set...)...)
}

// A run on a GPU gets the CPU's problems and samples the CPU's tokens; its numbers differ by
// rounding only, until rounding changes a token: in three steps of the base model it does not.
func TestGPURunIsTheCPUs(t *testing.T) {
	emulated(t)
	for name, set := range map[string][]string{
		"default": nil,
		"grpo_clip on-policy, micro-batches, token-mean": {"algorithm.loss_type=grpo_clip", "algorithm.length_normalization=token-mean", "train.gradient_accumulation_steps=2"},
		"ppo with a KL in the loss":                      {"algorithm.type=ppo", "algorithm.loss_type=grpo_clip", "algorithm.beta=0.02", "algorithm.kl_in=reward", "train.epochs_per_rollout_batch=2"},
		"two micro-batches, a reference and entropies":   {"algorithm.loss_type=grpo_clip", "algorithm.beta=0.04", "algorithm.top_entropy_quantile=0.5", "train.gradient_accumulation_steps=2", "algorithm.entropy_coef=0.01"},
	} {
		t.Run(name, func(t *testing.T) {
			isTheCPUs(t, mustRun(t, tiny(append(set, "device=cuda")...), t.TempDir(), 1), mustRun(t, tiny(set...), t.TempDir(), 1))
		})
	}
}

// isTheCPUs fails unless the numbers of a run differ from those of the CPU's by rounding only.
func isTheCPUs(t *testing.T, got, want *rundir.Run) {
	t.Helper()
	if len(got.Metrics) != len(want.Metrics) {
		t.Fatalf("%d lines of metrics, the CPU's run has %d", len(got.Metrics), len(want.Metrics))
	}
	for i, w := range want.Metrics {
		g := got.Metrics[i]
		for what, pair := range map[string][2]float64{
			"loss": {g.Loss, w.Loss}, "gradient norm": {g.GradNorm, w.GradNorm}, "entropy": {g.Entropy, w.Entropy},
			"reward": {g.Reward.Mean, w.Reward.Mean}, "length": {g.Length, w.Length},
		} {
			if d := math.Abs(pair[0] - pair[1]); d > 1e-5+1e-3*math.Abs(pair[1]) {
				t.Errorf("step %d: %s %v, the CPU's %v", w.Step, what, pair[0], pair[1])
			}
		}
		if *g.SamplerDiff > 1e-4 {
			t.Errorf("step %d: sampler and graph differ by %v", w.Step, *g.SamplerDiff)
		}
	}
	if got.Meta.Device == "" || want.Meta.Device != "" {
		t.Errorf("meta.json has %q for the GPU's run and %q for the CPU's", got.Meta.Device, want.Meta.Device)
	}
}

// The same configuration gives the same bits, interrupted or not.
func TestGPURunHasTheSameBits(t *testing.T) {
	emulated(t)
	cfg := tiny("device=cuda")
	resumesExactly(t, cfg, 1)
}

// A run may continue on another device; its notes, meta.json and result record that. Other
// differences in the configuration still prevent it from continuing.
func TestGPURunMoves(t *testing.T) {
	emulated(t)
	for _, c := range []struct{ from, to string }{{"cpu", "cuda"}, {"cuda", "cpu"}} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			dir := interrupted(t, tiny("device="+c.from), 1)
			w := &watch{}
			if _, err := Run(context.Background(), tiny("device="+c.to, "lr=2e-3"), options(dir, w, 1)); !errors.Is(err, config.ErrConfig) {
				t.Errorf("another learning rate: error %v, want ErrConfig", err)
			}
			res, err := Run(context.Background(), tiny("device="+c.to), options(dir, w, 1))
			expect.OK(t, err)
			if w.resumed != 1 || res.Steps != 3 {
				t.Errorf("continued after step %d to step %d, want 1 and 3", w.resumed, res.Steps)
			}
			run := open(t, dir)
			for what, lines := range map[string][]string{"the notes": w.notes, "the result": res.Warnings, "meta.json": run.Meta.Moves} {
				if all := strings.Join(lines, "\n"); !strings.Contains(all, "moved from ") || !strings.Contains(all, "after step 1") {
					t.Errorf("%s do not mention that the run moved: %q", what, all)
				}
			}
			if run.Status.State != rundir.StateDone {
				t.Errorf("status %+v", *run.Status)
			}
		})
	}
}

// auto stays on the CPU for steps with little work, and takes the GPU for larger ones.
func TestGPUAuto(t *testing.T) {
	emulated(t)
	for name, c := range map[string]struct {
		work float64
		gpu  bool
	}{"little work": {1e9 / 2, false}, "enough work": {1e9, true}} {
		m := modelOf(t, config.Model{Init: "random", HiddenSize: 8, NumLayers: 1, Device: "auto", Precision: "float32"}, config.LoRA{})
		n, err := m.Open(1, 1, c.work, nil)
		expect.OK(t, err)
		d := n.Device
		if got := d.GPU != nil; got != c.gpu || len(d.Notes) != 1 {
			t.Errorf("%s: on a GPU %v, want %v; notes %q", name, got, c.gpu, d.Notes)
		}
		n.Close()
	}
}

// A measured step on a GPU allocates no memory after the warm-up.
func TestGPUBench(t *testing.T) {
	emulated(t)
	o := BenchOptions{Prompts: 4, Group: 2, PromptLen: 9, ResponseLen: 5, Hidden: 8, Layers: 2, Steps: 3, Threads: 1, Seed: 1, Now: options("", nil, 1).Now, Device: "cuda"}
	r, err := Bench(context.Background(), o)
	expect.OK(t, err)
	if r.Device == "" || r.DeviceBytes == 0 || r.DeviceRequests != 0 {
		t.Errorf("device %q, %d bytes, %d requests while measuring: want a device, some and none", r.Device, r.DeviceBytes, r.DeviceRequests)
	}
}
