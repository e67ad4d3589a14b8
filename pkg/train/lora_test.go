package train

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// adapterFolder writes a PEFT folder of random adapters for a base, with changes to its
// configuration and its tensors.
func adapterFolder(t *testing.T, base, name string, settings map[string]any, change func([]safetensors.Tensor)) string {
	t.Helper()
	c, err := hf.OpenWeights(base)
	expect.OK(t, err)
	l := hf.LoRA{Rank: 2, Alpha: 3, Targets: []string{"q_proj", "v_proj", "down_proj"}}
	var tensors []safetensors.Tensor
	for _, want := range c.Config.AdapterTensors(l) {
		x := safetensors.Tensor{Name: want.Name, Shape: want.Shape, Data: make([]float32, want.Shape[0]*want.Shape[1])}
		for i := range x.Data {
			x.Data[i] = float32(i%7-3) / 20
		}
		tensors = append(tensors, x)
	}
	if change != nil {
		change(tensors)
	}
	folder, err := hf.AdapterFolder(name, "", l)
	expect.OK(t, err)
	if settings != nil {
		var all map[string]any
		expect.OK(t, json.Unmarshal(folder[hf.AdapterConfigFile], &all))
		maps.Copy(all, settings)
		folder[hf.AdapterConfigFile], _ = json.Marshal(all)
	}
	dir := t.TempDir()
	expect.OK(t, folder.Write(dir, "F32", tensors, nil))
	return dir
}

// A run with LoRA trains adapters only: its checkpoints hold nothing else, sampling and
// update agree to the bit, and interrupted and continued on another number of threads it
// has the same bits, with a reference model, which is the base, and with a critic too.
func TestLoRARunResumesExactly(t *testing.T) {
	long(t)
	for name, set := range map[string][]string{
		"plain":     {"train.gradient_accumulation_steps=2", "use_rslora=true"},
		"reference": {"beta=0.1", "epochs_per_rollout_batch=2", "loss_type=grpo_clip", "train.lora.targets=q_proj,down_proj"},
		"ppo":       {"algorithm.type=ppo", "loss_type=grpo_clip"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "plain" {
				long(t)
			}
			cfg := tinyDecoder(t, append(set, "train.lora.rank=2", "output.checkpoint_every_n_steps=1")...)
			want, got := resumesExactly(t, cfg, 1)
			compared := 0
			for _, m := range want.Metrics {
				if m.SamplerDiff != nil {
					compared++
				}
				if m.SamplerDiff != nil && *m.SamplerDiff != 0 {
					t.Errorf("step %d: sampler and learner differ by %v", m.Step, *m.SamplerDiff)
				}
			}
			if compared == 0 {
				t.Error("no step compared sampler and learner")
			}
			saved, err := policy.ReadOwn(filepath.Join(got.Dir, rundir.CheckpointDir, rundir.LastFile))
			expect.OK(t, err)
			moved := false
			for _, x := range saved.Params.Tensors() {
				if !strings.HasPrefix(x.Name, "base_model.model.model.layers.") || !strings.Contains(x.Name, ".lora_") {
					t.Errorf("the checkpoint has the tensor %s", x.Name)
				}
				moved = moved || strings.Contains(x.Name, "lora_B") && slices.ContainsFunc(x.Data, func(v float32) bool { return v != 0 })
			}
			if !moved || saved.Reference != nil {
				t.Errorf("adapters moved: %v; the checkpoint has a reference model: %v", moved, saved.Reference != nil)
			}
		})
	}
}

// A learning rate far below that of adapters gets a note.
func TestLowLoRARate(t *testing.T) {
	long(t)
	for rate, want := range map[string]bool{"1e-4": true, "1e-2": false} {
		cfg := tinyDecoder(t, "train.lora.rank=1", "train.n_grpo_steps=1", "lr="+rate)
		w := watched(t, cfg, t.TempDir())
		noted := slices.ContainsFunc(w.notes, func(s string) bool {
			return strings.HasPrefix(s, "train.learning_rate 0.0001 is far below what LoRA needs")
		})
		if noted != want {
			t.Errorf("learning rate %s: %q", rate, w.notes)
		}
	}
}

// A LoRA run, a run from it and a PEFT folder can be evaluated, generated from and trained
// further; the form of their adapters is theirs.
func TestContinueAdapters(t *testing.T) {
	long(t)
	cfg := tinyDecoder(t, "train.lora.rank=2", "train.lora.alpha=5", "train.n_grpo_steps=1")
	first := t.TempDir()
	mustRun(t, cfg, first, 1)
	load := func(init string, set ...string) (config.Config, error) {
		r, err := config.Load(config.LoadOptions{Checkpoint: policy.FindCheckpoint, Set: append([]string{
			"model.init=" + init, "prompt_template=chat", "val_size=4", "test_size=2", "unseen_size=2", "train_size=8",
			"rollout_batch_size=4", "group_size=2", "sampling_max_tokens=5", "reward.functions=random",
			"train.n_grpo_steps=1"}, set...)})
		if err != nil {
			return config.Config{}, err
		}
		return r.Config, nil
	}
	peft := adapterFolder(t, cfg.Model.Init, cfg.Model.Init, nil, nil)
	tokenizer, err := os.ReadFile(filepath.Join(cfg.Model.Init, "tokenizer.json")) // as trainers write it there
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(peft, "tokenizer.json"), tokenizer, 0o644))
	second := t.TempDir()
	for _, c := range []struct {
		init, out string
		rank      int
		alpha     float64
	}{{first, second, 2, 5}, {second, t.TempDir(), 2, 5}, {peft, t.TempDir(), 2, 3}} {
		next, err := load(c.init, "beta=0.1")
		expect.OK(t, err)
		if l := next.Train.LoRA; l.Rank != c.rank || l.Alpha != c.alpha || next.Train.LearningRate != 1e-4 {
			t.Errorf("%s: %+v, learning rate %v", c.init, l, next.Train.LearningRate)
		}
		mustRun(t, next, c.out, 1)
		if _, _, err := evaluateCheckpoint(next, "val", 0, 1, nil); err != nil {
			t.Error(err)
		}
		out, err := infer.Generate(infer.GenerateOptions{Options: infer.Options{Config: next, Threads: 1}, Prompts: []string{"Hello"}, N: 1, Sampling: model.Sampling{TopP: 1, MaxTokens: 3, Greedy: true}})
		if err != nil || len(out) != 1 {
			t.Errorf("%v", err)
		}
		expect.Error(t, expect.Err(load(c.init, "train.lora.rank=4")), "train.lora.rank (--set train.lora.rank) contradicts model.init")
	}
	// All weights of one run, then adapters on top of them.
	full := t.TempDir()
	mustRun(t, tinyDecoder(t, "train.n_grpo_steps=1"), full, 1)
	over, err := load(full, "train.lora.rank=1", "train.lora.alpha=1")
	expect.OK(t, err)
	out := t.TempDir()
	mustRun(t, over, out, 1)
	if again, err := load(out); err != nil || again.Train.LoRA.Rank != 1 {
		t.Errorf("%+v, %v", again.Train.LoRA, err)
	}
}

// Adapters that do not fit, or of a kind that is not supported, are one clear error
// before a run has a folder.
func TestAdapterErrors(t *testing.T) {
	long(t)
	base := decodertest.Folder(t)
	run := func(init string, set ...string) error {
		r, err := config.Load(config.LoadOptions{Checkpoint: policy.FindCheckpoint, Set: append([]string{
			"model.init=" + init, "prompt_template=chat", "val_size=2", "train_size=4", "rollout_batch_size=4",
			"group_size=2", "sampling_max_tokens=5"}, set...)})
		if err != nil {
			return err
		}
		dir := filepath.Join(t.TempDir(), "run")
		_, err = Run(context.Background(), r.Config, options(dir, &watch{}, 1))
		if _, stat := os.Stat(dir); stat == nil {
			t.Errorf("%s: the run has a folder", init)
		}
		return err
	}
	nothing := func([]safetensors.Tensor) {}
	for want, dir := range map[string]string{
		`its base model "org/name" is not a path on this machine`: adapterFolder(t, base, "org/name", nil, nil),
		`it is not for the base model ` + base + `: it has no tensor base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`: adapterFolder(t, base, base, nil,
			func(x []safetensors.Tensor) {
				x[0].Name = "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"
			}),
		`the shape of base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight is [4 8], the base needs [2 16]`: adapterFolder(t, base, base, nil,
			func(x []safetensors.Tensor) { x[0].Shape = []int{4, 8} }),
		`is NaN`: adapterFolder(t, base, base, nil, func(x []safetensors.Tensor) { x[0].Data[3] = float32(math.NaN()) }),
		`use_dora is true, which is not supported`:                  adapterFolder(t, base, base, map[string]any{"use_dora": true}, nothing),
		`modules_to_save is ["lm_head"], which is not supported`:    adapterFolder(t, base, base, map[string]any{"modules_to_save": []string{"lm_head"}}, nothing),
		`rank_pattern is {"q_proj":4}, which is not supported`:      adapterFolder(t, base, base, map[string]any{"rank_pattern": map[string]int{"q_proj": 4}}, nothing),
		`bias is "all"; supported is none`:                          adapterFolder(t, base, base, map[string]any{"bias": "all"}, nothing),
		`peft_type is "IA3"; supported is LORA`:                     adapterFolder(t, base, base, map[string]any{"peft_type": "IA3"}, nothing),
		`init_lora_weights "pissa" changes the weights of the base`: adapterFolder(t, base, base, map[string]any{"init_lora_weights": "pissa"}, nothing),
		`target_modules has "lm_head"; supported are q_proj`:        adapterFolder(t, base, base, map[string]any{"target_modules": []string{"lm_head"}}, nothing),
		`r is 0; it must be from 1`:                                 adapterFolder(t, base, base, map[string]any{"r": 0}, nothing),
	} {
		expect.Error(t, run(dir), want)
	}
	elsewhere := adapterFolder(t, base, "org/name", nil, nil)
	if _, err := policy.FindCheckpoint(elsewhere, base); err != nil {
		t.Errorf("with model.adapter_base: %v", err)
	}
	relative := adapterFolder(t, base, "base", nil, nil)
	expect.OK(t, os.Rename(base, filepath.Join(relative, "base")))
	if found, err := policy.FindCheckpoint(relative, ""); err != nil || found.LoRA == nil {
		t.Errorf("a base relative to the folder: %+v, %v", found, err)
	}
	tiny := t.TempDir()
	mustRun(t, mini(t, "train.n_grpo_steps=1"), tiny, 1)
	expect.Error(t, run(tiny, "prompt_template=plain", "train.lora.rank=2"), "is a TinyLM")
}
