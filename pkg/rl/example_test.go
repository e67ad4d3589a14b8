package rl_test

import (
	"fmt"

	"grpo/pkg/rl"
)

// The rewards 1, 0, 0.5 have a sample standard deviation of 0.5, so that the
// advantages are 1, -1 and 0. Some texts print 1.225 for this group: they divide
// by the population's standard deviation, 0.408.
func ExampleGroupAdvantages() {
	advantages, stats, err := rl.GroupAdvantages([]float64{1, 0, 0.5}, 3, rl.AdvantageOptions{
		Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd, Eps: 1e-6,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("mean %.1f, sample std %.1f, advantages %.3f\n", stats.RewardMean, stats.RewardStd, advantages)
	// Output: mean 0.5, sample std 0.5, advantages [1.000 -1.000 0.000]
}

// Dividing by the group's standard deviation does not explode for a group that is all right: its
// numerator is 0 too. It explodes for one that is nearly so, where a reward difference of 0.001
// gets an advantage as large as any other.
func ExampleGroupAdvantages_nearlyEqual() {
	for _, rewards := range [][]float64{{1, 1, 1, 1}, {1, 1, 1, 0.999}, {1, 1, 1, 0}} {
		scaled, _, err := rl.GroupAdvantages(rewards, 4, rl.AdvantageOptions{
			Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd, Eps: 1e-6,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		plain, _, err := rl.GroupAdvantages(rewards, 4, rl.AdvantageOptions{
			Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerNone,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: std on %.3f, std off %.5f\n", rewards, scaled, plain)
	}
	// Output:
	// [1 1 1 1]: std on [0.000 0.000 0.000 0.000], std off [0.00000 0.00000 0.00000 0.00000]
	// [1 1 1 0.999]: std on [0.499 0.499 0.499 -1.497], std off [0.00025 0.00025 0.00025 -0.00075]
	// [1 1 1 0]: std on [0.500 0.500 0.500 -1.500], std off [0.25000 0.25000 0.25000 -0.75000]
}

// Two completions of 4 and 7 tokens, a ratio of 1 and advantages of 2: under masked_mean each token
// of the short one has more weight, under masked_normalize all tokens have the same weight.
func ExampleAggregate() {
	s := rl.Shape{B: 2, T: 7}
	ratioTimesAdvantage := make([]float64, s.Len())
	mask := make([]bool, s.Len())
	for i := range mask {
		ratioTimesAdvantage[i] = 2
		mask[i] = i < 4 || i >= 7
	}
	for _, a := range []rl.Aggregation{rl.MaskedMeanSeq, rl.MaskedNormalizeSeq} {
		perSequence, weights := make([]float64, s.B), make([]float64, s.T)
		gradients := make([]float64, s.B)
		for b := range s.B {
			lo, hi := b*s.T, (b+1)*s.T
			var err error
			perSequence[b], err = rl.Aggregate(a, 7, rl.Shape{B: 1, T: s.T}, ratioTimesAdvantage[lo:hi], mask[lo:hi], rl.Totals{}, weights)
			if err != nil {
				fmt.Println(err)
				return
			}
			gradients[b] = weights[0]
		}
		fmt.Printf("%-16s  values %.4f, gradient of each token %.4f\n", a, perSequence, gradients)
	}
	// Output:
	// masked_mean       values [2.0000 2.0000], gradient of each token [0.2500 0.1429]
	// masked_normalize  values [1.1429 2.0000], gradient of each token [0.1429 0.1429]
}

// On-policy the ratio is 1 and the value of the loss is the mean advantage, 0;
// the gradient is not 0. No clip fraction is reported: nothing can be
// clipped.
func ExampleLoss() {
	r, err := rl.Loss(rl.LossConfig{Loss: rl.GRPOClip, Epsilon: 0.2, Aggregation: rl.MaskedMeanSeq}, rl.Batch{
		Shape:      rl.Shape{B: 2, T: 2},
		LogProbs:   []float64{-1.0, -0.5, -2.0, 0},
		Advantages: []float64{1, -1},
		Mask:       []bool{true, true, true, false},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("loss %.2f, gradient %.2f, clip fraction reported: %v\n", r.Loss, r.Grad, r.Stats.ClipFraction() != nil)
	// Output: loss 0.00, gradient [-0.25 -0.25 0.50 0.00], clip fraction reported: false
}
