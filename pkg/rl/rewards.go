package rl

import (
	"fmt"
	"math"
)

// CombineRewards sums several reward functions with their weights:
//
//	r_i = sum_f weights_f * rewards_f,i
//
// rewards has a slice of N values for each function. A function that could not score
// a completion returns NaN and is left out of that sum; a completion that no function
// scored stays NaN, as [GroupAdvantages] expects.
//
// Source: TRL GRPOTrainer, multi_objective_aggregation "sum_then_normalize".
func CombineRewards(rewards [][]float64, weights []float64) ([]float64, error) {
	n, err := checkRewards(rewards, weights)
	if err != nil {
		return nil, fmt.Errorf("combine rewards: %w", err)
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = weightedSum(rewards, weights, i)
	}
	return out, nil
}

// NormalizeThenSum normalizes each reward function within its groups, sums the
// results with their weights and whitens the sum over the batch (GDPO):
//
//	z_f,i = (r_f,i - mean_group) / (std_group + eps)
//	s_i   = sum_f weights_f z_f,i
//	A_i   = (s_i - mean(s)) / (std(s) + eps)
//
// The results are advantages (N), ready for the loss. Zero-variance groups of a
// function add 0 to the sum; because of the last line they are not exactly 0.
//
// Source: TRL GRPOTrainer, multi_objective_aggregation "normalize_then_sum";
// arXiv:2601.05242.
func NormalizeThenSum(rewards [][]float64, weights []float64, groupSize int, eps float64) ([]float64, error) {
	n, err := checkRewards(rewards, weights)
	if err != nil {
		return nil, fmt.Errorf("normalize then sum: %w", err)
	}
	z := make([][]float64, len(rewards))
	opt := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd, Eps: eps}
	for f := range rewards {
		if z[f], _, err = GroupAdvantages(rewards[f], groupSize, opt); err != nil {
			return nil, fmt.Errorf("normalize then sum: reward function %d: %w", f, err)
		}
		for i, r := range rewards[f] {
			if math.IsNaN(r) {
				z[f][i] = math.NaN()
			}
		}
	}
	sum := make([]float64, n)
	for i := range sum {
		sum[i] = weightedSum(z, weights, i)
	}
	whiten(sum, sum, eps)
	return sum, nil
}

func weightedSum(x [][]float64, weights []float64, i int) float64 {
	sum, scored := 0.0, false
	for f := range x {
		if v := x[f][i]; !math.IsNaN(v) {
			sum += float64(weights[f] * v)
			scored = true
		}
	}
	if !scored {
		return math.NaN()
	}
	return sum
}

func checkRewards(rewards [][]float64, weights []float64) (n int, err error) {
	if len(rewards) == 0 {
		return 0, fmt.Errorf("no reward function")
	}
	if len(weights) != len(rewards) {
		return 0, fmt.Errorf("%d weights for %d reward functions", len(weights), len(rewards))
	}
	n = len(rewards[0])
	for f, r := range rewards {
		if len(r) != n {
			return 0, fmt.Errorf("reward function %d has %d rewards, function 0 has %d", f, len(r), n)
		}
		if math.IsNaN(weights[f]) || math.IsInf(weights[f], 0) {
			return 0, fmt.Errorf("weight %d is %v", f, weights[f])
		}
	}
	return n, nil
}

// ClipRewards clamps rewards to lo..hi, in place; NaN stays NaN.
//
// Source: TRL RLOOTrainer, reward_clip_range.
func ClipRewards(rewards []float64, lo, hi float64) {
	for i, r := range rewards {
		if !math.IsNaN(r) {
			rewards[i] = clamp(r, lo, hi)
		}
	}
}
