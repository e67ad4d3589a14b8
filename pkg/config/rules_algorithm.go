package config

import (
	"fmt"
	"slices"

	"grpo/pkg/rl"
)

// rulesAlgorithm are the rules of the section algorithm: single keys, then what
// contradicts what, then what would have no effect.
var rulesAlgorithm = slices.Concat([]rule{
	oneOf("algorithm.type", "grpo", "ppo"),
	oneOf("algorithm.loss_type", rl.RecipeNames()...),
	oneOfOrNone("algorithm.baseline", rl.Baselines()...),
	oneOfOrNone("algorithm.normalizer", Normalizers()...),
	oneOfOrNone("algorithm.scale_rewards", "group", "batch", "none"),
	in(nonNegative, "algorithm.advantage_eps"),
	in(interval{low: 0, lowOpen: true, high: 1}, "algorithm.gamma"),
	in(positive, "algorithm.cliprange"),
	in(nonNegative, "algorithm.epsilon_high"),
	in(nonNegative, "algorithm.delta"),
	in(nonNegative, "algorithm.dual_clip"),
	custom(dualClipAboveOne, "algorithm.dual_clip"),
	oneOfOrNone("algorithm.importance_sampling_level", rl.ImportanceLevels()...),
	oneOfOrNone("algorithm.length_normalization", rl.Aggregations()...),
	in(nonNegative, "algorithm.normalize_constant"),
	in(positive, "algorithm.sapo_temperature_pos"),
	in(positive, "algorithm.sapo_temperature_neg"),
	in(positive, "algorithm.vespo_k_pos"),
	in(positive, "algorithm.vespo_lambda_pos"),
	in(positive, "algorithm.vespo_k_neg"),
	in(positive, "algorithm.vespo_lambda_neg"),
	in(nonNegative, "algorithm.beta"),
	oneOf("algorithm.kl_estimator", rl.KLEstimators()...),
	oneOf("algorithm.kl_in", "loss", "reward"),
	in(counterOrNo, "algorithm.ref_model_sync_steps"),
	in(interval{low: 0, lowOpen: true, high: 1}, "algorithm.ref_model_mixup_alpha"),
	in(nonNegative, "algorithm.entropy_coef"),
	in(nonNegative, "algorithm.entropy_target"),
	in(nonNegative, "algorithm.entropy_coef_delta"),
	in(nonNegative, "algorithm.entropy_coef_min"),
	in(nonNegative, "algorithm.entropy_coef_max"),
	atMost("algorithm.entropy_coef_min", "algorithm.entropy_coef_max"),
	in(interval{low: 0, lowOpen: true, high: 1}, "algorithm.top_entropy_quantile"),
	in(nonNegative, "algorithm.off_policy_mask_threshold"),
	in(interval{low: 1, high: 1000}, "algorithm.dynamic_sampling_max_rounds"),
	custom(teacherKind, "algorithm.teacher"),
	in(share, "algorithm.teacher_gamma"),
	in(share, "algorithm.gae_lambda"),
	in(nonNegative, "algorithm.value_learning_rate"),
	in(counterOrNo, "algorithm.value_epochs"),
	in(nonNegative, "algorithm.value_clip"),
}, rulesAdvantage, rulesLoss, rulesEffect)

// rulesLoss are about what a loss type stands for.
var rulesLoss = []rule{
	custom(tiedAggregation, "algorithm.length_normalization", "algorithm.loss_type"),
	custom(tiedLevel, "algorithm.importance_sampling_level", "algorithm.loss_type"),
	custom(tiedConstant, "algorithm.normalize_constant", "algorithm.loss_type"),
	custom(cispoCap, "algorithm.epsilon_high", "algorithm.loss_type"),
	custom(deltaAboveClip, "algorithm.delta", "algorithm.cliprange", "algorithm.epsilon_high"),
	custom(startsWithin, "algorithm.entropy_coef", "algorithm.entropy_coef_min", "algorithm.entropy_coef_max", "algorithm.use_adaptive_entropy"),
}

func dualClipAboveOne(v *view, k []string) string {
	if c := v.num(k[0]); c > 0 && c <= 1 {
		return fmt.Sprintf("%s must be more than 1, or 0 for none", v.name(k[0]))
	}
	return ""
}

// teacherKind: as [initKind], without random weights, which teach nothing.
func teacherKind(v *view, k []string) string {
	switch s := v.text(k[0]); {
	case s == "" || s == "base":
		return ""
	case s != "random" && initKind(v, k) == "":
		return ""
	}
	return fmt.Sprintf("%s must be base, the path of a safetensors file (./NAME for a file beside), or empty for none", v.name(k[0]))
}

func tiedAggregation(v *view, k []string) string {
	l := rl.RecipeNamed(v.text(k[1]))
	if s := v.text(k[0]); !l.Tied || s == "" || s == string(l.Aggregation) {
		return ""
	}
	return fmt.Sprintf("%s contradicts %s, which stands for %s with %s (use %s to combine it with another)",
		v.name(k[0]), v.name(k[1]), l.Loss, l.Aggregation, l.Loss)
}

func tiedLevel(v *view, k []string) string {
	l := rl.RecipeNamed(v.text(k[1]))
	if s := v.text(k[0]); l.Level == "" || s == "" || s == string(l.Level) {
		return ""
	}
	return fmt.Sprintf("%s contradicts %s, which is defined at the level %s (use %s for another)", v.name(k[0]), v.name(k[1]), l.Level, l.Loss)
}

func tiedConstant(v *view, k []string) string {
	l := rl.RecipeNamed(v.text(k[1]))
	if z := v.num(k[0]); l.NormalizeConstant == 0 || z == 0 || z == l.NormalizeConstant {
		return ""
	}
	return fmt.Sprintf("%s contradicts %s, which sums over a sequence and divides by %s (use %s with %s for another constant)",
		v.name(k[0]), v.name(k[1]), formatFloat(l.NormalizeConstant), l.Loss, l.Aggregation)
}

// cispoCap: for cispo there is no sensible bound that follows from others.
func cispoCap(v *view, k []string) string {
	if v.text(k[1]) == "cispo" && v.num(k[0]) == 0 {
		return fmt.Sprintf("%s must be more than 0, because of %s: it is the largest ratio itself, e.g. 5", v.name(k[0]), v.name(k[1]))
	}
	return ""
}

// deltaAboveClip: below the clip, delta would take the clip's place.
func deltaAboveClip(v *view, k []string) string {
	high := k[2]
	if v.num(high) == 0 {
		high = k[1]
	}
	if d := v.num(k[0]); d != 0 && d <= 1+v.num(high) {
		return fmt.Sprintf("%s must be more than 1 + %s, or 0 for none", v.name(k[0]), v.name(high))
	}
	return ""
}

// startsWithin: the adaptive coefficient starts within its bounds.
func startsWithin(v *view, k []string) string {
	c, low, high := v.num(k[0]), v.num(k[1]), v.num(k[2])
	if v.on(k[3]) && low <= high && (c < low || c > high) {
		return fmt.Sprintf("%s must be at least %s and at most %s", v.name(k[0]), v.name(k[1]), v.name(k[2]))
	}
	return ""
}

// rulesEffect: keys that would do nothing.
var rulesEffect = []rule{
	withLoss("algorithm.epsilon_high", rl.UsesEpsilonHigh),
	withLoss("algorithm.delta", rl.UsesDelta),
	withLoss("algorithm.dual_clip", rl.UsesDualClip),
	levelHasRatio(),
	withLoss("algorithm.sapo_temperature_pos", rl.UsesSAPO),
	withLoss("algorithm.sapo_temperature_neg", rl.UsesSAPO),
	withLoss("algorithm.vespo_k_pos", rl.UsesVESPO),
	withLoss("algorithm.vespo_lambda_pos", rl.UsesVESPO),
	withLoss("algorithm.vespo_k_neg", rl.UsesVESPO),
	withLoss("algorithm.vespo_lambda_neg", rl.UsesVESPO),

	withPositive("algorithm.kl_estimator", "algorithm.beta"),
	withPositive("algorithm.kl_in", "algorithm.beta"),
	withPositive("algorithm.use_bias_correction_kl", "algorithm.beta"),
	effective("algorithm.use_bias_correction_kl", "algorithm.kl_in", "use loss, or leave this key out",
		func(v *view) bool { return v.text("algorithm.kl_in") == "loss" }),
	withPositive("algorithm.ref_model_sync_steps", "algorithm.beta"),
	withPositive("algorithm.ref_model_mixup_alpha", "algorithm.ref_model_sync_steps"),

	withOn("algorithm.entropy_target", "algorithm.use_adaptive_entropy"),
	withOn("algorithm.entropy_coef_delta", "algorithm.use_adaptive_entropy"),
	withOn("algorithm.entropy_coef_min", "algorithm.use_adaptive_entropy"),
	withOn("algorithm.entropy_coef_max", "algorithm.use_adaptive_entropy"),
	withOn("algorithm.off_policy_mask_threshold", "algorithm.off_policy_mask"),
	withOn("algorithm.dynamic_sampling_max_rounds", "algorithm.dynamic_sampling"),

	withTeacher("algorithm.teacher_gamma"),
	withTeacher("algorithm.teacher_length_normalization"),
	withPPO("algorithm.gae_lambda"),
	withPPO("algorithm.value_learning_rate"),
	withPPO("algorithm.value_epochs"),
	withPPO("algorithm.value_clip"),
}

// withLoss: only some losses have the option of the key.
func withLoss(key string, option rl.Uses) rule {
	losses := rl.LossesWith(option)
	return effective(key, "algorithm.loss_type", "it is for "+orList(losses), func(v *view) bool {
		return slices.Contains(losses, string(rl.RecipeNamed(v.text("algorithm.loss_type")).Loss))
	})
}

// levelHasRatio: the losses with an importance ratio of a kind that has levels.
func levelHasRatio() rule {
	r := withLoss("algorithm.importance_sampling_level", rl.UsesLevel)
	check := r.check
	r.check = func(v *view, k []string) string {
		if v.text(k[0]) == "" {
			return ""
		}
		return check(v, k)
	}
	return r
}

func withPositive(key, other string) rule {
	return effective(key, other, "set "+lastPart(other)+", or leave this key out", func(v *view) bool { return v.num(other) > 0 })
}

func withOn(key, other string) rule {
	return effective(key, other, "set it to true, or leave this key out", func(v *view) bool { return v.on(other) })
}

func withTeacher(key string) rule {
	return effective(key, "algorithm.teacher", "name the teacher's checkpoint, or leave this key out",
		func(v *view) bool { return v.text("algorithm.teacher") != "" })
}

func withPPO(key string) rule {
	return effective(key, "algorithm.type", "use ppo, or leave this key out", func(v *view) bool { return v.text("algorithm.type") == "ppo" })
}

func orList(words []string) string {
	s := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			s += " and " + w
		} else {
			s += ", " + w
		}
	}
	return s
}
