package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
)

// TestPresets: every published method exists under both names, names its source, and trains TinyLM
// from the embedded base.
func TestPresets(t *testing.T) {
	want := []string{"a5-2025", "a5-2026", "aligned", "cispo", "dapo", "dr-grpo", "grpo-original", "gspo", "lite-ppo",
		"maxrl", "minillm", "ppo", "reinforce-plus-plus", "rft", "rloo"}
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
		if c.Model != d.Model || c.Data != d.Data {
			t.Errorf("%s is not about the default model and problems", name)
		}
		if lr := c.Train.LearningRate; name != "a5-2025" && (lr < 1e-4 || lr > 3e-3) {
			t.Errorf("%s has the learning rate %v, which is not TinyLM's", name, lr)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("presets %v, want %v", names, want)
	}
}

// TestPresetKeys: the defining settings of each method.
func TestPresetKeys(t *testing.T) {
	tests := []struct{ name, keys string }{
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
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range strings.Fields(test.keys) {
			key, want, _ := strings.Cut(pair, "=")
			if got, err := Get(r.Config, key); err != nil || got != want {
				t.Errorf("%s: %s is %s (%v), want %s", test.name, key, got, err, want)
			}
		}
	}
	if all := len(configs.Names(presetFolder)); len(tests) != all-1 {
		t.Errorf("%d presets are tested here and one (a5-2025) above, of %d", len(tests), all)
	}
}

// TestCommandsInComments: the --set and -c of the presets' comments are valid.
func TestCommandsInComments(t *testing.T) {
	command := regexp.MustCompile(`grpo train (-c .*)`)
	n := 0
	for _, name := range configs.Names(presetFolder) {
		text, err := readEmbedded(name)
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	base, err := LoadSFT(LoadOptions{Path: "base"})
	if err != nil {
		t.Fatal(err)
	}
	if len(teacher.Config.Stages) != 1 || teacher.Config.Stages[0] != base.Config.Stages[0] || teacher.Config.Model != base.Config.Model || teacher.Config.Data != base.Config.Data {
		t.Errorf("teacher.yaml makes %+v, base.yaml starts with %+v", teacher.Config, base.Config.Stages[0])
	}
}
