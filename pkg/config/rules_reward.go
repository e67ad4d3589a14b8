package config

import (
	"fmt"
	"slices"
)

// rulesReward are the rules of the section reward.
var rulesReward = []rule{
	someOf("reward.functions", RewardFunctions()...),
	oneOf("reward.multi_objective_aggregation", "sum_then_normalize", "normalize_then_sum"),
	in(interval{low: 0, high: 1 << 16}, "reward.overlong_cache"),
	in(interval{low: 1, high: 100}, "reward.repetition_n_grams"),
	in(interval{low: -1e6, high: 0}, "reward.repetition_max_penalty"),
	oneOfOrNone("reward.cosine_correct", CosineBases()...),
	in(interval{low: 0, high: 1 << 16}, "reward.cosine_max_len"),
	eachIn(moderate, "reward.reward_weights"),
	in(moderate, "reward.cosine_min_value_wrong"),
	in(moderate, "reward.cosine_max_value_wrong"),
	in(moderate, "reward.cosine_min_value_correct"),
	in(moderate, "reward.cosine_max_value_correct"),
	custom(weightForEach, "reward.reward_weights", "reward.functions"),

	usedBy("reward.overlong_cache", "soft_overlong"),
	usedBy("reward.repetition_n_grams", "repetition"),
	usedBy("reward.repetition_max_penalty", "repetition"),
	usedBy("reward.cosine_correct", "cosine"),
	usedBy("reward.cosine_max_len", "cosine"),
	usedBy("reward.cosine_min_value_correct", "cosine"),
	usedBy("reward.cosine_max_value_correct", "cosine"),
	usedBy("reward.cosine_min_value_wrong", "cosine"),
	usedBy("reward.cosine_max_value_wrong", "cosine"),
	custom(cacheFits, "reward.overlong_cache", "rollout.sampling_max_tokens", "reward.functions"),
	atMost("reward.cosine_min_value_correct", "reward.cosine_max_value_correct"),
	atMost("reward.cosine_min_value_wrong", "reward.cosine_max_value_wrong"),

	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.loss_type"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.type"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.baseline"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.normalizer"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.scale_rewards"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.use_std_normalization"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.pass_k"),
	custom(sumOnly, "reward.multi_objective_aggregation", "algorithm.kl_in"),
}

// usedBy: the parameter of a reward function that is not in use has no effect.
func usedBy(key, function string) rule {
	return effective(key, "reward.functions", "add "+function+", or leave this key out", func(v *view) bool {
		return slices.Contains(v.list("reward.functions"), function)
	})
}

func weightForEach(v *view, k []string) string {
	if have, want := v.values[k[0]].Len(), v.values[k[1]].Len(); have != want {
		return fmt.Sprintf("%s must have one weight for each of %s: %d, not %d", v.name(k[0]), v.name(k[1]), want, have)
	}
	return ""
}

// cacheFits: soft_overlong's slope ends at the greatest length.
func cacheFits(v *view, k []string) string {
	if !slices.Contains(v.list(k[2]), "soft_overlong") {
		return ""
	}
	return atMost(k[0], k[1]).check(v, k)
}

// sumOnly: normalize_then_sum has the group's mean and standard deviation for
// each function, and then whitens; another baseline or normalizer, and a KL term
// that would have to be subtracted from a sum of rewards, have no place in it.
func sumOnly(v *view, k []string) string {
	if v.text(k[0]) != "normalize_then_sum" {
		return ""
	}
	ok := true
	switch k[1] {
	case "algorithm.loss_type":
		ok = v.text(k[1]) != "no_baseline"
	case "algorithm.type":
		ok = v.text(k[1]) == "grpo"
	case "algorithm.use_std_normalization":
		ok = v.on(k[1])
	case "algorithm.pass_k":
		ok = !v.on(k[1])
	case "algorithm.kl_in":
		ok = v.text(k[1]) == "loss"
	default: // baseline, normalizer, scale_rewards
		ok = v.text(k[1]) == ""
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s contradicts %s: it normalizes each reward function by its groups (use sum_then_normalize)", v.name(k[0]), v.name(k[1]))
}
