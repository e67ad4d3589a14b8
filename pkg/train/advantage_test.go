package train

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/rl"
)

// A group has zero variance exactly if pkg/rl finds a standard deviation of 0.
func TestZeroVariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 0.1, 1e-200, math.NaN()}), 1, 5).Draw(t, "group")
		_, stats, err := rl.GroupAdvantages(group, len(group), rl.AdvantageOptions{Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone})
		must(t, err)
		if got := zeroVariance(group); got != (stats.FracRewardZeroStd == 1) {
			t.Fatalf("%v: %v, share of such groups by pkg/rl: %v", group, got, stats.FracRewardZeroStd)
		}
	})
}
