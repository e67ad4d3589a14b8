//go:build withcuda && linux

package train

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model/hf"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// trained is a short run of a tiny Llama checkpoint with rewards that differ within groups.
func trained(t *testing.T, set ...string) config.Config {
	t.Helper()
	return tinyDecoder(t, append([]string{"rollout_batch_size=8", "group_size=4", "lr=3e-3", "lr_scheduler=constant",
		"few_shot=0", "system_prompt=", "val_size=1", "test_size=0", "unseen_size=0", "eval.greedy=false", "train.n_grpo_steps=2",
		"output.checkpoint_every_n_steps=1"}, set...)...)
}

// A decoder's run on a GPU is the CPU's, but for rounding.
func TestGPUDecoderRunIsTheCPUs(t *testing.T) {
	emulated(t)
	for name, set := range map[string][]string{
		"ppo in micro-batches, with checkpointing": {"algorithm.type=ppo", "loss_type=grpo_clip", "micro_batch_tokens=100",
			"train.gradient_checkpointing=true"},
		"lora and a KL": {"train.lora.rank=2", "beta=0.1", "algorithm.entropy_coef=0.01", "epochs_per_rollout_batch=2", "loss_type=grpo_clip"},
	} {
		t.Run(name, func(t *testing.T) {
			isTheCPUs(t, mustRun(t, trained(t, append(set, "device=cuda")...), t.TempDir(), 1), mustRun(t, trained(t, set...), t.TempDir(), 1))
		})
	}
}

// With several updates per rollout and weights that do not change, importance ratios are exactly 1,
// though sampler and learner differ.
func TestGPUDecoderOldLogProbs(t *testing.T) {
	emulated(t)
	run := mustRun(t, trained(t, "device=cuda", "precision=bf16", "train_batch_size=4", "loss_type=grpo_clip", "lr=1e-30"), t.TempDir(), 1)
	for _, m := range run.Metrics {
		if *m.SamplerDiff == 0 || *m.RatioMean != 1 || *m.ApproxKL != 0 {
			t.Errorf("step %d: sampler and graph differ by %v, the mean ratio is %v and the KL %v", m.Step, *m.SamplerDiff, *m.RatioMean, *m.ApproxKL)
		}
	}
}

// Interrupted or not, a decoder's run on a GPU has the same bits.
func TestGPUDecoderRunHasTheSameBits(t *testing.T) {
	emulated(t)
	for name, set := range map[string][]string{
		"lora in bf16": {"train.lora.rank=2", "precision=bf16", "beta=0.1"},
		"ppo":          {"algorithm.type=ppo", "loss_type=grpo_clip"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := trained(t, append(set, "device=cuda")...)
			sameBits(t, uninterrupted(t, cfg), mustRun(t, cfg, interrupted(t, cfg, 1), 2))
		})
	}
}

// Adapters continue on another device, whose frozen weights have the same hash; but not in bf16 if
// they began in float32.
func TestGPUDecoderRunMoves(t *testing.T) {
	emulated(t)
	begun := trained(t, "train.lora.rank=2", "device=cuda")
	dir := interrupted(t, begun, 1)
	other := begun
	other.Model.Precision = "bf16"
	if _, err := Run(context.Background(), other, options(dir, &watch{}, 1)); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "model.precision") {
		t.Errorf("in another precision: %v", err)
	}
	other.Model.Precision, other.Model.Device = "float32", "cpu"
	if run := mustRun(t, other, dir, 1); len(run.Meta.Moves) != 1 || run.Result.Steps != 2 {
		t.Errorf("%d steps, moves %q", run.Result.Steps, run.Meta.Moves)
	}
}

// The host needs no activations of a decoder on a GPU, and nothing for its sampler.
func TestGPUDecoderMemory(t *testing.T) {
	init := "model.init=" + decodertest.Seeded(t, 7, 1<<15)
	of := func(set ...string) budget.Memory { return memoryOf(t, trained(t, append(set, init)...)) }
	bytes := modelOf(t, trained(t, init).Model, config.LoRA{}).Size.ParamBytes()
	for name, c := range map[string]struct {
		set     []string
		weights float64
	}{
		"full": {nil, 6}, // weights and two moments, and those of a checkpoint while it is read
		"ppo":  {[]string{"algorithm.type=ppo", "loss_type=grpo_clip"}, 9},
		"lora": {[]string{"train.lora.rank=1"}, 1},
	} {
		const rest = 100 << 20 // the program and its tokenizer, small adapters, and the numbers of a small batch
		cpu, gpu := of(c.set...).Total(), of(slices.Concat(c.set, []string{"device=cuda"})...).Total()
		if want := c.weights * bytes; gpu < want || gpu > 1.1*want+rest || gpu > cpu {
			t.Errorf("%s: %s, %s on the CPU; want %s for weights", name, budget.Bytes(gpu), budget.Bytes(cpu), budget.Bytes(want))
		}
	}
}

// The best weights of a run on a GPU are those that were evaluated.
func TestGPUDecoderBest(t *testing.T) {
	emulated(t)
	cfg := judged(trained(t, "device=cuda", "eval.every_n_steps=1"), expression("step / 10")) // the last step is the best
	cfg.Reward.Functions = []string{"random"}
	run := mustRun(t, cfg, t.TempDir(), 1)
	saved, err := hf.Open(filepath.Join(run.Dir, rundir.CheckpointDir, rundir.BestFolder))
	expect.OK(t, err)
	defer saved.Close()
	last, err := policy.ReadOwn(filepath.Join(run.Dir, rundir.CheckpointDir, rundir.LastFile))
	expect.OK(t, err)
	for _, x := range last.Params.Tensors() {
		if y, err := saved.Read(x.Name); err != nil || !slices.Equal(x.Data, y) {
			t.Errorf("%s: other weights than those after step %d, %v", x.Name, run.Result.Best.Step, err)
		}
	}
}

// A decoder measured on a GPU allocates no memory after the warm-up.
func TestGPUDecoderBench(t *testing.T) {
	emulated(t)
	o := BenchOptions{Model: decodertest.Folder(t), Prompts: 1, Group: 2, ResponseLen: 2, Steps: 1, Threads: 1, Seed: 1, Device: "cuda",
		Precision: "bf16", Now: options("", nil, 1).Now}
	r, err := Bench(context.Background(), o)
	if err != nil || r.Device == "" || r.DeviceRequests != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Generating and evaluating on a GPU sample the CPU's tokens, from the weights that the GPU saved.
func TestGPUDecoderGenerates(t *testing.T) {
	emulated(t)
	cfg, dir := trained(t, "device=cuda", "train.n_grpo_steps=1"), t.TempDir()
	mustRun(t, cfg, dir, 1)
	cfg.Model.Init = filepath.Join(dir, "checkpoint", rundir.LastFile)
	tokens := func(device string) (out [][]int) {
		cfg.Model.Device = device
		o := infer.GenerateOptions{Options: infer.Options{Config: cfg, Threads: 1, Note: func(string) {}}, Prompts: []string{"Hello"}, N: 2, Seed: 1}
		o.Sampling.Temperature, o.Sampling.TopP, o.MaxTokens = 1, 0.9, 5
		g, err := infer.Generate(o)
		expect.OK(t, err)
		for _, x := range g {
			out = append(out, x.Tokens)
		}
		return out
	}
	if a, b := tokens("cuda"), tokens("cpu"); !slices.EqualFunc(a, b, slices.Equal) {
		t.Errorf("tokens %v, the CPU's %v", a, b)
	}
}
