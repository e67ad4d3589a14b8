package rl

import (
	"math"
	"slices"
	"strings"
	"testing"
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
		{"reinforce, masked mean", LossConfig{Loss: ReinforceWithBaseline, Aggregation: MaskedMeanSeq},
			[]float64{-1, -3, nan}, nil, []float64{2}, []bool{true, true, false}, 4, []float64{-1, -1, 0}, nan},
		{"reinforce, masked normalize", LossConfig{Loss: NoBaseline, Aggregation: MaskedNormalizeSeq, NormalizeConstant: 8},
			[]float64{-1, -3, nan}, nil, []float64{2}, []bool{true, true, false}, 1, []float64{-0.25, -0.25, 0}, nan},
		{"no clip", LossConfig{Loss: GRPONoClip, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{2}, all(2), -7, []float64{-1, -6}, nan},
		{"clip, A > 0: high ratio loses its gradient", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{2}, all(2), -1 - 2.5, []float64{-1, 0}, 0.5},
		{"clip, A < 0: low ratio loses its gradient", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 6, []float64{0, 6}, 0.5},
		{"clip higher", LossConfig{Loss: GRPOClip, Epsilon: 0.25, EpsilonHigh: 3, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{2}, all(2), -7, []float64{-1, -6}, 0},
		{"delta bounds the other side", LossConfig{Loss: GRPOClip, Epsilon: 0.25, Delta: 2, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 4, []float64{0, 0}, 0.5},
		{"delta inside the band leaves the bounded side", LossConfig{Loss: GRPOClip, Epsilon: 4, Delta: 2, Aggregation: TokenSum},
			[]float64{third}, []float64{0}, []float64{-2}, all(1), 6, []float64{6}, 0},
		{"dual clip bounds the loss", LossConfig{Loss: GRPOClip, Epsilon: 0.25, DualClip: 2, Aggregation: TokenSum},
			[]float64{half, third}, []float64{0, 0}, []float64{-2}, all(2), 1.5 + 4, []float64{0, 0}, 0.5},
		{"sequence ratio is the geometric mean", LossConfig{Loss: GRPONoClip, Level: SequenceLevel, Aggregation: TokenSum},
			[]float64{half, -half}, []float64{0, 0}, []float64{2}, all(2), -4, []float64{-2, -2}, nan},
		{"sequence sum ratio is the product", LossConfig{Loss: GRPONoClip, Level: SequenceSum, Aggregation: MaskedMeanSeq},
			[]float64{third, third}, []float64{0, 0}, []float64{1}, all(2), -9, []float64{-9, -9}, nan},
		{"cispo keeps the gradient of a capped token", LossConfig{Loss: CISPO, EpsilonHigh: 2, Aggregation: TokenSum},
			[]float64{third, half}, []float64{0, 0}, []float64{1}, all(2), -2*third - 0.5*half, []float64{-2, -0.5}, 0.5},
		{"geo_mean clips log ratios, A > 0", LossConfig{Loss: GeoMean, Epsilon: 0.2, EpsilonHigh: 0.5, Aggregation: MaskedMeanSeq},
			[]float64{third, 0.1, half}, []float64{0, 0, 0}, []float64{3}, all(3),
			-3 * math.Exp((0.5+0.1+half)/3), []float64{0, -math.Exp((0.6 + half) / 3), -math.Exp((0.6 + half) / 3)}, 1. / 3},
		{"geo_mean clips log ratios, A < 0", LossConfig{Loss: GeoMean, Epsilon: 0.2, EpsilonHigh: 0.5, Aggregation: MaskedMeanSeq},
			[]float64{third, 0.1, half}, []float64{0, 0, 0}, []float64{-3}, all(3),
			3 * math.Exp((third+0.1-0.2)/3), []float64{math.Exp((third - 0.1) / 3), math.Exp((third - 0.1) / 3), 0}, 1. / 3},
		{"sapo", LossConfig{Loss: SAPO, LossParams: LossParams{SAPOTempPos: 2}, Aggregation: TokenSum},
			[]float64{third}, []float64{0}, []float64{1}, all(1), -2 / (1 + math.Exp(-4)),
			[]float64{-12 * math.Exp(-4) / (1 + math.Exp(-4)) / (1 + math.Exp(-4))}, nan},
		{"vespo, A > 0", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKPos: 1, VESPOLambdaPos: 2}, Aggregation: TokenSum},
			[]float64{-1, -2}, []float64{-1 - third/2, -2 - third/2}, []float64{1}, all(2), 3 * 3 * math.Exp(-4),
			[]float64{-3 * math.Exp(-4), -3 * math.Exp(-4)}, nan},
		{"vespo, A < 0", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKNeg: 2, VESPOLambdaNeg: 1}, Aggregation: TokenSum},
			[]float64{-1}, []float64{-1 - third}, []float64{-1}, all(1), -9 * math.Exp(-2), []float64{9 * math.Exp(-2)}, nan},
		{"vespo clamps its log ratios", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKPos: 1, VESPOLambdaPos: 1}, Aggregation: TokenSum},
			[]float64{-99, -1}, []float64{0, -16}, []float64{1}, all(2), 100 * math.Exp(-5) * math.E * math.Exp(-math.Exp(-5)),
			[]float64{-math.Exp(-4 - math.Exp(-5)), -math.Exp(-4 - math.Exp(-5))}, nan},
		{"vespo clamps the sum at 1e-8", LossConfig{Loss: VESPO, LossParams: LossParams{VESPOKPos: 0.5, VESPOLambdaPos: 1}, Aggregation: TokenSum},
			[]float64{-99, -1}, []float64{0, 0}, []float64{1}, all(2), 100e-4 * math.Exp(1-1e-8), []float64{-1e-4 * math.Exp(1-1e-8), -1e-4 * math.Exp(1-1e-8)}, nan},
		{"cispo_band", LossConfig{Loss: CISPOBand, Epsilon: 0.25, EpsilonHigh: 0.5, Aggregation: TokenSum},
			[]float64{third, half, -0.1}, []float64{0, 0, -0.1}, []float64{1}, all(3), -1.5*third - 0.75*half + 0.1, []float64{-1.5, -0.75, -1}, 2. / 3},
		{"token-level advantages", LossConfig{Loss: NoBaseline, Aggregation: TokenMean},
			[]float64{-1, -2, -3}, nil, []float64{1, nan, -1}, []bool{true, false, true}, (1 - 3) / 2., []float64{-0.5, 0, 0.5}, nan},
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
			if err != nil {
				t.Fatal(err)
			}
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
		if err != nil {
			t.Fatal(err)
		}
		if !closeTo(r.Loss, c.loss) || !slices.EqualFunc(r.GradEntropy, c.grad, closeTo) {
			t.Errorf("over all %v: loss %v, gradient %v, want %v and %v", c.over, r.Loss, r.GradEntropy, c.loss, c.grad)
		}
	}
}

func TestLossErrors(t *testing.T) {
	good := func() (LossConfig, Batch) {
		return LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}, Batch{
			Shape: Shape{2, 3}, LogProbs: make([]float64, 6), OldLogProbs: make([]float64, 6), Mask: all(6), Advantages: make([]float64, 2),
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*LossConfig, *Batch)
		want  string
	}{
		{"loss", func(c *LossConfig, _ *Batch) { c.Loss = "grpo-clip" }, `unknown loss "grpo-clip" (known: cispo,`},
		{"aggregation", func(c *LossConfig, _ *Batch) { c.Aggregation = "" }, `unknown aggregation ""`},
		{"constant", func(c *LossConfig, _ *Batch) { c.Aggregation = MaskedNormalizeSeq }, "normalize constant, which is 0"},
		{"epsilon", func(c *LossConfig, _ *Batch) { c.Epsilon = 0 }, "epsilon (cliprange) is 0"},
		{"epsilon_high", func(c *LossConfig, _ *Batch) { c.EpsilonHigh = -1 }, "epsilon_high is -1"},
		{"cispo cap", func(c *LossConfig, _ *Batch) { c.Loss = CISPO }, "largest ratio itself"},
		{"level", func(c *LossConfig, _ *Batch) { c.Level = "word" }, `unknown importance sampling level "word"`},
		{"estimator", func(c *LossConfig, _ *Batch) { c.KL = "k4" }, `unknown KL estimator "k4"`},
		{"beta", func(c *LossConfig, _ *Batch) { c.Beta = nan }, "beta is NaN"},
		{"dual clip", func(c *LossConfig, _ *Batch) { c.DualClip = 0.5 }, "dual clip is 0.5"},
		{"no reference", func(c *LossConfig, _ *Batch) { c.Beta = 1 }, "reference log-probs are missing, and beta is not 0"},
		{"no entropies", func(c *LossConfig, _ *Batch) { c.EntropyCoef = 1 }, "entropies are missing"},
		{"shape", func(_ *LossConfig, b *Batch) { b.Shape.T = 0 }, "shape (2, 0)"},
		{"log-probs", func(_ *LossConfig, b *Batch) { b.LogProbs = b.LogProbs[1:] }, "log-probs has 5 values, shape (2, 3) needs 6"},
		{"old log-probs", func(_ *LossConfig, b *Batch) { b.OldLogProbs = b.OldLogProbs[1:] }, "old log-probs has 5"},
		{"empty old log-probs", func(_ *LossConfig, b *Batch) { b.OldLogProbs = []float64{} }, "old log-probs has 0"},
		{"mask", func(_ *LossConfig, b *Batch) { b.Mask = b.Mask[1:] }, "mask has 5"},
		{"policy mask", func(_ *LossConfig, b *Batch) { b.PolicyMask = b.Mask[1:] }, "policy mask has 5"},
		{"advantages", func(_ *LossConfig, b *Batch) { b.Advantages = b.Advantages[1:] }, "1 advantages; shape (2, 3) needs 2"},
		{"totals", func(_ *LossConfig, b *Batch) { b.Totals = Totals{1, 1, 3, 3} }, "do not cover this batch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, b := good()
			if _, err := Loss(cfg, b); err != nil {
				t.Fatal(err)
			}
			c.spoil(&cfg, &b)
			_, err := Loss(cfg, b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Different losses with the same on-policy gradient.
func TestOnPolicyIdentities(t *testing.T) {
	b := Batch{
		Shape: Shape{2, 3}, LogProbs: []float64{-1, -2, -3, -0.5, nan, nan},
		Mask: []bool{true, true, true, true, false, false}, Advantages: []float64{1.5, -0.5},
	}
	grad := func(lossType string) []float64 {
		high := 5.0
		o := TRLOptions{LossType: lossType, Epsilon: 0.2, MaxCompletionLength: 4}
		if lossType == "cispo" {
			o.EpsilonHigh = &high
		}
		c, err := TRLLoss(o)
		if err != nil {
			t.Fatal(err)
		}
		return mustLoss(t, c, b).Grad
	}
	sameValues(t, "grpo = sapo", grad("grpo"), grad("sapo"))
	sameValues(t, "dapo = bnpo", grad("dapo"), grad("bnpo"))
	sameValues(t, "dapo = cispo", grad("dapo"), grad("cispo"))
	sameValues(t, "dapo = vespo", grad("dapo"), grad("vespo"))
	sameValues(t, "dr_grpo", grad("dr_grpo"), []float64{-1.5 / 8, -1.5 / 8, -1.5 / 8, 0.5 / 8, 0, 0})
}

func TestLossIntoDoesNotAllocate(t *testing.T) {
	b := Batch{Shape: Shape{8, 16}, LogProbs: make([]float64, 128), OldLogProbs: make([]float64, 128), Mask: all(128), Advantages: make([]float64, 8)}
	for i := range b.LogProbs {
		b.LogProbs[i], b.OldLogProbs[i], b.Advantages[i%8] = -1, -1.1, float64(i%8)-3.5
	}
	c := LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}
	var r Result
	if n := testing.AllocsPerRun(20, func() {
		if err := LossInto(c, b, &r); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkLoss(b *testing.B) {
	s := Shape{256, 64}
	x := Batch{Shape: s, LogProbs: make([]float64, s.Len()), OldLogProbs: make([]float64, s.Len()), Mask: all(s.Len()), Advantages: make([]float64, s.B)}
	for i := range x.LogProbs {
		x.LogProbs[i], x.OldLogProbs[i], x.Advantages[i%s.B] = -1, -1-float64(i%7)/10, float64(i%9)-4
	}
	var r Result
	b.ReportAllocs()
	for b.Loop() {
		if err := LossInto(LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}, x, &r); err != nil {
			b.Fatal(err)
		}
	}
}
