package rl

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// The sum of three times 0.1 over 3 is not 0.1 in floating point; the advantages of such a group
// must still be 0.
func TestEqualRewardsGiveExactlyZero(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := rapid.IntRange(2, 9).Draw(rt, "group")
		r := rapid.Float64Range(0, 1e3).Draw(rt, "reward")
		rewards := slices.Concat(slices.Repeat([]float64{r}, g), drawRewards(rt, g, 0))
		for _, opt := range everyAdvantage(2, g) {
			switch opt.Baseline {
			case BaselineGroupMean, BaselineLeaveOneOut, BaselineLengthWeighted:
			default:
				continue
			}
			a, st, err := GroupAdvantages(rewards, g, opt)
			expect.OK(rt, err)
			if opt.Normalizer == NormalizerWhiten { // whose centre is the batch's
				continue
			}
			for _, v := range a[:g] {
				if v != 0 {
					rt.Fatalf("%s, %s: advantages %v of equal rewards", opt.Baseline, opt.Normalizer, a[:g])
				}
			}
			if st.ZeroStdGroups < 1 || st.ZeroAdvantageGroups < 1 {
				rt.Fatalf("a zero-variance group was not counted: %+v", st)
			}
		}
	})
}

// drawRewards draws n rewards on a grid of quarters, so that shifting by a
// quarter is exact; missing of ten are NaN.
func drawRewards(rt *rapid.T, n, missing int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(rapid.IntRange(0, 8).Draw(rt, "reward")) / 4
		if rapid.IntRange(0, 9).Draw(rt, "missing") < missing {
			out[i] = nan
		}
	}
	return out
}

// forAdvantages checks a property for every option.
func forAdvantages(t *testing.T, law func(rt *rapid.T, r []float64, g int, opt AdvantageOptions, a []float64)) {
	for i, o := range everyAdvantage(1, 2) {
		t.Run(fmt.Sprintf("%s, %s", o.Baseline, o.Normalizer), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				n, g := rapid.IntRange(1, 3).Draw(rt, "groups"), rapid.IntRange(2, 5).Draw(rt, "group")
				opt := everyAdvantage(n, g)[i]
				r := drawRewards(rt, n*g, 2)
				a, _, err := GroupAdvantages(r, g, opt)
				expect.OK(rt, err)
				law(rt, r, g, opt, a)
			})
		})
	}
}

func TestAdvantagesShiftInvariant(t *testing.T) {
	forAdvantages(t, func(rt *rapid.T, r []float64, g int, opt AdvantageOptions, a []float64) {
		switch {
		case opt.Baseline == BaselineNone || opt.Baseline == BaselineGreedy:
			return // not taken from the rewards
		case opt.Normalizer == NormalizerGroupMean || opt.Normalizer == NormalizerGPG:
			return // not a deviation
		}
		shifted := slices.Clone(r)
		for i := range shifted {
			shifted[i] += 3.25
		}
		b, _, err := GroupAdvantages(shifted, g, opt)
		expect.OK(rt, err)
		for i := range a {
			if !closeTo(a[i], b[i]) {
				rt.Fatalf("advantages of r %v, of r+3.25 %v", a, b)
			}
		}
	})
}

func TestAdvantagesFollowPermutation(t *testing.T) {
	forAdvantages(t, func(rt *rapid.T, r []float64, g int, opt AdvantageOptions, a []float64) {
		perm := rapid.Permutation(indices(g)).Draw(rt, "permutation")
		order := slices.Clone(indices(len(r)))
		copy(order, perm) // only within the first group
		rr, ll := make([]float64, len(r)), make([]int, len(r))
		for i, j := range order {
			rr[i], ll[i] = r[j], opt.Lengths[j]
		}
		opt.Lengths = ll
		b, _, err := GroupAdvantages(rr, g, opt)
		expect.OK(rt, err)
		for i, j := range order {
			if !closeTo(b[i], a[j]) {
				rt.Fatalf("advantages %v, permuted by %v: %v", a, order, b)
			}
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestAdvantagesSumToZeroAndHaveUnitStd(t *testing.T) {
	forAdvantages(t, func(rt *rapid.T, r []float64, g int, opt AdvantageOptions, a []float64) {
		if opt.Baseline != BaselineGroupMean && opt.Baseline != BaselineLeaveOneOut {
			return
		}
		for lo := 0; lo < len(r); lo += g {
			sum, scored := 0.0, slices.Clone(a[lo:lo+g])
			for i := range scored {
				sum += scored[i]
				if math.IsNaN(r[lo+i]) {
					scored[i] = nan
					if a[lo+i] != 0 {
						rt.Fatalf("advantage %v without a reward", a[lo+i])
					}
				}
			}
			if opt.Normalizer != NormalizerWhiten && !closeTo(sum, 0) {
				rt.Fatalf("advantages of a group sum to %v", sum)
			}
			std := momentsOf(scored).std
			if opt.Normalizer == NormalizerGroupStd && opt.Baseline == BaselineGroupMean && std > 0 && math.Abs(std-1) > 1e-4 {
				rt.Fatalf("their sample standard deviation is %v", std)
			}
		}
	})
}

func TestLeaveOneOutIsScaledGroupMean(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := rapid.IntRange(2, 6).Draw(rt, "group")
		r := drawRewards(rt, 2*g, 0)
		rloo, _, err1 := GroupAdvantages(r, g, AdvantageOptions{Baseline: BaselineLeaveOneOut, Normalizer: NormalizerNone})
		mean, _, err2 := GroupAdvantages(r, g, AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerNone})
		if err1 != nil || err2 != nil {
			rt.Fatal(err1, err2)
		}
		for i := range r {
			others := 0.0
			for j := i / g * g; j < (i/g+1)*g; j++ {
				if j != i {
					others += r[j] / float64(g-1)
				}
			}
			if !closeTo(rloo[i], r[i]-others) || !closeTo(rloo[i], mean[i]*float64(g)/float64(g-1)) {
				rt.Fatalf("leave one out %v, by definition %v", rloo[i], r[i]-others)
			}
		}
	})
}
