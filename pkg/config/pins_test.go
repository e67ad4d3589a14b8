package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hashes of the embedded configurations: they are part of folder names, so a change of one makes
// every finished run of it a stranger. A new key is neutral at its default.
var hashes = map[string]string{
	"a5-2025":             "3160f2a2",
	"a5-2026":             "38acda8e",
	"aligned":             "b235db0c",
	"cispo":               "580d2da1",
	"dapo":                "f86e3708",
	"default":             "38acda8e",
	"dpo":                 "b87a0225",
	"dpo-smollm2":         "c5ce15e6",
	"dr-grpo":             "3d86af05",
	"grpo-original":       "9f1b63c1",
	"gspo":                "7c263268",
	"learned-reward":      "7fcb94b4",
	"lite-ppo":            "3606210b",
	"maxrl":               "e74b9f90",
	"minillm":             "92c76485",
	"ppo":                 "2faf64cd",
	"reinforce-plus-plus": "388574a8",
	"rft":                 "5486beb3",
	"rloo":                "48f864a4",
	"smoke":               "6f0b2bb7",
	"smollm2":             "5e28647f",
}

func TestHashesKeepTheirValue(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(hashes)), Names(); !slices.Equal(got, want) {
		t.Errorf("pinned %v, embedded %v", got, want)
	}
	for name, want := range hashes {
		r, err := Load(LoadOptions{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := Hash(r.Config); got != want {
			t.Errorf("the hash of %s is %s, want %s", name, got, want)
		}
	}
}

// hashesOfSets are hashes of further configurations, by their --set. The first release computed the first five.
var hashesOfSets = map[string]string{
	"":                            "38acda8e",
	"use_std_normalization=false": "eb9d21dd",
	"loss_type=no_baseline length_normalization=masked_normalize":                "7cd58e71",
	"loss_type=grpo_clip epochs_per_rollout_batch=4 train_batch_size=64 lr=1e-4": "37656037",
	"functions=format,random reward_weights=0.5,1":                               "2d83d887",

	"loss_type=vanilla train_batch_size=64":                                                                  "68c22d15",
	"loss_type=sapo sapo_temperature_pos=2 train_batch_size=64":                                              "7d639062",
	"loss_type=vespo vespo_k_neg=1 epochs_per_rollout_batch=2":                                               "901cc69f",
	"functions=repetition,cosine reward_weights=1,2 cosine_max_len=32":                                       "2cb713f9",
	"algorithm.type=ppo loss_type=grpo_clip value_clip=0.1 value_epochs=2":                                   "3ff1fc78",
	"algorithm.type=dpo algorithm.dpo.loss_type=sigmoid,sft":                                                 "21bf414c",
	"init=m.gguf train.lora.rank=8 train.lora.targets=q_proj":                                                "4e72b575",
	"eval.temperature=0.5 eval.sets=validation,./p.jsonl":                                                    "7115a288",
	"reward.custom.0.name=short reward.custom.0.expr=1/max_tokens reward.functions=short":                    "fc5ea244",
	"data.source=gsm8k train_file=a.jsonl val_file=b.jsonl beta=0.1 kl_in=reward":                            "c56a079d",
	"use_adaptive_entropy=true dynamic_sampling=true importance_sampling_level=sequence loss_type=grpo_clip": "3ff71d1c",
}

func TestHashesOfSets(t *testing.T) {
	for set, want := range hashesOfSets {
		r, err := Load(LoadOptions{Set: strings.Fields(set)})
		if err != nil {
			t.Fatalf("%s: %v", set, err)
		}
		if got := Hash(r.Config); got != want {
			t.Errorf("%s: hash %s, want %s", set, got, want)
		}
	}
}

// TestTextOfResolved pins config.yaml: it has the lines of the files in testdata in their order, and further keys may be
// among them.
func TestTextOfResolved(t *testing.T) {
	decoder := func(string, string) (Checkpoint, error) {
		return Checkpoint{File: "m.gguf", HiddenSize: 576, NumLayers: 30, LearningRate: 1e-5, EvalTokens: 256}, nil
	}
	text := func(opts LoadOptions) []byte {
		r, err := Load(opts)
		if err != nil {
			t.Fatal(err)
		}
		return Marshal(r.Config)
	}
	sft, err := LoadSFT(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	judge, err := LoadRewardModel(LoadOptions{Set: []string{"pairs=p.jsonl"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"default": text(LoadOptions{}),
		"smoke":   text(LoadOptions{Path: "smoke"}),
		"lora":    text(LoadOptions{Path: "smollm2", Set: []string{"init=m.gguf", "train.lora.rank=8"}, Checkpoint: decoder}),
		"judged":  text(LoadOptions{Path: "learned-reward", Set: []string{"algorithm.type=dpo", "output.checkpoint_every_minutes=3"}}),
		"sft":     Marshal(sft.Config), "reward-model": Marshal(judge.Config),
	} {
		want, err := os.ReadFile(filepath.Join("testdata", "resolved", name+".yaml"))
		lines, rest := slices.Collect(strings.Lines(string(want))), slices.Collect(strings.Lines(string(got)))
		for _, line := range lines {
			i := slices.Index(rest, line)
			if i < 0 {
				t.Fatalf("config.yaml of %s has no line %q, or elsewhere:\n%s", name, line, got)
			}
			rest = rest[i+1:]
		}
		if err != nil || len(lines) < 20 {
			t.Errorf("%s: %d lines, %v", name, len(lines), err)
		}
	}
}
