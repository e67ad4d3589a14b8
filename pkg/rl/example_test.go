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
