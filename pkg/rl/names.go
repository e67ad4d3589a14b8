package rl

import (
	"fmt"
	"slices"
	"strings"
)

// Baselines lists the known baselines.
func Baselines() []string {
	return names(BaselineNone, BaselineGroupMean, BaselineLeaveOneOut, BaselineBatchMean,
		BaselineLengthWeighted, BaselineGreedy)
}

// Normalizers lists the known normalizers.
func Normalizers() []string {
	return names(NormalizerNone, NormalizerGroupStd, NormalizerBatchStd, NormalizerGroupMean,
		NormalizerWhiten, NormalizerGPG)
}

// AssignmentAdvantages returns the options that the 2025 assignment's names ask
// for: loss type no_baseline uses the raw rewards, whatever
// use_std_normalization says; every other uses the group's mean, and its sample
// standard deviation if useStd.
//
// Source: CS336 assignment 5 (2025), compute_policy_gradient_loss.
func AssignmentAdvantages(loss LossType, useStd bool, eps float64) AdvantageOptions {
	opt := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerNone, Eps: eps}
	switch {
	case loss == NoBaseline:
		opt.Baseline = BaselineNone
	case useStd:
		opt.Normalizer = NormalizerGroupStd
	}
	return opt
}

// ScaleRewards returns the options of TRL's scale_rewards: "group", "batch" or
// "none". All subtract the group's mean. TRL's eps is 1e-4.
func ScaleRewards(name string, eps float64) (AdvantageOptions, error) {
	opt := AdvantageOptions{Baseline: BaselineGroupMean, Eps: eps}
	switch name {
	case "group":
		opt.Normalizer = NormalizerGroupStd
	case "batch":
		opt.Normalizer = NormalizerBatchStd
	case "none":
		opt.Normalizer = NormalizerNone
	default:
		return opt, unknown("scale_rewards", name, []string{"group", "batch", "none"})
	}
	return opt, nil
}

func names[S ~string](s ...S) []string {
	out := make([]string, len(s))
	for i, v := range s {
		out[i] = string(v)
	}
	return out
}

func unknown(what, got string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("unknown %s %q (known: %s)", what, got, strings.Join(known, ", "))
}
