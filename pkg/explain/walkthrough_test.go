package explain

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

func TestWalkthrough(t *testing.T) {
	r, err := Walkthrough(DefaultWalkthrough())
	expect.OK(t, err)
	none := math.NaN()
	e := math.Exp
	a := 0.5 / (0.5 + 1e-6) // the advantage of the first; the second has -a
	same(t, "mean, std, population std", []float64{r.Mean, r.Std, r.PopulationStd}, []float64{0.5, 0.5, math.Sqrt(1. / 6)})
	same(t, "advantages", r.Advantages, []float64{a, -a, 0})
	same(t, "population's", r.PopulationAdvantages, []float64{1.2247418, -1.2247418, 0})
	matrices := []struct {
		name      string
		got, want [][]float64
	}{
		{"ratio", r.Ratio, [][]float64{{e(.2), e(-.05), e(.5), 1}, {e(-.4), e(.1), 1, none}, {e(.05), e(-.6), none, none}}},
		{"clipped", r.Clipped, [][]float64{{1.2, e(-.05), 1.2, 1}, {0.8, e(.1), 1, none}, {e(.05), 0.8, none, none}}},
		{"token loss", r.TokenLoss, [][]float64{{-1.2 * a, -e(-.05) * a, -1.2 * a, -a}, {0.8 * a, e(.1) * a, a, none}, {0, 0, none, none}}},
		{"weights", r.Weights, [][]float64{{1. / 12, 1. / 12, 1. / 12, 1. / 12}, {1. / 9, 1. / 9, 1. / 9, none}, {1. / 6, 1. / 6, none, none}}},
		{"gradient", r.Gradient, [][]float64{{0, -e(-.05) * a / 12, 0, -a / 12}, {0, e(.1) * a / 9, a / 9, none}, {0, 0, none, none}}},
	}
	for _, m := range matrices {
		t.Run(m.name, func(t *testing.T) { same(t, m.name, slices.Concat(m.got...), slices.Concat(m.want...)) })
	}
	loss := (-(2.4+e(-.05)+1)/4 + (0.8+e(.1)+1)/3) * a / 3
	same(t, "loss", []float64{r.Loss}, []float64{loss})
	same(t, "clip fraction", []float64{*r.ClipFraction, float64(r.ClippedTokens), float64(r.Tokens)}, []float64{1. / 3, 3, 9})
	textHas(t, textOf(t, r), "another std here, 0.408, and advantages [1.225, -1.225, 0.000]",
		"The sample std is 0.500 and gives [1.000, -1.000, 0.000]", "loss -0.0398", "3 of 9 tokens lost their gradient to the clip")
	asJSON(t, r)
}

// Every step is consistent with the next for any numbers.
func TestWalkthroughAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "n")
		o := WalkthroughOptions{
			Rewards: rapid.SliceOfN(rapid.Float64Range(-2, 2), n, n).Draw(t, "rewards"),
			UseStd:  rapid.Bool().Draw(t, "std"), Eps: 1e-6, Epsilon: 0.2,
			EpsilonHigh: rapid.SampledFrom([]float64{0, 0.28}).Draw(t, "high"),
			Aggregation: rl.Aggregation(rapid.SampledFrom(rl.Aggregations()).Draw(t, "aggregation")),
		}
		for range n {
			row := rapid.SliceOfN(rapid.Float64Range(-3, 0), 1, 5).Draw(t, "old")
			shift := rapid.SliceOfN(rapid.Float64Range(-1, 0), len(row), len(row)).Draw(t, "new")
			o.OldLogProbs, o.LogProbs = append(o.OldLogProbs, row), append(o.LogProbs, shift)
		}
		r, err := Walkthrough(o)
		expect.OK(t, err)
		sum := 0.0
		for b, row := range r.TokenLoss {
			for i, l := range row {
				if math.IsNaN(l) {
					continue
				}
				sum += r.Weights[b][i] * l
				if want := -math.Min(r.Unclipped[b][i], r.Bounded[b][i]); !near(l, want) {
					t.Fatalf("loss %v, want %v", l, want)
				}
				if want := math.Exp(o.LogProbs[b][i] - o.OldLogProbs[b][i]); !near(r.Ratio[b][i], want) {
					t.Fatalf("ratio %v, want %v", r.Ratio[b][i], want)
				}
			}
		}
		if !near(sum, r.Loss) {
			t.Fatalf("the terms add up to %v, the loss is %v", sum, r.Loss)
		}
		expect.OK(t, r.WriteText(&strings.Builder{}))
	})
}

func TestWalkthroughRefuses(t *testing.T) {
	refuses(t, "explain walkthrough: ", DefaultWalkthrough, Walkthrough, []refusal[WalkthroughOptions]{
		{"four rewards", func(o *WalkthroughOptions) { o.Rewards = []float64{1, 0, 0, 1} }, "4 rewards, 3 rows"},
		{"one completion", func(o *WalkthroughOptions) {
			o.Rewards, o.LogProbs, o.OldLogProbs = o.Rewards[:1], o.LogProbs[:1], o.OldLogProbs[:1]
		}, "group of 1"},
		{"rows of different lengths", func(o *WalkthroughOptions) { o.LogProbs[1] = []float64{-1} }, "completion 1 has 1 log-probabilities and 3 old ones"},
		{"an empty row", func(o *WalkthroughOptions) { o.LogProbs[1], o.OldLogProbs[1] = nil, nil }, "length 0 of completion 1"},
		{"NaN", func(o *WalkthroughOptions) { o.LogProbs[0][0] = math.NaN() }, "finite"},
		{"infinite reward", func(o *WalkthroughOptions) { o.Rewards[0] = math.Inf(1) }, "finite"},
		{"aggregation", func(o *WalkthroughOptions) { o.Aggregation = "mean" }, "unknown aggregation"},
		{"epsilon", func(o *WalkthroughOptions) { o.Epsilon = 0 }, "epsilon"},
	})
}
