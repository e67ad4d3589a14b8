package rl

import (
	"math"
	"strings"
	"testing"
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
		{"not divisible", []float64{1, 2, 3}, 2, ok, "3 rewards cannot be split into groups of 2"},
		{"group of zero", []float64{1}, 0, ok, "group size 0"},
		{"group of one and std", []float64{1, 2}, 1, ok, "no standard deviation"},
		{"group of one and leave one out", []float64{1, 2}, 1, with(func(o *AdvantageOptions) { o.Baseline, o.Normalizer = BaselineLeaveOneOut, NormalizerNone }), "no other completions"},
		{"infinite reward", []float64{1, math.Inf(1)}, 2, ok, "reward 1 is +Inf"},
		{"negative eps", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Eps = -1 }), "eps is -1"},
		{"NaN eps", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Eps = nan }), "eps is NaN"},
		{"baseline", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline = "grup" }), `unknown baseline "grup" (known: batch_mean, greedy,`},
		{"normalizer", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Normalizer = "" }), `unknown normalizer ""`},
		{"lengths", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline = BaselineLengthWeighted }), "length of each of 2 completions, got 0"},
		{"greedy", []float64{1, 2}, 2, with(func(o *AdvantageOptions) { o.Baseline, o.GreedyRewards = BaselineGreedy, []float64{1, 2} }), "each of 1 groups, got 2"},
		{"negative reward for MaxRL", []float64{1, -2}, 2, with(func(o *AdvantageOptions) { o.Normalizer = NormalizerGroupMean }), "rewards of at least 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := GroupAdvantages(c.rewards, c.group, c.opt)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestAdvantageStats(t *testing.T) {
	rewards := []float64{1, 1, 0, 1, nan, nan, nan, 2}
	for _, norm := range []Normalizer{NormalizerNone, NormalizerGroupStd, NormalizerBatchStd} {
		t.Run(string(norm), func(t *testing.T) {
			_, st, err := GroupAdvantages(rewards, 2, AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: norm, Eps: 1e-6})
			if err != nil {
				t.Fatal(err)
			}
			// Zero-variance groups are counted group by group, whatever scales the advantages.
			if st.Groups != 4 || st.ZeroStdGroups != 1 || st.ZeroAdvantageGroups != 3 || st.FracRewardZeroStd != 0.25 {
				t.Errorf("counts: %+v", st)
			}
			sameValue(t, "mean", st.RewardMean, 1)
			sameValue(t, "std", st.RewardStd, math.Sqrt(0.5))
		})
	}
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
