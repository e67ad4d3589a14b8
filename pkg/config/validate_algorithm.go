package config

import (
	"slices"
	"strings"

	"grpo/internal/yamldoc"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

func (c *Config) validateAlgorithm(v *validator) {
	a := &c.Algorithm
	if a.DualClip > 0 && a.DualClip <= 1 {
		v.reject("%s must be more than 1, or 0 for none", &a.DualClip)
	}
	if a.Teacher != "" && a.Teacher != "base" && !isPath(a.Teacher) {
		v.reject("%s must be base, the path of a safetensors file (./NAME for a file in this folder), "+
			"or empty for none", &a.Teacher)
	}

	atMost(v, &a.EntropyCoefMin, &a.EntropyCoefMax)
	outside := a.EntropyCoef < a.EntropyCoefMin || a.EntropyCoef > a.EntropyCoefMax
	if a.UseAdaptiveEntropy && outside && a.EntropyCoefMin <= a.EntropyCoefMax {
		v.reject("%s must be at least %s and at most %s", &a.EntropyCoef, &a.EntropyCoefMin, &a.EntropyCoefMax)
	}
	high := &a.EpsilonHigh
	if *high == 0 {
		high = &a.Cliprange
	}
	if a.Delta != 0 && a.Delta <= 1+*high { // it would replace the clip
		v.reject("%s must be more than 1 + %s, or 0 for none", &a.Delta, high)
	}
	a.validateFormulas(v)
	a.validateRecipe(v)
	a.validateAdvantages(v)
	a.validateTypes(v)
	c.validateDPO(v)
	c.validateGroups(v)
}

// validateRecipe checks the aggregation, level and constant that a loss type implies.
func (a *Algorithm) validateRecipe(v *validator) {
	r := a.recipe()
	if r.Tied && a.LengthNormalization != "" && a.LengthNormalization != r.Aggregation {
		v.reject("%s contradicts %s, which means %s with %s (use %s to combine it with another)",
			&a.LengthNormalization, &a.LossType, r.Loss, r.Aggregation, r.Loss)
	}
	if r.Level != "" && a.ImportanceSamplingLevel != "" && a.ImportanceSamplingLevel != r.Level {
		v.reject("%s contradicts %s, which is defined at the level %s (use %s for another)",
			&a.ImportanceSamplingLevel, &a.LossType, r.Level, r.Loss)
	}
	if z := a.NormalizeConstant; r.NormalizeConstant != 0 && z != 0 && z != r.NormalizeConstant {
		v.reject("%s contradicts %s, which sums over a sequence and divides by %s "+
			"(use %s with %s for another constant)",
			&a.NormalizeConstant, &a.LossType, yamldoc.FormatFloat(r.NormalizeConstant), r.Loss, r.Aggregation)
	}
	if a.BaseLoss() == rl.CISPO && a.LossExpr == "" && a.EpsilonHigh == 0 && a.Type != "dpo" {
		v.reject("%s must be more than 0, because of %s: it is the largest ratio itself, e.g. 5",
			&a.EpsilonHigh, &a.LossType)
	}
}

// validateAdvantages checks that baseline and normalizer agree. They have several names: the
// assignment's, TRL's and ours. None overrides another silently: a contradiction is an error with
// both names.
func (a *Algorithm) validateAdvantages(v *validator) {
	if a.BaseLoss() == rl.NoBaseline {
		const why = "it uses the raw rewards (use reinforce_with_baseline, the same loss with advantages)"
		v.compatible(a.Baseline == "" || a.Baseline == rl.BaselineNone, &a.Baseline, &a.LossType, why)
		v.compatible(a.Normalizer == "" || a.Normalizer == rl.NormalizerNone, &a.Normalizer, &a.LossType, why)
		v.compatible(a.ScaleRewards == "", &a.ScaleRewards, &a.LossType, why)
		v.compatible(a.AdvantageExpr == "", &a.AdvantageExpr, &a.LossType, why)
	}
	scale, std := a.scaleNormalizer(), a.stdNormalizer()
	if a.ScaleRewards != "" {
		v.compatible(a.Baseline == "" || a.Baseline == rl.BaselineGroupMean, &a.Baseline, &a.ScaleRewards,
			"that subtracts the group's mean (name the normalizer instead)")
		v.compatible(a.Normalizer == "" || a.Normalizer == scale, &a.Normalizer, &a.ScaleRewards,
			"that is "+string(scale)+" (leave one of them out)")
	}
	// The default of use_std_normalization yields to the other names.
	given := v.origins["algorithm.use_std_normalization"].Source != SourceDefault
	if given && a.BaseLoss() != rl.NoBaseline {
		use, why := a.UseStdNormalization, "true means "+string(std)+", false another (leave one of them out)"
		v.compatible(a.Normalizer == "" || use == (a.Normalizer == std), &a.UseStdNormalization, &a.Normalizer, why)
		v.compatible(a.ScaleRewards == "" || use == (scale == std), &a.UseStdNormalization, &a.ScaleRewards, why)
	}
	if a.PassK {
		const why = "the best of a group is compared with the second best"
		v.compatible(a.BaseLoss() != rl.NoBaseline, &a.PassK, &a.LossType, why)
		v.compatible(a.Type == "grpo", &a.PassK, &a.Type, why)
		v.compatible(a.Baseline == "", &a.PassK, &a.Baseline, why)
		v.compatible(a.Normalizer == "", &a.PassK, &a.Normalizer, why)
		v.compatible(a.ScaleRewards == "", &a.PassK, &a.ScaleRewards, why)
	}
}

// validateTypes checks for options that ppo, a teacher and skip_flat_groups exclude.
func (a *Algorithm) validateTypes(v *validator) {
	if a.Type == "ppo" {
		tokenwise := a.Normalizer == "" || a.Normalizer == rl.NormalizerNone || a.Normalizer == WhitenTokens
		v.compatible(a.Baseline == "" || a.Baseline == rl.BaselineNone, &a.Baseline, &a.Type,
			"the baseline is the critic (use none, or leave this key out)")
		v.compatible(tokenwise, &a.Normalizer, &a.Type, "advantages are per token (use none or whiten_tokens)")
		v.compatible(a.ScaleRewards == "", &a.ScaleRewards, &a.Type,
			"advantages are per token (use normalizer none or whiten_tokens)")
		v.compatible(a.BaseLoss() != rl.NoBaseline, &a.LossType, &a.Type,
			"the baseline is the critic (use grpo_clip, or reinforce_with_baseline without a ratio)")
		v.compatible(a.Teacher == "", &a.Teacher, &a.Type, "a teacher's token rewards go with grpo")
		v.compatible(!a.SkipFlatGroups, &a.SkipFlatGroups, &a.Type, "groups of equal reward have advantages too")
	}
	if a.SkipFlatGroups {
		for _, key := range a.flatGradients() {
			v.compatible(false, &a.SkipFlatGroups, key,
				"groups of equal reward have a gradient then, and skipping them would change the update")
		}
	}
	v.compatible(a.Teacher == "" || a.Normalizer != WhitenTokens, &a.Teacher, &a.Normalizer,
		"the teacher's token rewards are added to advantages of completions (use another normalizer)")
}

// flatGradients are the keys that give completions of advantage 0 a gradient.
func (a *Algorithm) flatGradients() (keys []any) {
	add := func(gradient bool, key any) {
		if gradient {
			keys = append(keys, key)
		}
	}
	add(a.Beta != 0 && a.KLIn != "reward", &a.Beta)
	if l, err := a.lossFormula(); err == nil && l != nil {
		add(!l.Vanishes(), &a.LossExpr)
	}
	add(a.EntropyCoef != 0, &a.EntropyCoef)
	add(a.UseAdaptiveEntropy, &a.UseAdaptiveEntropy)
	add(a.Teacher != "", &a.Teacher)
	add(a.Normalizer == WhitenTokens, &a.Normalizer)
	return keys
}

// SkippingIsExact reports whether an update without the completions of advantage 0 has the same
// gradient.
func (a *Algorithm) SkippingIsExact() bool { return a.Type == "grpo" && len(a.flatGradients()) == 0 }

// validateGroups checks the groups and rewards that advantages need.
func (c *Config) validateGroups(v *validator) {
	a, r := &c.Algorithm, &c.Reward
	if c.Rollout.Stale() {
		const why = "it would be about the policy that sampled, not the one that is trained (resample every step)"
		v.compatible(a.KLIn == "loss" || a.Beta == 0, &a.KLIn, &c.Rollout.ResampleEveryNSteps, why)
		v.compatible(a.Teacher == "", &a.Teacher, &c.Rollout.ResampleEveryNSteps, why)
	}
	if a.Normalizer == rl.NormalizerGroupMean { // a scale only if no reward is negative
		const why = "it divides by the group's mean reward, and rewards may be negative"
		negative := func(f string) bool {
			c := r.customReward(f)
			return slices.Contains(gsm8k.NegativeRewards(), f) || c != nil && c.Pattern == ""
		}
		v.compatible(!slices.ContainsFunc(r.Functions, negative), &a.Normalizer, &r.Functions, why)
		v.compatible(!slices.ContainsFunc(r.RewardWeights, func(w float64) bool { return w < 0 }),
			&a.Normalizer, &r.RewardWeights, why)
		v.compatible(a.KLIn == "loss", &a.Normalizer, &a.KLIn, why)
	}

	// With a group of one, every advantage would be 0 and the sample standard deviation undefined.
	if c.Rollout.GroupSize >= 2 {
		return
	}
	baseline, normalizer := a.Advantages()
	ofGroup := baseline == rl.BaselineGroupMean || baseline == rl.BaselineLeaveOneOut ||
		baseline == rl.BaselineLengthWeighted
	var because any
	switch {
	case a.Type == "dpo" && a.DPO.PairsFile != "":
		return
	case a.Type == "dpo":
		because = &a.Type
	case a.PassK:
		because = &a.PassK
	case a.DynamicSampling:
		because = &a.DynamicSampling
	case r.MultiObjectiveAggregation == "normalize_then_sum":
		because = &r.MultiObjectiveAggregation
	case a.AdvantageExpr != "": // may be the reward itself
		return
	case ofGroup && a.Baseline != "":
		because = &a.Baseline
	case ofGroup && a.ScaleRewards != "":
		because = &a.ScaleRewards
	case ofGroup:
		because = &a.LossType
	case normalizer == rl.NormalizerGroupStd && a.Normalizer != "":
		because = &a.Normalizer
	case normalizer == rl.NormalizerGroupStd:
		because = &a.UseStdNormalization
	default:
		return
	}
	v.reject("%s must be at least 2, because %s compares the completions of a group",
		&c.Rollout.GroupSize, because)
}

func (c *Config) validateDPO(v *validator) {
	a, d := &c.Algorithm, &c.Algorithm.DPO
	if have, want := len(d.LossWeights), len(d.LossType); have != 0 && have != want {
		v.reject("%s must have one weight for each of %s, or none", &d.LossWeights, &d.LossType)
	}
	if a.Type != "dpo" {
		return
	}
	wrong := func(f finding) bool { return strings.HasPrefix(f.text, "algorithm.dpo.") }
	if !slices.ContainsFunc(v.found, wrong) {
		if err := d.Rule().Check(); err != nil {
			v.reject("%s contradicts %s: %s", &d.PairsPerGroup, &d.Pairs, err)
		}
		if err := d.Preference().Check(); err != nil {
			v.reject("%s can't be used with the other settings of algorithm.dpo: %s", &d.LossType, err)
		}
	}
	batch := c.trainBatch()
	if a.FromFile() {
		if *batch%2 != 0 { // which divides rollout_batch_size
			v.reject("%s must be even: with %s it counts the two completions of each pair", batch, &d.PairsFile)
		}
		return
	}
	if g := &c.Rollout.GroupSize; *g > 0 && *batch%*g != 0 {
		v.reject("%s must be a multiple of %s, because %s makes pairs of the completions of a group", batch, g, &a.Type)
	}
}
