package rl

import (
	"math"
	"testing"

	"grpo/internal/expect"
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
		{"a scale of 0 gives 0 also without a baseline", []float64{1, 1, 1, 0}, 2, with(BaselineNone, NormalizerGroupStd),
			[]float64{0, 0, math.Sqrt2, 0}},
		{"an undefined scale gives 0", []float64{nan, 1, 1, 0}, 2, with(BaselineNone, NormalizerGroupStd), []float64{0, 0, math.Sqrt2, 0}},
		{"nearly equal explodes", []float64{1, 1, 1, 0.999}, 4, grpo, []float64{0.5, 0.5, 0.5, -1.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := GroupAdvantages(c.rewards, c.group, c.opt)
			expect.OK(t, err)
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-9 {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestAdvantageStats(t *testing.T) {
	rewards := []float64{1, 1, 0, 1, nan, nan, nan, 2}
	for _, norm := range []Normalizer{NormalizerNone, NormalizerGroupStd, NormalizerBatchStd} {
		t.Run(string(norm), func(t *testing.T) {
			_, st, err := GroupAdvantages(rewards, 2, AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: norm, Eps: 1e-6})
			expect.OK(t, err)
			// Zero-variance groups are counted group by group, whatever scales the advantages.
			if st.Groups != 4 || st.ZeroStdGroups != 1 || st.ZeroAdvantageGroups != 3 || st.FracRewardZeroStd != 0.25 {
				t.Errorf("counts: %+v", st)
			}
			sameValue(t, "mean", st.RewardMean, 1)
			sameValue(t, "std", st.RewardStd, math.Sqrt(0.5))
		})
	}
}

// The squares of these rewards are 0 or infinite as a float64, their standard
// deviations are not.
func TestMomentsOfExtremeValues(t *testing.T) {
	for _, tt := range []struct {
		name      string
		x         []float64
		mean, std float64
	}{
		{"large", []float64{1e308, -1e308, 0}, 0, 1e308},
		{"a large weight", []float64{1e155, 0, 1e155, 0}, 0.5e155, 1e155 / math.Sqrt(3)},
		{"small", []float64{1e-200, 0, 1e-200, 0}, 0.5e-200, 1e-200 / math.Sqrt(3)},
		{"large and equal", []float64{1e308, 1e308, 1e308}, 1e308, 0},
		{"small and equal", []float64{1e-300, 1e-300}, 1e-300, 0},
		{"unscored among large", []float64{1e200, math.NaN(), -1e200}, 0, 1e200 * math.Sqrt2},
		{"one alone", []float64{1e308}, 1e308, math.NaN()},
		{"beyond the range", []float64{1.7e308, -1.7e308}, 0, math.Inf(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := momentsOf(tt.x)
			for _, v := range []struct{ got, want float64 }{{m.mean, tt.mean}, {m.std, tt.std}} {
				if !(math.IsNaN(v.got) && math.IsNaN(v.want)) && v.got != v.want && !(math.Abs(v.got-v.want) <= 1e-12*math.Abs(v.want)) {
					t.Errorf("mean %v, std %v, want %v and %v", m.mean, m.std, tt.mean, tt.std)
				}
			}
		})
	}
}

// Within the range of squares the numbers are bit-identical to the plain formula's: runs depend on
// it.
func TestMomentsAreThePlainOnesInRange(t *testing.T) {
	for _, x := range [][]float64{{1, 0, 0.5}, {0.1, 0.1, 0.1}, {0, 0}, {1e100, -3, 2}, {1e-100, 0}} {
		if got, want := momentsOf(x), plainMoments(x); got != want {
			t.Errorf("%v: %v, plain %v", x, got, want)
		}
	}
}
