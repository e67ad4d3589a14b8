package rl

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/formula"
)

// formulaOf is a formula with eps 0.2 and this eps_high.
func formulaOf(t testing.TB, text string, epsHigh float64) Formula {
	t.Helper()
	l, err := formula.ParseLoss(text, 0.2, epsHigh)
	expect.OK(t, err)
	return l
}

// sameLosses are losses with the formulas that say the same. Whole batches have no policy mask, which does not restrict
// the KL term of the built-in loss.
var sameLosses = []struct {
	name, text string
	epsHigh    float64
	LossConfig
	whole bool
}{
	{"reinforce", "-A*logp", 0.2, LossConfig{Loss: ReinforceWithBaseline}, false},
	{"grpo_clip", "-min(ratio*A, clip(ratio, 1-eps, 1+eps)*A)", 0.2, LossConfig{Loss: GRPOClip, Epsilon: 0.2}, false},
	{"grpo_clip, sides swapped", "max(-clip(ratio, 1-eps, 1+eps_high)*A, -ratio*A)", 0.28, LossConfig{Loss: GRPOClip, Epsilon: 0.2, EpsilonHigh: 0.28}, false},
	{"delta and dual clip", "let l = -min(min(ratio, 1.5)*A, clip(ratio, 1-eps, 1+eps)*A); A < 0 ? min(l, -1.3*A) : l", 0.2,
		LossConfig{Loss: GRPOClip, Epsilon: 0.2, Delta: 1.5, DualClip: 1.3}, false},
	{"no clip", "-ratio*A", 0.2, LossConfig{Loss: GRPONoClip}, false},
	{"cispo", "-sg(min(ratio, eps_high))*A*logp", 1.5, LossConfig{Loss: CISPO, EpsilonHigh: 1.5}, false},
	{"cispo_band", "-stop_gradient(clip(ratio, 1-eps, 1+eps_high))*A*logp", 0.28, LossConfig{Loss: CISPOBand, Epsilon: 0.2, EpsilonHigh: 0.28}, false},
	{"sapo", "let tau = A > 0 ? 1 : 1.05; -4/tau*sigmoid(tau*(ratio - 1))*A", 0.2, LossConfig{Loss: SAPO}, false},
	{"kl k3", "-ratio*A + 0.3*(exp(ref - logp) - (ref - logp) - 1)", 0.2, LossConfig{Loss: GRPONoClip, Beta: 0.3}, true},
	{"kl k2 with bias correction", "-ratio*A + 0.3*ratio*(logp - ref)**2/2", 0.2, LossConfig{Loss: GRPONoClip, Beta: 0.3, KL: K2, KLBiasCorrection: true}, true},
	{"ratio by old", "-exp(logp - old)*A", 0.2, LossConfig{Loss: GRPONoClip}, false},
}

// TestFormulas: a formula and the built-in loss that say the same are equal to 1e-12, value and gradient, for every
// aggregation and level, off-policy and on-policy.
func TestFormulas(t *testing.T) {
	for _, same := range sameLosses {
		t.Run(same.name, func(t *testing.T) {
			f := formulaOf(t, same.text, same.epsHigh)
			rapid.Check(t, func(rt *rapid.T) {
				b := drawBatch(rt)
				if same.whole {
					b.PolicyMask = nil
				}
				if rapid.Bool().Draw(rt, "on-policy") && same.name != "ratio by old" {
					b.OldLogProbs = nil
				}
				builtin := same.LossConfig
				builtin.Aggregation, builtin.NormalizeConstant = Aggregation(rapid.SampledFrom(Aggregations()).Draw(rt, "aggregation")), 5
				if uses, _ := lossTable.of(builtin.Loss); uses&UsesLevel != 0 && same.name != "ratio by old" {
					builtin.Level = rapid.SampledFrom(importanceLevels).Draw(rt, "level")
				}
				own := builtin
				own.Loss, own.Formula = "", f
				own.Epsilon, own.EpsilonHigh, own.Delta, own.DualClip = 0, 0, 0, 0
				if same.whole {
					own.Beta, own.KL, own.KLBiasCorrection = 0, "", false
				}
				want, got := mustLoss(rt, builtin, b), mustLoss(rt, own, b)
				if !nearly(got.Loss, want.Loss) {
					rt.Fatalf("loss %v, want %v", got.Loss, want.Loss)
				}
				for i := range want.Grad {
					if !nearly(got.Grad[i], want.Grad[i]) {
						rt.Fatalf("gradient of token %d is %v, want %v", i, got.Grad[i], want.Grad[i])
					}
				}
				if got.Stats.ClipFraction() != nil {
					rt.Fatal("a formula has a clip fraction")
				}
			})
		})
	}
}

func nearly(a, b float64) bool {
	return math.Abs(a-b) <= 1e-12*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

// TestFormulaEntropy: a formula may have the entropy bonus in it, and adds to the one of the configuration.
func TestFormulaEntropy(t *testing.T) {
	f := formulaOf(t, "-ratio*A - 0.1*entropy", 0.2)
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBatch(rt)
		b.PolicyMask = nil
		want := mustLoss(rt, LossConfig{Loss: GRPONoClip, Aggregation: TokenMean, EntropyCoef: 0.3}, b)
		got := mustLoss(rt, LossConfig{Formula: f, Aggregation: TokenMean, EntropyCoef: 0.2}, b)
		if !nearly(got.Loss, want.Loss) {
			rt.Fatalf("loss %v, want %v", got.Loss, want.Loss)
		}
		for i := range want.Grad {
			if !nearly(got.Grad[i], want.Grad[i]) || !nearly(got.GradEntropy[i], want.GradEntropy[i]) {
				rt.Fatalf("gradients of token %d: %v and %v, want %v and %v", i, got.Grad[i], got.GradEntropy[i], want.Grad[i], want.GradEntropy[i])
			}
		}
	})
}

// TestFormulaInputs: what a formula names must be there, and it takes the place of a loss. An advantage of 0 gives 0
// even if the ratio overflows.
func TestFormulaInputs(t *testing.T) {
	b := Batch{Shape: Shape{1, 1}, LogProbs: []float64{-1}, OldLogProbs: []float64{-2000}, Advantages: []float64{0}, Mask: []bool{true}}
	for text, want := range map[string]string{"-ratio*A*ref": "names ref", "-entropy": "names entropy"} {
		_, err := Loss(LossConfig{Formula: formulaOf(t, text, 0.2), Aggregation: TokenMean}, b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	f := formulaOf(t, "-ratio*A", 0.2)
	if err := (LossConfig{Loss: GRPOClip, Formula: f, Aggregation: TokenMean}).Check(); err == nil {
		t.Error("a loss with a formula")
	}
	if r := mustLoss(t, LossConfig{Formula: f, Aggregation: TokenMean}, b); r.Loss != 0 || r.Grad[0] != 0 {
		t.Errorf("loss %v, gradient %v", r.Loss, r.Grad)
	}
	out := make([]float64, 1)
	b.Advantages[0], b.OldLogProbs = 2, nil
	expect.OK(t, TokenLosses(LossConfig{Formula: f}, b, out))
	if out[0] != -2 {
		t.Error(out)
	}
}

// BenchmarkFormula compares grpo_clip with its formula on a rollout of the default shape.
func BenchmarkFormula(b *testing.B) {
	s := Shape{256, 24}
	x := Batch{Shape: s, Mask: make([]bool, s.Len()), LogProbs: make([]float64, s.Len()), OldLogProbs: make([]float64, s.Len()), Advantages: make([]float64, s.B)}
	for i := range x.Mask {
		x.Mask[i], x.LogProbs[i] = true, -float64(i%7)/3
		x.OldLogProbs[i] = x.LogProbs[i] + float64(i%11)/20 - 0.25
	}
	for i := range x.Advantages {
		x.Advantages[i] = float64(i%5) - 1.9
	}
	for _, c := range []named{
		{"builtin", LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}},
		{"formula", LossConfig{Formula: formulaOf(b, sameLosses[1].text, 0.2), Aggregation: MaskedMeanSeq}},
	} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			var r Result
			for b.Loop() {
				expect.OK(b, LossInto(c.LossConfig, x, &r))
			}
		})
	}
}
