package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// tinyDecoder is a short run of a real checkpoint's kind, with chat prompts.
func tinyDecoder(t testing.TB, set ...string) config.Config {
	t.Helper()
	return mustLoad(t, config.LoadOptions{Checkpoint: policy.FindCheckpoint, Set: append([]string{
		"model.init=" + decodertest.Folder(t), "prompt_template=chat", "few_shot=1", "system_prompt=Solve it.",
		"val_size=4", "test_size=2", "unseen_size=2", "train_size=8", "rollout_batch_size=4", "group_size=2",
		"sampling_max_tokens=5", "reward.functions=random", "train.n_grpo_steps=3", "eval.every_n_steps=3", "eval.save_samples=1",
	}, set...)})
}

// A Llama checkpoint trains; interrupted and continued on another number of threads it
// has the same bits, with a reference model and with a critic too.
func TestDecoderRunResumesExactly(t *testing.T) {
	for name, set := range map[string][]string{
		"plain":     {"train.gradient_accumulation_steps=2"},
		"reference": {"beta=0.1", "epochs_per_rollout_batch=2", "loss_type=grpo_clip"},
		"synced":    {"beta=0.1", "ref_model_sync_steps=1"},
		"ppo":       {"algorithm.type=ppo", "loss_type=grpo_clip"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "reference" || name == "synced" {
				long(t)
			}
			cfg := tinyDecoder(t, append(set, "output.checkpoint_every_n_steps=1")...)
			want, got := resumesExactly(t, cfg, 1)
			if name != "plain" {
				return
			}
			if p := want.Samples[0].Prompt; !strings.Contains(p, "<|start|>system: Solve it.<|end|><|start|>user: ") || !strings.HasSuffix(p, "<|end|><|start|>") {
				t.Errorf("the prompt is %q", p)
			}
			file := filepath.Join(got.Dir, rundir.CheckpointDir, rundir.LastFile)
			found, err := policy.FindCheckpoint(got.Dir, "")
			if err != nil || found.File != file || found.HiddenSize != 16 {
				t.Errorf("the run's checkpoint is %+v, %v", found, err)
			}
			again := cfg
			again.Model.Init = file
			if _, _, err := evaluateCheckpoint(again, "val", 0, 1, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// Groups of equal reward are skipped in the update of a decoder: it has the same gradient,
// and the metrics count their tokens. A step of nothing else is an update too.
func TestDecoderSkipsFlatGroups(t *testing.T) {
	long(t)
	first := func(set ...string) rundir.Metrics {
		set = append(set, "train.n_grpo_steps=1", "rollout_batch_size=8")
		return mustRun(t, tinyDecoder(t, set...), t.TempDir(), 1).Metrics[0]
	}
	// A bonus too small to matter, with which no group can be skipped.
	whole := "algorithm.entropy_coef=1e-30"
	a, b := first(), first(whole)
	if a.FracRewardZeroStd == 0 || a.FracRewardZeroStd == 1 {
		t.Fatalf("%v of the groups have equal rewards: the case tests nothing", a.FracRewardZeroStd)
	}
	if !close(a.GradNorm, b.GradNorm, 1e-5) || !close(a.Loss, b.Loss, 1e-5) || !close(a.Entropy, b.Entropy, 1e-9) {
		t.Errorf("gradient norm, loss and entropy %v, %v, %v; of all groups %v, %v, %v",
			a.GradNorm, a.Loss, a.Entropy, b.GradNorm, b.Loss, b.Entropy)
	}
	if a.SamplerDiff == nil || *a.SamplerDiff != 0 || *b.SamplerDiff != 0 {
		t.Errorf("sampler and learner differ by %v and %v", a.SamplerDiff, b.SamplerDiff)
	}
	// The clip fraction is of all completions, in the second of two updates too.
	off := []string{"loss_type=grpo_clip", "cliprange=1e-6", "train_batch_size=4"}
	c, d := first(off...), first(append(off, whole)...)
	if c.ClipFraction == nil || d.ClipFraction == nil || !close(*c.ClipFraction, *d.ClipFraction, 1e-9) || *c.ClipFraction == 0 {
		t.Errorf("clip fraction %v, of all groups %v", c.ClipFraction, d.ClipFraction)
	}
	all, none := first("reward.functions=answer"), first("reward.functions=answer", whole)
	if all.FracRewardZeroStd != 1 || all.GradNorm != 0 || all.Updates != 1 || all.SamplerDiff != nil {
		t.Errorf("with all groups skipped: %+v", all)
	}
	if !close(all.Entropy, none.Entropy, 1e-9) {
		t.Errorf("entropy %v with all groups skipped, %v with none", all.Entropy, none.Entropy)
	}
}

// Gradient checkpointing changes no bit of a run, nor its hash; micro-batches change the
// last ones of sums.
func TestDecoderSavesMemory(t *testing.T) {
	long(t)
	for _, set := range [][]string{{"train.n_grpo_steps=1"}, {"train.n_grpo_steps=1", "algorithm.type=ppo", "loss_type=grpo_clip"}} {
		plain, cut := tinyDecoder(t, set...), tinyDecoder(t, append(set, "micro_batch_tokens=60")...)
		recomputed := plain
		recomputed.Train.GradientCheckpointing = true
		want := mustRun(t, plain, t.TempDir(), 2)
		sameBits(t, want, mustRun(t, recomputed, t.TempDir(), 1))
		got := mustRun(t, cut, t.TempDir(), 1)
		a, b := want.Metrics[0], got.Metrics[0]
		if !close(a.GradNorm, b.GradNorm, 1e-5) || !close(a.Loss, b.Loss, 1e-5) || !close(a.Entropy, b.Entropy, 1e-9) {
			t.Errorf("%v: %+v in micro-batches, %+v in one", set, b, a)
		}
		if config.Hash(plain) != config.Hash(recomputed) || config.Hash(plain) == config.Hash(cut) {
			t.Error("wrong hashes")
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), small("train.gradient_checkpointing=true"), options(dir, &watch{}, 1))
	if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "train.gradient_checkpointing") {
		t.Errorf("TinyLM: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the refused run left a folder")
	}
}

// What can't be a checkpoint is refused before a run has a folder.
func TestDecoderRefuses(t *testing.T) {
	load := func(set ...string) error {
		_, err := config.Load(config.LoadOptions{Checkpoint: policy.FindCheckpoint, Set: set})
		return err
	}
	expect.Error(t, load("model.init="+filepath.Join(t.TempDir(), "absent.gguf")), "--model")
	cfg := tinyDecoder(t, "sampling_max_tokens=600")
	expect.Error(t, errorOf(cfg, filepath.Join(t.TempDir(), "run")), "context")
}

// Worked examples of the user's are in the prompts. A run does not continue with others.
func TestWorkedExamplesOfOnesOwn(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "few.jsonl")
	write := func(answer string) {
		t.Helper()
		text := ""
		for _, q := range []string{"a?", "b?", "c?", "d?"} {
			text += `{"question": "` + q + `", "answer": "` + answer + `"}` + "\n"
		}
		expect.OK(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("yes")
	cfg := tinyDecoder(t, "few_shot_file="+file, "few_shot=0", "system_prompt=", "output.checkpoint_every_n_steps=1")
	dir := interrupted(t, cfg, 1)
	write("no")
	expect.Error(t, errorOf(cfg, dir), "problems")
	write("yes")
	mustRun(t, cfg, dir, 1)
	if r := open(t, dir); !strings.HasPrefix(r.Samples[0].Prompt, "<|start|>user: a?<|end|><|start|>assistant: yes<|end|>") ||
		strings.Count(r.Samples[0].Prompt, "yes") != 4 {
		t.Errorf("prompt %q", r.Samples[0].Prompt)
	}
}

// A run is not continued with another network or tokenizer around the same weights, and its results
// are not those of one.
func TestContinueWithOtherNetwork(t *testing.T) {
	long(t)
	cfg := tinyDecoder(t)
	dir := interrupted(t, cfg, 1)
	file := func(name string) string { return filepath.Join(cfg.Model.Init, name) }
	for _, tt := range []struct{ file, was, is string }{
		{"config.json", `"rope_theta":10000`, `"rope_theta":20000`},
		{"config.json", `"rms_norm_eps":0.00001`, `"rms_norm_eps":0.001`},
		{"config.json", `"eos_token_id":257`, `"eos_token_id":10`},
		{"tokenizer.json", `"x":120,"y":121`, `"x":121,"y":120`},
	} {
		was := slurp(t, file(tt.file))
		is := strings.Replace(string(was), tt.was, tt.is, 1)
		if is == string(was) {
			t.Fatalf("%s has no %s: %s", tt.file, tt.was, was)
		}
		put(t, file(tt.file), []byte(is))
		expect.Error(t, errorOf(cfg, dir), file(tt.file)+": restore them")
		expect.Error(t, SameInputs(cfg, open(t, dir).Meta), "its tokenizer (model.init)")
		put(t, file(tt.file), was)
	}
	mustRun(t, cfg, dir, 1)
}

// A run in bf16 has the same bits when it is interrupted and continued on another number of
// threads, but not those of float32, with which it can't continue. So has one with adapters.
func TestDecoderBF16(t *testing.T) {
	long(t)
	if !kernel.HasBF16() {
		t.Skip("this processor has no AVX512_BF16")
	}
	t.Run("full", func(t *testing.T) { testDecoderBF16(t) })
	t.Run("LoRA", func(t *testing.T) { testDecoderBF16(t, "train.lora.rank=2") })
}

func testDecoderBF16(t *testing.T, set ...string) {
	cfg := tinyDecoder(t, append(set, "precision=bf16", "output.checkpoint_every_n_steps=1")...)
	want := mustRun(t, cfg, t.TempDir(), 2)
	plain := cfg
	plain.Model.Precision = "float32"
	if other := mustRun(t, plain, t.TempDir(), 2); want.Metrics[0].Entropy == other.Metrics[0].Entropy {
		t.Error("bf16 has the entropy of float32")
	}
	for _, m := range want.Metrics {
		d := m.SamplerDiff // nil if all groups had equal rewards
		if d != nil && *d != 0 || d == nil && m.Step == 1 {
			t.Errorf("step %d: the log-probabilities of sampler and learner differ by %v", m.Step, d)
		}
	}
	dir := interrupted(t, cfg, 1)
	expect.Error(t, errorOf(plain, dir), "model.precision")
	sameBits(t, want, mustRun(t, cfg, dir, 3))
	var meta rundir.Meta
	if err := rundir.ReadJSON(filepath.Join(dir, rundir.MetaFile), &meta); err != nil || meta.Kernel != kernel.BF16Name() {
		t.Errorf("kernel %q, %v", meta.Kernel, err)
	}
}

// A TinyLM computes in float32 on the CPU.
func TestTinyLMHasNoBF16(t *testing.T) {
	c := config.Default().Model
	c.Precision, c.Init = "bf16", "./model.safetensors"
	if _, err := modelOf(t, c, config.LoRA{}).Open(1, 1, 0, nil); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "model.precision (bf16)") {
		t.Errorf("error %v", err)
	}
}

// A worked example of the prompt without an answer where the verifier looks is noted.
func TestExamplesWithoutAnAnswer(t *testing.T) {
	boxed := filepath.Join(t.TempDir(), "few.jsonl")
	expect.OK(t, os.WriteFile(boxed, []byte(`{"question":"1+1?","answer":"\\boxed{2}"}`+"\n"), 0o600))
	for _, c := range []struct {
		set  []string
		want bool
	}{
		{nil, false},
		{[]string{"reward.extract=last_number"}, false},
		{[]string{"reward.extract=boxed"}, true},
		{[]string{"reward.extract=boxed", "few_shot_file=" + boxed}, false},
		{[]string{"few_shot_file=" + boxed}, true},
		{[]string{"reward.extract=boxed", "few_shot=0"}, false},
	} {
		w := watched(t, tinyDecoder(t, append(c.set, "train.n_grpo_steps=1")...), t.TempDir())
		if got := strings.Contains(strings.Join(w.notes, "\n"), "worked example 1"); got != c.want {
			t.Errorf("%v: notes %q", c.set, w.notes)
		}
	}
}
