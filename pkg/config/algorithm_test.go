package config

import (
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
	"grpo/pkg/rl"
)

// TestAdvantages: one choice of baseline and normalizer, under every name.
func TestAdvantages(t *testing.T) {
	tests := []struct {
		set        string
		baseline   rl.Baseline
		normalizer rl.Normalizer
		std        bool // use_std_normalization, resolved
	}{
		{"", "group_mean", "group_std", true},
		{"use_std_normalization=false", "group_mean", "none", false},
		{"loss_type=no_baseline", "none", "none", true},
		{"loss_type=no_baseline use_std_normalization=false", "none", "none", false},
		{"loss_type=no_baseline baseline=none normalizer=none", "none", "none", true},
		{"loss_type=dapo", "group_mean", "group_std", true},
		{"scale_rewards=group", "group_mean", "group_std", true},
		{"scale_rewards=batch", "group_mean", "batch_std", false},
		{"scale_rewards=none", "group_mean", "none", false},
		{"scale_rewards=group use_std_normalization=true normalizer=group_std baseline=group_mean", "group_mean", "group_std", true},
		{"scale_rewards=none use_std_normalization=false normalizer=none", "group_mean", "none", false},
		{"baseline=leave_one_out", "leave_one_out", "group_std", true},
		{"baseline=leave_one_out use_std_normalization=false", "leave_one_out", "none", false},
		{"baseline=batch_mean normalizer=batch_std", "batch_mean", "batch_std", false},
		{"normalizer=group_mean", "group_mean", "group_mean", false},
		{"baseline=none normalizer=whiten_tokens group_size=1", "none", "whiten_tokens", false},
		{"baseline=greedy normalizer=none group_size=1", "greedy", "none", false},
		{"algorithm.type=ppo", "none", "whiten_tokens", true},
		{"algorithm.type=ppo group_size=1 baseline=none", "none", "whiten_tokens", true},
		{"algorithm.type=ppo use_std_normalization=false", "none", "none", false},
		{"algorithm.type=ppo normalizer=none", "none", "none", false},
		{"algorithm.type=ppo normalizer=whiten_tokens use_std_normalization=true", "none", "whiten_tokens", true},
	}
	for _, test := range tests {
		a := loadSet(t, test.set).Config.Algorithm
		if b, n := a.Advantages(); b != test.baseline || n != test.normalizer {
			t.Errorf("%s: got %s and %s, want %s and %s", test.set, b, n, test.baseline, test.normalizer)
		}
		if a.UseStdNormalization != test.std {
			t.Errorf("%s: use_std_normalization resolves to %v, want %v", test.set, a.UseStdNormalization, test.std)
		}
	}
}

// TestResolveLoss: the settings that a loss type implies, unless other keys set them.
func TestResolveLoss(t *testing.T) {
	tests := []struct {
		set            string
		base           rl.LossType
		aggregation    rl.Aggregation
		level          rl.ImportanceLevel
		constant, dual float64
	}{
		{"loss_type=no_baseline", "no_baseline", "masked_mean", "token", 64, 0},
		{"", "reinforce_with_baseline", "masked_mean", "token", 64, 0},
		{"loss_type=grpo_clip", "grpo_clip", "masked_mean", "token", 64, 0},
		{"loss_type=grpo_clip length_normalization=token-sum", "grpo_clip", "token-sum", "token", 64, 0},
		{"loss_type=grpo", "grpo_clip", "masked_mean", "token", 64, 0},
		{"loss_type=grpo importance_sampling_level=sequence", "grpo_clip", "masked_mean", "sequence", 64, 0},
		{"loss_type=bnpo", "grpo_clip", "token-mean", "token", 64, 0},
		{"loss_type=dr_grpo", "grpo_clip", "masked_normalize", "token", 64, 0},
		{"loss_type=dr_grpo sampling_max_tokens=32", "grpo_clip", "masked_normalize", "token", 32, 0},
		{"loss_type=dr_grpo normalize_constant=10", "grpo_clip", "masked_normalize", "token", 10, 0},
		{"loss_type=dapo", "grpo_clip", "token-mean", "token", 64, 0},
		{"loss_type=cispo epsilon_high=5", "cispo", "token-mean", "token", 64, 0},
		{"loss_type=cispo epsilon_high=5 length_normalization=masked_mean", "cispo", "masked_mean", "token", 64, 0},
		{"loss_type=sapo", "sapo", "masked_mean", "token", 64, 0},
		{"loss_type=luspo", "grpo_clip", "masked_normalize", "sequence", 1, 0},
		{"loss_type=vespo", "vespo", "token-mean", "token", 64, 0},
		{"loss_type=vanilla", "grpo_clip", "token-mean", "token", 64, 3},
		{"loss_type=vanilla dual_clip=5 length_normalization=seq-mean-token-sum", "grpo_clip", "seq-mean-token-sum", "token", 64, 5},
		{"loss_type=gpg", "reinforce_with_baseline", "token-mean", "token", 64, 0},
		{"loss_type=gspo", "grpo_clip", "seq-mean-token-mean", "sequence", 64, 0},
		{"loss_type=geo_mean", "geo_mean", "masked_mean", "token", 64, 0},
		{"loss_type=cispo_band", "cispo_band", "token-mean", "token", 64, 0},
		{"length_normalization=constant", "reinforce_with_baseline", "constant", "token", 256 * 64, 0},
		{"length_normalization=constant train_batch_size=32", "reinforce_with_baseline", "constant", "token", 32 * 64, 0},
		{"length_normalization=constant normalize_constant=42", "reinforce_with_baseline", "constant", "token", 42, 0},
	}
	for _, test := range tests {
		a := loadSet(t, test.set).Config.Algorithm
		if a.BaseLoss() != test.base || a.LengthNormalization != test.aggregation || a.ImportanceSamplingLevel != test.level ||
			a.NormalizeConstant != test.constant || a.DualClip != test.dual {
			t.Errorf("%s: got %s, %s, %s, %v, %v, want %+v", test.set, a.BaseLoss(), a.LengthNormalization,
				a.ImportanceSamplingLevel, a.NormalizeConstant, a.DualClip, test)
		}
	}
}

// TestDPOWithLossType: arms of grpo and dpo can have the same loss type, which dpo does not read. The
// file that such a run writes can be loaded.
func TestDPOWithLossType(t *testing.T) {
	for _, loss := range slices.Concat(rl.LossTypes(), rl.RecipeNames()) {
		r := loadSet(t, "algorithm.type=dpo loss_type="+loss)
		if _, err := LoadText("config.yaml", Marshal(r.Config)); err != nil {
			t.Errorf("%s: %v", loss, err)
		}
	}
}

// TestResolvePPO: by default the critic trains like the policy; without ppo its keys are unchanged,
// because of the hash.
func TestResolvePPO(t *testing.T) {
	for set, want := range map[string][2]float64{
		"lr=1e-4 epochs_per_rollout_batch=3":                                                            {0, 0},
		"algorithm.type=ppo lr=1e-4 num_iterations=3":                                                   {1e-4, 3},
		"algorithm.type=ppo lr=1e-4 num_iterations=3 value_learning_rate=1e-2":                          {1e-2, 3},
		"algorithm.type=ppo lr=1e-4 num_iterations=3 value_learning_rate=1e-2 algorithm.value_epochs=1": {1e-2, 1},
	} {
		if a := loadSet(t, set).Config.Algorithm; a.ValueLearningRate != want[0] || float64(a.ValueEpochs) != want[1] {
			t.Errorf("%s: got %v and %v, want %v", set, a.ValueLearningRate, a.ValueEpochs, want)
		}
	}
}

// TestResolveCosine: cosine uses the answer reward among the functions for correctness.
func TestResolveCosine(t *testing.T) {
	for set, want := range map[string]string{
		"functions=answer": "",
		"functions=cosine": "answer",
		"functions=format,cosine,r1_zero reward_weights=1,1,1":                                  "r1_zero",
		"functions=cosine,answer reward_weights=1,1 cosine_correct=last_number":                 "last_number",
		"functions=cosine,question_only,last_number reward_weights=1,1,1 sampling_max_tokens=9": "question_only",
	} {
		if got := loadSet(t, set).Config.Reward.CosineCorrect; got != want {
			t.Errorf("%s: got %q, want %q", set, got, want)
		}
	}
}

// TestOriginOfResolved: the origin of a value that another key asked for names that key.
func TestOriginOfResolved(t *testing.T) {
	r := loadSet(t, "loss_type=luspo scale_rewards=none algorithm.type=grpo")
	for key, want := range map[string]string{
		"algorithm.length_normalization":      "default, as algorithm.loss_type asks",
		"algorithm.importance_sampling_level": "default, as algorithm.loss_type asks",
		"algorithm.normalize_constant":        "default, as algorithm.loss_type asks",
		"algorithm.use_std_normalization":     "default, as algorithm.scale_rewards asks",
		"train.train_batch_size":              "default, the same as rollout.rollout_batch_size",
		"algorithm.loss_type":                 "--set loss_type",
	} {
		if got := r.Origin(key).String(); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestNeutralIsDefault: if a key's default is neutral, leaving it out of the hash is leaving out a
// default; and every added key has the tag.
func TestNeutralIsDefault(t *testing.T) {
	old := 0
	for _, f := range keysOf(Resolve(Default())) {
		switch {
		case OfLauncher(f.path): // not part of the hash
		case !f.hasNeutral:
			old++
		case !f.isNeutral():
			t.Errorf("%s is %s by default, and neutral at %q", f.path, yamldoc.Format(f.value), f.neutral)
		}
	}
	if old != 50 {
		t.Errorf("%d keys have no neutral value; the first version had 50", old)
	}
}

// Under LoRA the default learning rate, and that of an embedded configuration, is ten times
// as high. A rate that the user gives is taken as it is.
func TestLoRARate(t *testing.T) {
	load := func(path string, set ...string) *Resolved {
		t.Helper()
		r, err := Load(LoadOptions{Path: path, Set: set})
		expect.OK(t, err)
		return r
	}
	const lora = "train.lora.rank=16"
	for _, c := range []struct {
		r    *Resolved
		want float64
	}{
		{load("smollm2"), 1e-5},
		{load("smollm2", lora), 1e-4},
		{load("smollm2", lora, "lr=3e-5"), 3e-5},
		{load("", lora, "init=./x"), 1e-2},
		{load("gsm8k", "init=./x", "train.lora.rank=4"), 1e-4}, // the configuration's own rate is for adapters
		{load(write(t, "model: {init: ./x}\ntrain: {learning_rate: 1e-4, lora: {rank: 8}}")), 1e-4},
		{load(write(t, "model: {init: ./x}\ntrain: {learning_rate: 1e-4}"), lora), 1e-4},
		{load(write(t, "model: {init: ./x}\ntrain: {lora: {rank: 8}}")), 1e-2},
	} {
		if got := c.r.Config.Train.LearningRate; got != c.want {
			t.Errorf("learning rate %v, want %v (%v)", got, c.want, c.r.Origin("train.learning_rate"))
		}
		again, err := LoadText("x.yaml", Marshal(c.r.Config))
		if err != nil || again.Config.Train.LearningRate != c.want || Hash(again.Config) != Hash(c.r.Config) {
			t.Errorf("the resolved configuration has the learning rate %v, want %v: %v", again.Config.Train.LearningRate, c.want, err)
		}
	}
	o := load("smollm2", lora).Origin("train.learning_rate").String()
	if !strings.HasPrefix(o, "smollm2 (embedded): line ") || !strings.HasSuffix(o, ", as train.lora.rank asks") {
		t.Errorf("the origin is %q", o)
	}
}
