package rl

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
)

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

func TestLossByHand(t *testing.T) {
	half, third := math.Log(0.5), math.Log(3)
	for _, c := range []struct {
		name     string
		cfg      LossConfig
		lp, old  []float64 // one sequence
		adv      []float64
		mask     []bool
		loss     float64
		grad     []float64
		clipFrac float64 // NaN: n/a
	}{
		{"clip, A < 0: low ratio loses its gradient", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 6, []float64{0, 6}, 0.5},
		{"delta bounds the other side", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Delta: 2, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 4, []float64{0, 0}, 0.5},
		{"delta inside the band leaves the bounded side", LossConfig{Loss: GRPOClip, Epsilon: 4, Delta: 2, Aggregation: TokenSum},
			[]float64{third}, []float64{0}, []float64{-2}, all(1), 6, []float64{6}, 0},
		{"dual clip bounds the loss", LossConfig{Loss: GRPOClip, Epsilon: 0.25, DualClip: 2, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 4, []float64{0, 0}, 0.5},
		{"vespo clamps its log ratios", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKPos: 1, VESPOLambdaPos: 1}, Aggregation: TokenSum},
			[]float64{-99, -1}, []float64{0, -16}, []float64{1}, all(2), 100 * math.Exp(-5) * math.E * math.Exp(-math.Exp(-5)),
			[]float64{-math.Exp(-4 - math.Exp(-5)), -math.Exp(-4 - math.Exp(-5))}, nan},
		{"vespo clamps the sum at 1e-8", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKPos: 0.5, VESPOLambdaPos: 1}, Aggregation: TokenSum},
			[]float64{-99, -1}, []float64{0, 0}, []float64{1}, all(2), 100e-4 * math.Exp(1-1e-8),
			[]float64{-1e-4 * math.Exp(1-1e-8), -1e-4 * math.Exp(1-1e-8)}, nan},
		{"no token at all", LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq},
			[]float64{nan, nan}, []float64{nan, nan}, []float64{nan}, []bool{false, false}, 0, []float64{0, 0}, nan},
		{"advantage 0 where the ratio overflows", LossConfig{Loss: GRPONoClip, Aggregation: TokenSum},
			[]float64{0}, []float64{-1e4}, []float64{0}, all(1), 0, []float64{0}, nan},
		{"clip if the ratio overflows", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Aggregation: TokenSum},
			[]float64{0}, []float64{-1e4}, []float64{2}, all(1), -2.5, []float64{0}, 1},
		{"sapo where the ratio overflows", LossConfig{Loss: SAPO, Aggregation: TokenSum},
			[]float64{0}, []float64{-1e4}, []float64{2}, all(1), -8, []float64{0}, nan},
		{"a ratio of 0", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Aggregation: TokenSum},
			[]float64{math.Inf(-1)}, []float64{-1}, []float64{2}, all(1), 0, []float64{0}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Loss(c.cfg, Batch{Shape: Shape{1, len(c.lp)}, LogProbs: c.lp, OldLogProbs: c.old, Advantages: c.adv, Mask: c.mask})
			expect.OK(t, err)
			if !closeTo(r.Loss, c.loss) {
				t.Errorf("loss %v, want %v", r.Loss, c.loss)
			}
			for i := range c.grad {
				if !closeTo(r.Grad[i], c.grad[i]) {
					t.Errorf("gradient %v, want %v", r.Grad, c.grad)
				}
			}
			got := r.Stats.ClipFraction()
			if math.IsNaN(c.clipFrac) != (got == nil) || got != nil && *got != c.clipFrac {
				t.Errorf("clip fraction %v, want %v", deref(got), c.clipFrac)
			}
		})
	}
}

// The entropy bonus sums over the tokens that the policy mask keeps, and divides by their number or by
// that of all tokens.
func TestEntropyBonusByHand(t *testing.T) {
	b := Batch{
		Shape: Shape{1, 4}, Mask: []bool{true, true, true, false}, PolicyMask: []bool{true, false, true, true},
		LogProbs: []float64{-1, -1, -1, nan}, Advantages: []float64{0}, Entropies: []float64{1, 5, 3, nan},
	}
	for _, c := range []struct {
		over bool
		loss float64
		grad []float64
	}{
		{false, -0.5 * (1 + 3) / 2, []float64{-0.25, 0, -0.25, 0}},
		{true, -0.5 * (1 + 3) / 3, []float64{-0.5 / 3, 0, -0.5 / 3, 0}},
	} {
		r, err := Loss(LossConfig{Loss: ReinforceWithBaseline, Aggregation: TokenMean, EntropyCoef: 0.5, EntropyOverAll: c.over}, b)
		expect.OK(t, err)
		if !closeTo(r.Loss, c.loss) || !slices.EqualFunc(r.GradEntropy, c.grad, closeTo) {
			t.Errorf("over all %v: loss %v, gradient %v, want %v and %v", c.over, r.Loss, r.GradEntropy, c.loss, c.grad)
		}
	}
}

func TestLossIntoDoesNotAllocate(t *testing.T) {
	b := Batch{Shape: Shape{8, 16}, LogProbs: make([]float64, 128), OldLogProbs: make([]float64, 128), Mask: all(128), Advantages: make([]float64, 8)}
	for i := range b.LogProbs {
		b.LogProbs[i], b.OldLogProbs[i], b.Advantages[i%8] = -1, -1.1, float64(i%8)-3.5
	}
	c := LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}
	var r Result
	if n := testing.AllocsPerRun(20, func() {
		expect.OK(t, LossInto(c, b, &r))
	}); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		c := LossConfig{Loss: r.Loss, Aggregation: r.Aggregation, NormalizeConstant: 1, Epsilon: 0.2, EpsilonHigh: 5,
			Level: r.Level, DualClip: r.DualClip}
		if err := c.Check(); err != nil {
			t.Errorf("%s of %s: %v", r.sourceName(), r.Source, err)
		}
	}
	for _, name := range LossTypes() {
		if r := RecipeNamed(name); r.Loss != LossType(name) {
			t.Errorf("the loss %s has no recipe of its name, so that no configuration can choose it", name)
		}
	}
	if r := RecipeNamed(""); r != (Recipe{}) {
		t.Errorf("a recipe without a name: %+v", r)
	}
}
