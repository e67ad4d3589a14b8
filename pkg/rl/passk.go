package rl

import (
	"fmt"
	"math"
)

// PassKAdvantages rewards only the best completion of each group, by how much
// it is better than the second best:
//
//	A_best = (r_best - r_second) [ / (std + eps) ],   all others 0
//
// so that the expected maximum of a group is what grows. The bracket holds with
// useStd; std is the group's sample standard deviation. With two equally good
// best ones the group's advantages are all 0. Unscored completions (NaN) take
// no part.
//
// Source: arXiv:2503.19595; verl grpo_passk.
func PassKAdvantages(rewards []float64, groupSize int, useStd bool, eps float64) ([]float64, error) {
	opt := AdvantageOptions{Baseline: BaselineNone, Normalizer: NormalizerNone, Eps: eps}
	if err := opt.check(rewards, groupSize); err != nil {
		return nil, fmt.Errorf("pass@k advantages: %w", err)
	}
	if groupSize < 2 {
		return nil, fmt.Errorf("pass@k advantages: a group of 1 has no second best (use groups of 2 or more)")
	}
	adv := make([]float64, len(rewards))
	for lo := 0; lo < len(rewards); lo += groupSize {
		r := rewards[lo : lo+groupSize]
		best, second := -1, math.NaN()
		for i, v := range r {
			switch {
			case math.IsNaN(v):
			case best < 0:
				best = i
			case v > r[best]:
				best, second = i, r[best]
			case math.IsNaN(second) || v > second:
				second = v
			}
		}
		if best < 0 || math.IsNaN(second) {
			continue
		}
		a := adv[lo+best : lo+best+1]
		a[0] = r[best] - second
		if useStd {
			divide(a, momentsOf(r).std, eps)
		}
	}
	return adv, nil
}
