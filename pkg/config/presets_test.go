package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
	"grpo/internal/expect"
)

// TestPresets: every published method exists under both names, names its source, and trains TinyLM
// from the embedded base.
func TestPresets(t *testing.T) {
	source := regexp.MustCompile(`arXiv:[0-9]{4}\.[0-9]{5}|arXiv:1506\.02438|Stanford CS336, assignment 5`)
	names := configs.Names(presetFolder)
	for _, name := range names {
		if about := About(name); len(about) > 250 || !source.MatchString(about) || strings.Contains(about, "http") {
			t.Errorf("%s describes itself as %q: want a sentence with its source, without an address", name, about)
		}
		short, err := Load(LoadOptions{Path: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		long, err := Load(LoadOptions{Path: "presets/" + name})
		if err != nil || !reflect.DeepEqual(short.Config, long.Config) {
			t.Errorf("presets/%s: %+v, %v", name, long, err)
		}
		c, d := short.Config, Default()
		if c.Model != d.Model || !reflect.DeepEqual(c.Data, d.Data) {
			t.Errorf("%s is not about the default model and problems", name)
		}
		if lr := c.Train.LearningRate; name != "a5-2025" && (lr < 1e-4 || lr > 3e-3) {
			t.Errorf("%s has the learning rate %v, which is not TinyLM's", name, lr)
		}
	}
}

// TestPresetKeys: the defining settings of each method.
func TestPresetKeys(t *testing.T) {
	tests := []struct{ name, keys string }{
		{"a5-2025", "n_grpo_steps=200 learning_rate=1e-5 advantage_eps=1e-6 rollout_batch_size=256 group_size=8 " + // the assignment's numbers
			"sampling_temperature=1 sampling_min_tokens=4 sampling_max_tokens=64 epochs_per_rollout_batch=1 train_batch_size=256 " +
			"gradient_accumulation_steps=128 loss_type=reinforce_with_baseline use_std_normalization=true adam_betas=[0.9,0.95] " +
			"weight_decay=0 max_grad_norm=1"},
		{"a5-2026", "loss_type=reinforce_with_baseline length_normalization=masked_mean use_std_normalization=true train_batch_size=256"},
		{"grpo-original", "loss_type=grpo length_normalization=masked_mean beta=0.04 kl_estimator=k3 kl_in=loss use_std_normalization=true"},
		{"lite-ppo", "loss_type=grpo_clip scale_rewards=batch length_normalization=token-mean epsilon_high=0 dynamic_sampling=false"},
		{"aligned", "loss_type=grpo_clip scale_rewards=batch length_normalization=masked_mean epsilon_high=0.28"},
		{"dr-grpo", "loss_type=dr_grpo length_normalization=masked_normalize normalize_constant=64 use_std_normalization=false"},
		{"dapo", "loss_type=dapo length_normalization=token-mean epsilon_high=0.28 dynamic_sampling=true beta=0"},
		{"gspo", "loss_type=gspo importance_sampling_level=sequence length_normalization=seq-mean-token-mean cliprange=0.0003 epsilon_high=0.0004"},
		{"cispo", "loss_type=cispo epsilon_high=5 length_normalization=token-mean"},
		{"rloo", "baseline=leave_one_out normalizer=none importance_sampling_level=sequence_sum kl_in=reward kl_estimator=k1 beta=0.05"},
		{"reinforce-plus-plus", "baseline=none normalizer=whiten_tokens group_size=1 kl_in=reward gamma=1"},
		{"maxrl", "baseline=group_mean normalizer=group_mean length_normalization=token-mean"},
		{"rft", "loss_type=no_baseline length_normalization=constant normalize_constant=16384"},
		{"ppo", "algorithm.type=ppo loss_type=grpo_clip normalizer=whiten_tokens gae_lambda=0.95 gamma=1 value_epochs=2"},
		{"minillm", "teacher=teacher/model.safetensors teacher_gamma=0 reward_weights=[0]"},
	}
	for _, test := range tests {
		r, err := Load(LoadOptions{Path: test.name})
		expect.OK(t, err)
		for _, pair := range strings.Fields(test.keys) {
			key, want, _ := strings.Cut(pair, "=")
			has(t, test.name, r, key, want)
		}
	}
	if all := len(configs.Names(presetFolder)); len(tests) != all {
		t.Errorf("%d presets are tested, of %d", len(tests), all)
	}
}

// TestCommandsInComments: the --set and -c of the presets' comments are valid.
func TestCommandsInComments(t *testing.T) {
	command := regexp.MustCompile(`grpo train (-c .*)`)
	n := 0
	for _, name := range configs.Names(presetFolder) {
		text, err := readEmbedded(name)
		expect.OK(t, err)
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			opts := LoadOptions{}
			words := strings.Fields(m[1])
			for i := 0; i+1 < len(words); i += 2 {
				switch words[i] {
				case "-c":
					opts.Path = words[i+1]
				case "--set":
					opts.Set = append(opts.Set, words[i+1])
				default:
					i = len(words) // words next to the command
				}
			}
			if _, err := Load(opts); err != nil {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("found %d commands", n)
	}
}

// TestTeacherFile: minillm's teacher is the first stage of the base's recipe.
func TestTeacherFile(t *testing.T) {
	teacher, err := LoadSFT(LoadOptions{Path: "teacher"})
	expect.OK(t, err)
	base, err := LoadSFT(LoadOptions{Path: "base"})
	expect.OK(t, err)
	if len(teacher.Config.Stages) != 1 || teacher.Config.Stages[0] != base.Config.Stages[0] || teacher.Config.Model != base.Config.Model || !reflect.DeepEqual(teacher.Config.Data, base.Config.Data) {
		t.Errorf("teacher.yaml makes %+v, base.yaml starts with %+v", teacher.Config, base.Config.Stages[0])
	}
}

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
	"gemma3":              "203bf1fe",
	"grpo-original":       "9f1b63c1",
	"gsm8k":               "b1834a94",
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
	"tasks/arithmetic":    "d1d7fb9b",
	"tasks/copy":          "f026c66a",
	"tasks/countdown":     "e29672da",
	"tasks/parity":        "a99eb708",
	"tasks/reverse":       "dabfb9d5",
	"tasks/sort":          "90d8a32f",
}

func TestHashesKeepTheirValue(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(hashes)), Names(); !slices.Equal(got, want) {
		t.Errorf("pinned %v, embedded %v", got, want)
	}
	for name, want := range hashes {
		r, err := Load(LoadOptions{Path: name})
		expect.OK(t, err)
		if got := Hash(r.Config); got != want || r.Config.Name != configs.NameOf(name) {
			t.Errorf("the hash of %s is %s, want %s; it is named %s", name, got, want, r.Config.Name)
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
		if got := Hash(loadSet(t, set).Config); got != want {
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
		expect.OK(t, err)
		return Marshal(r.Config)
	}
	sft, err := LoadSFT(LoadOptions{})
	expect.OK(t, err)
	judge, err := LoadRewardModel(LoadOptions{Set: []string{"pairs=p.jsonl"}})
	expect.OK(t, err)
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
