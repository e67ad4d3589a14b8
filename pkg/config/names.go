package config

import "grpo/pkg/rl"

// Normalizers lists the values of algorithm.normalizer, apart from "": those of
// pkg/rl for completions, and whiten_tokens (rl.WhitenTokens), which whitens the
// advantages of all tokens of the batch.
func Normalizers() []string { return append(rl.Normalizers(), "whiten_tokens") }

// recipe returns what the loss type stands for; the zero value for an unknown one.
func (a *Algorithm) recipe() rl.Recipe { return rl.RecipeNamed(a.LossType) }

// BaseLoss returns the loss of pkg/rl (rl.LossType) that the loss type stands
// for: grpo_clip for TRL's dapo, itself for sapo. After [Resolve] the aggregation,
// the level, the constant and the dual clip are in their own keys.
func (a Algorithm) BaseLoss() string {
	return string(a.recipe().Loss)
}

// EntropyOverAll says whether the loss type divides the entropy bonus by all
// tokens even where a policy mask keeps only some (rl.LossConfig).
func (a Algorithm) EntropyOverAll() bool {
	return a.recipe().EntropyOverAll
}

// Advantages returns the baseline and the normalizer in force. What is given is
// taken; the rest follows from the other names:
//
//	scale_rewards group, batch, none    group_mean with group_std, batch_std, none
//	no_baseline                         none, none
//	ppo                                 none, whiten_tokens (none without use_std_normalization)
//	else                                group_mean, group_std (none without use_std_normalization)
//
// It has no meaning under pass_k and normalize_then_sum, which have advantages
// of their own.
func (a Algorithm) Advantages() (baseline, normalizer string) {
	baseline, normalizer = "group_mean", "none"
	switch {
	case a.LossType == "no_baseline":
		baseline = "none"
	case a.Type == "ppo":
		baseline = "none"
		if a.UseStdNormalization {
			normalizer = "whiten_tokens"
		}
	case a.ScaleRewards != "":
		normalizer = scaleNormalizer(a.ScaleRewards)
	case a.UseStdNormalization:
		normalizer = "group_std"
	}
	if a.Baseline != "" {
		baseline = a.Baseline
	}
	if a.Normalizer != "" {
		normalizer = a.Normalizer
	}
	return baseline, normalizer
}

// scaleNormalizer translates TRL's scale_rewards.
func scaleNormalizer(scale string) string {
	switch scale {
	case "group":
		return "group_std"
	case "batch":
		return "batch_std"
	}
	return "none"
}
