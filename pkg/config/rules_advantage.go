package config

import (
	"fmt"
	"slices"
)

// rulesAdvantage: one choice of baseline and normalizer can be written under
// several names, the assignment's, TRL's and our own. None overrides another in
// silence: where two say different things, that is an error with both names.
var rulesAdvantage = []rule{
	custom(rawRewards, "algorithm.baseline", "algorithm.loss_type"),
	custom(rawRewards, "algorithm.normalizer", "algorithm.loss_type"),
	custom(rawRewards, "algorithm.scale_rewards", "algorithm.loss_type"),
	custom(trlBaseline, "algorithm.baseline", "algorithm.scale_rewards"),
	custom(sameNormalizer, "algorithm.normalizer", "algorithm.scale_rewards"),
	custom(sameStd, "algorithm.use_std_normalization", "algorithm.normalizer", "algorithm.type", "algorithm.loss_type"),
	custom(sameStd, "algorithm.use_std_normalization", "algorithm.scale_rewards", "algorithm.type", "algorithm.loss_type"),

	custom(passKAlone, "algorithm.pass_k", "algorithm.loss_type"),
	custom(passKAlone, "algorithm.pass_k", "algorithm.type"),
	custom(passKAlone, "algorithm.pass_k", "algorithm.baseline"),
	custom(passKAlone, "algorithm.pass_k", "algorithm.normalizer"),
	custom(passKAlone, "algorithm.pass_k", "algorithm.scale_rewards"),

	custom(valueBaseline, "algorithm.baseline", "algorithm.type"),
	custom(valueBaseline, "algorithm.normalizer", "algorithm.type"),
	custom(valueBaseline, "algorithm.scale_rewards", "algorithm.type"),
	custom(valueBaseline, "algorithm.loss_type", "algorithm.type"),
	custom(valueBaseline, "algorithm.teacher", "algorithm.type"),
	custom(valueBaseline, "algorithm.skip_flat_groups", "algorithm.type"),

	custom(skipsNothingElse, "algorithm.skip_flat_groups", "algorithm.beta", "algorithm.kl_in"),
	custom(skipsNothingElse, "algorithm.skip_flat_groups", "algorithm.entropy_coef"),
	custom(skipsNothingElse, "algorithm.skip_flat_groups", "algorithm.use_adaptive_entropy"),
	custom(skipsNothingElse, "algorithm.skip_flat_groups", "algorithm.teacher"),
	custom(skipsNothingElse, "algorithm.skip_flat_groups", "algorithm.normalizer"),
	custom(teacherAfterWhitening, "algorithm.teacher", "algorithm.normalizer"),

	custom(groupOfTwo, "rollout.group_size", "algorithm.loss_type", "algorithm.baseline", "algorithm.normalizer",
		"algorithm.scale_rewards", "algorithm.use_std_normalization", "algorithm.type", "algorithm.pass_k",
		"algorithm.dynamic_sampling", "reward.multi_objective_aggregation"),
	custom(nonNegativeRewards, "algorithm.normalizer", "reward.functions"),
	custom(nonNegativeRewards, "algorithm.normalizer", "reward.reward_weights"),
	custom(nonNegativeRewards, "algorithm.normalizer", "algorithm.kl_in"),
}

func contradicts(v *view, a, b, why string) string {
	return fmt.Sprintf("%s contradicts %s: %s", v.name(a), v.name(b), why)
}

// rawRewards: no_baseline is the assignment's name for rewards as they are.
func rawRewards(v *view, k []string) string {
	s := v.text(k[0])
	if v.text(k[1]) != "no_baseline" || s == "" || s == "none" && k[0] != "algorithm.scale_rewards" {
		return ""
	}
	return contradicts(v, k[0], k[1], "it uses the raw rewards (use reinforce_with_baseline, the same loss with advantages)")
}

// trlBaseline: TRL's scale_rewards goes with the group's mean.
func trlBaseline(v *view, k []string) string {
	if b := v.text(k[0]); v.text(k[1]) == "" || b == "" || b == "group_mean" {
		return ""
	}
	return contradicts(v, k[0], k[1], "that subtracts the group's mean (name the normalizer instead)")
}

func sameNormalizer(v *view, k []string) string {
	want := scaleNormalizer(v.text(k[1]))
	if n := v.text(k[0]); v.text(k[1]) == "" || n == "" || n == want {
		return ""
	}
	return contradicts(v, k[0], k[1], "that is "+want+" (leave one of them out)")
}

// sameStd compares the switch with what names the normalizer, if a source sets
// it: its default gives way.
func sameStd(v *view, k []string) string {
	name := v.text(k[1])
	if !v.given(k[0]) || name == "" || v.text(k[3]) == "no_baseline" {
		return ""
	}
	if k[1] == "algorithm.scale_rewards" {
		name = scaleNormalizer(name)
	}
	std := (&Algorithm{Type: v.text(k[2])}).stdNormalizer()
	if v.on(k[0]) == (name == std) {
		return ""
	}
	return contradicts(v, k[0], k[1], "true stands for "+std+", false for another (leave one of them out)")
}

// passKAlone: pass@k has advantages of its own.
func passKAlone(v *view, k []string) string {
	if !v.on(k[0]) {
		return ""
	}
	switch s := v.text(k[1]); {
	case k[1] == "algorithm.type" && s == "grpo", k[1] == "algorithm.loss_type" && s != "no_baseline":
		return ""
	case s == "":
		return ""
	}
	return contradicts(v, k[0], k[1], "the best of a group is compared with the second best")
}

// valueBaseline: under ppo the baseline is the critic's estimate.
func valueBaseline(v *view, k []string) string {
	if v.text(k[1]) != "ppo" {
		return ""
	}
	why := "there the critic is the baseline (use none, or leave this key out)"
	switch k[0] {
	case "algorithm.baseline":
		if s := v.text(k[0]); s == "" || s == "none" {
			return ""
		}
	case "algorithm.normalizer":
		if s := v.text(k[0]); s == "" || s == "none" || s == "whiten_tokens" {
			return ""
		}
		why = "there advantages are of tokens (use none or whiten_tokens)"
	case "algorithm.scale_rewards":
		if v.text(k[0]) == "" {
			return ""
		}
		why = "there advantages are of tokens (use normalizer none or whiten_tokens)"
	case "algorithm.loss_type":
		if v.text(k[0]) != "no_baseline" {
			return ""
		}
		why = "there the critic is the baseline (use grpo_clip, or reinforce_with_baseline without a ratio)"
	case "algorithm.teacher":
		if v.text(k[0]) == "" {
			return ""
		}
		why = "a teacher's token rewards go with grpo"
	case "algorithm.skip_flat_groups":
		if !v.on(k[0]) {
			return ""
		}
		why = "there groups of equal reward have advantages too"
	}
	return contradicts(v, k[0], k[1], why)
}

// skipsNothingElse: leaving out completions of advantage 0 is exact only if
// nothing but the advantage gives them a gradient.
func skipsNothingElse(v *view, k []string) string {
	if !v.on(k[0]) {
		return ""
	}
	ok := true
	switch k[1] {
	case "algorithm.beta":
		ok = v.num(k[1]) == 0 || v.text(k[2]) == "reward"
	case "algorithm.entropy_coef":
		ok = v.num(k[1]) == 0
	case "algorithm.use_adaptive_entropy":
		ok = !v.on(k[1])
	case "algorithm.teacher":
		ok = v.text(k[1]) == ""
	case "algorithm.normalizer":
		ok = v.text(k[1]) != "whiten_tokens"
	}
	if ok {
		return ""
	}
	return contradicts(v, k[0], k[1], "groups of equal reward have a gradient then, and skipping them would change the update")
}

// teacherAfterWhitening: which of the two comes first is nobody's convention.
func teacherAfterWhitening(v *view, k []string) string {
	if v.text(k[0]) == "" || v.text(k[1]) != "whiten_tokens" {
		return ""
	}
	return contradicts(v, k[0], k[1], "the teacher's token rewards are added to advantages of completions (use another normalizer)")
}

// groupOfTwo: what compares the completions of a group needs two. The mean of a
// group of one is its own reward, so that every advantage would be 0, and its
// sample standard deviation does not exist.
func groupOfTwo(v *view, k []string) string {
	if v.num(k[0]) >= 2 {
		return ""
	}
	a := Algorithm{Type: v.text(k[6]), LossType: v.text(k[1]), Baseline: v.text(k[2]), Normalizer: v.text(k[3]),
		ScaleRewards: v.text(k[4]), UseStdNormalization: v.on(k[5])}
	baseline, normalizer := a.Advantages()
	ofGroup := slices.Contains([]string{"group_mean", "leave_one_out", "length_weighted"}, baseline)
	because := ""
	switch {
	case v.on(k[7]):
		because = k[7]
	case v.on(k[8]):
		because = k[8]
	case v.text(k[9]) == "normalize_then_sum":
		because = k[9]
	case ofGroup && a.Baseline != "":
		because = k[2]
	case ofGroup && a.ScaleRewards != "":
		because = k[4]
	case ofGroup:
		because = k[1]
	case normalizer == "group_std" && a.Normalizer != "":
		because = k[3]
	case normalizer == "group_std":
		because = k[5]
	default:
		return ""
	}
	return fmt.Sprintf("%s must be at least 2, because %s compares the completions of a group", v.name(k[0]), v.name(because))
}

// nonNegativeRewards: a group's mean is a scale only where no reward is negative.
func nonNegativeRewards(v *view, k []string) string {
	if v.text(k[0]) != "group_mean" {
		return ""
	}
	ok := true
	switch k[1] {
	case "reward.functions":
		for _, f := range []string{"soft_overlong", "repetition", "cosine"} {
			ok = ok && !slices.Contains(v.list(k[1]), f)
		}
	case "reward.reward_weights":
		for i := range v.values[k[1]].Len() {
			ok = ok && v.values[k[1]].Index(i).Float() >= 0
		}
	case "algorithm.kl_in":
		ok = v.text(k[1]) == "loss"
	}
	if ok {
		return ""
	}
	return contradicts(v, k[0], k[1], "it divides by the group's mean reward, and rewards may be negative")
}
