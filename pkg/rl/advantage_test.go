package rl

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var nan = math.NaN()

// options of every baseline and normalizer, with the inputs that they need.
func everyAdvantage(groups, groupSize int) []AdvantageOptions {
	lengths := make([]int, groups*groupSize)
	for i := range lengths {
		lengths[i] = 1 + i%3
	}
	greedy := make([]float64, groups)
	var out []AdvantageOptions
	for _, b := range Baselines() {
		for _, n := range Normalizers() {
			out = append(out, AdvantageOptions{
				Baseline: Baseline(b), Normalizer: Normalizer(n), Eps: 1e-6, Lengths: lengths, GreedyRewards: greedy,
			})
		}
	}
	return out
}

func TestGroupAdvantages(t *testing.T) {
	grpo := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd}
	with := func(b Baseline, n Normalizer) AdvantageOptions { return AdvantageOptions{Baseline: b, Normalizer: n} }
	for _, c := range []struct {
		name    string
		rewards []float64
		group   int
		opt     AdvantageOptions
		want    []float64
	}{
		{"sample std of 1, 0, 0.5 is 0.5", []float64{1, 0, 0.5}, 3, grpo, []float64{1, -1, 0}},
		{"eps is added outside the root", []float64{1, 0, 0.5}, 3,
			AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd, Eps: 0.5}, []float64{0.5, -0.5, 0}},
		{"groups are apart", []float64{1, 0, 4, 2}, 2, with(BaselineGroupMean, NormalizerNone), []float64{0.5, -0.5, 1, -1}},
		{"no baseline is the reward", []float64{1, 0, 4, 2}, 2, with(BaselineNone, NormalizerNone), []float64{1, 0, 4, 2}},
		{"leave one out", []float64{1, 0, 0, 0}, 4, with(BaselineLeaveOneOut, NormalizerNone), []float64{1, -1. / 3, -1. / 3, -1. / 3}},
		{"batch mean", []float64{1, 0, 4, 3}, 2, with(BaselineBatchMean, NormalizerNone), []float64{-1, -2, 2, 1}},
		{"hybrid: group mean, batch std", []float64{0, 2, 4, 2}, 2, with(BaselineGroupMean, NormalizerBatchStd),
			[]float64{-math.Sqrt(3. / 8), math.Sqrt(3. / 8), math.Sqrt(3. / 8), -math.Sqrt(3. / 8)}},
		{"MaxRL divides by the group mean", []float64{1, 0, 0, 0}, 4, with(BaselineGroupMean, NormalizerGroupMean), []float64{3, -1, -1, -1}},
		{"MaxRL, all wrong", []float64{0, 0}, 2, with(BaselineGroupMean, NormalizerGroupMean), []float64{0, 0}},
		{"length-weighted", []float64{1, 0}, 2,
			AdvantageOptions{Baseline: BaselineLengthWeighted, Normalizer: NormalizerNone, Lengths: []int{3, 1}}, []float64{0.25, -0.75}},
		{"greedy", []float64{1, 0, 1, 0}, 2,
			AdvantageOptions{Baseline: BaselineGreedy, Normalizer: NormalizerNone, GreedyRewards: []float64{1, 0}}, []float64{0, -1, 1, 0}},
		{"GPG scales by N over the non-zero", []float64{1, 0, 0, 0}, 4, with(BaselineGroupMean, NormalizerGPG), []float64{3, -1, -1, -1}},
		{"GPG, all zero", []float64{0, 0}, 2, with(BaselineGroupMean, NormalizerGPG), []float64{0, 0}},
		{"whiten centres on the batch", []float64{2, 0}, 1, with(BaselineNone, NormalizerWhiten), []float64{math.Sqrt2 / 2, -math.Sqrt2 / 2}},
		{"not scorable is left out", []float64{1, 0, nan, 0.5}, 4, grpo, []float64{1, -1, 0, 0}},
		{"one scorable", []float64{nan, 3}, 2, grpo, []float64{0, 0}},
		{"one scorable, leave one out", []float64{nan, 3}, 2, with(BaselineLeaveOneOut, NormalizerNone), []float64{0, 0}},
		{"none scorable", []float64{nan, nan}, 2, grpo, []float64{0, 0}},
		{"group of one, mean", []float64{3, 4}, 1, with(BaselineGroupMean, NormalizerNone), []float64{0, 0}},
		{"a scale of 0 gives 0 also without a baseline", []float64{1, 1, 1, 0}, 2, with(BaselineNone, NormalizerGroupStd), []float64{0, 0, math.Sqrt2, 0}},
		{"an undefined scale gives 0", []float64{nan, 1, 1, 0}, 2, with(BaselineNone, NormalizerGroupStd), []float64{0, 0, math.Sqrt2, 0}},
		{"nearly equal explodes", []float64{1, 1, 1, 0.999}, 4, grpo, []float64{0.5, 0.5, 0.5, -1.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := GroupAdvantages(c.rewards, c.group, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-9 {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestGroupAdvantagesErrors(t *testing.T) {
	ok := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd}
	with := func(f func(*AdvantageOptions)) AdvantageOptions {
		o := ok
		f(&o)
		return o
	}
	for _, c := range []struct {
		name    string
		rewards []float64
		group   int
		opt     AdvantageOptions
		want    string
	}{
		{"none", nil, 2, ok, "no rewards"},
		{"not divisible", []float64{1, 2, 3}, 2, ok, "3 rewards are no whole number of groups of 2"},
		{"group of zero", []float64{1}, 0, ok, "group size 0"},
		{"group of one and std", []float64{1, 2}, 1, ok, "no standard deviation"},
		{"group of one and leave one out", []float64{1, 2}, 1, with(func(o *AdvantageOptions) { o.Baseline, o.Normalizer = BaselineLeaveOneOut, NormalizerNone }), "no others"},
		{"infinite reward", []float64{1, math.Inf(1)}, 2, ok, "reward 1 is +Inf"},
		{"negative eps", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Eps = -1 }), "eps is -1"},
		{"NaN eps", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Eps = nan }), "eps is NaN"},
		{"baseline", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline = "grup" }), `unknown baseline "grup" (known: batch_mean, greedy,`},
		{"normalizer", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Normalizer = "" }), `unknown normalizer ""`},
		{"lengths", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline = BaselineLengthWeighted }), "length of each of 2 completions, got 0"},
		{"greedy", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline, o.GreedyRewards = BaselineGreedy, []float64{1, 2} }), "each of 1 groups, got 2"},
		{"negative reward for MaxRL", []float64{1, -2}, 2, with(func(o *AdvantageOptions) { o.Normalizer = NormalizerGroupMean }), "not negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := GroupAdvantages(c.rewards, c.group, c.opt)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// The sum of three times 0.1 over 3 is not 0.1 in floating point; the advantages
// of such a group must be 0 all the same.
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
			if err != nil {
				rt.Fatal(err)
			}
			if opt.Normalizer == NormalizerWhiten { // whose centre is the batch's
				continue
			}
			for _, v := range a[:g] {
				if v != 0 {
					rt.Fatalf("%s, %s: advantages %v of equal rewards", opt.Baseline, opt.Normalizer, a[:g])
				}
			}
			if st.FlatGroups < 1 || st.SilentGroups < 1 {
				rt.Fatalf("a flat group was not counted: %+v", st)
			}
		}
	})
}

func TestAdvantageStats(t *testing.T) {
	rewards := []float64{1, 1, 0, 1, nan, nan, nan, 2}
	for _, norm := range []Normalizer{NormalizerNone, NormalizerGroupStd, NormalizerBatchStd} {
		t.Run(string(norm), func(t *testing.T) {
			_, st, err := GroupAdvantages(rewards, 2, AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: norm, Eps: 1e-6})
			if err != nil {
				t.Fatal(err)
			}
			// Flat groups are counted group by group, whatever scales the advantages.
			if st.Groups != 4 || st.FlatGroups != 1 || st.SilentGroups != 3 || st.FracRewardZeroStd != 0.25 || st.Unscored != 3 {
				t.Errorf("counts: %+v", st)
			}
			sameValue(t, "mean", st.RewardMean, 1)
			sameValue(t, "std", st.RewardStd, math.Sqrt(0.5))
			sameValue(t, "group std", st.GroupStdMean, math.Sqrt(0.5)/2)
			if st.AdvantageMax <= 0 || st.AdvantageMin != -st.AdvantageMax {
				t.Errorf("range %v..%v", st.AdvantageMin, st.AdvantageMax)
			}
			sameValue(t, "mean size", st.AdvantageAbsMean, 2*st.AdvantageMax/8)
		})
	}
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

// forAdvantages checks a law for every option.
func forAdvantages(t *testing.T, law func(rt *rapid.T, r []float64, g int, opt AdvantageOptions, a []float64)) {
	for i, o := range everyAdvantage(1, 2) {
		t.Run(fmt.Sprintf("%s, %s", o.Baseline, o.Normalizer), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				n, g := rapid.IntRange(1, 3).Draw(rt, "groups"), rapid.IntRange(2, 5).Draw(rt, "group")
				opt := everyAdvantage(n, g)[i]
				r := drawRewards(rt, n*g, 2)
				a, _, err := GroupAdvantages(r, g, opt)
				if err != nil {
					rt.Fatal(err)
				}
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
		if err != nil {
			rt.Fatal(err)
		}
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
		if err != nil {
			rt.Fatal(err)
		}
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

func TestAssignmentAdvantages(t *testing.T) {
	for _, c := range []struct {
		loss   LossType
		std    bool
		base   Baseline
		normal Normalizer
	}{
		{NoBaseline, true, BaselineNone, NormalizerNone},
		{ReinforceWithBaseline, true, BaselineGroupMean, NormalizerGroupStd},
		{ReinforceWithBaseline, false, BaselineGroupMean, NormalizerNone},
		{GRPOClip, true, BaselineGroupMean, NormalizerGroupStd},
		{GRPONoClip, false, BaselineGroupMean, NormalizerNone},
	} {
		got := AssignmentAdvantages(c.loss, c.std, 1e-6)
		if got.Baseline != c.base || got.Normalizer != c.normal || got.Eps != 1e-6 {
			t.Errorf("%s, std %v: %+v", c.loss, c.std, got)
		}
	}
	if _, err := ScaleRewards("grup", 0); err == nil || !strings.Contains(err.Error(), `unknown scale_rewards "grup"`) {
		t.Errorf("got error %v", err)
	}
}
