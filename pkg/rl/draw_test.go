package rl

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// logRatios are the differences logp - old that drawn batches are made of. None
// is close to a bound of the configurations below, so that finite differences
// do not step over a kink.
var logRatios = []float64{-0.6, -0.3, -0.15, -0.04, 0, 0.03, 0.12, 0.21, 0.33, 0.7}

// refKinks are the differences ref - logp at which a KL estimator has a kink: abs at 0, and low_var_kl
// where exp(d) - d - 1 reaches its limit of 10.
var refKinks = []float64{0, 2.6109}

// drawBatch draws a batch with every optional input, with holes in the mask and
// sequences without a token, and NaN wherever the mask is false.
func drawBatch(rt *rapid.T) Batch {
	s := Shape{rapid.IntRange(1, 5).Draw(rt, "B"), rapid.IntRange(1, 5).Draw(rt, "T")}
	n := s.Len()
	list := func(name string, n int, g *rapid.Generator[float64]) []float64 {
		return rapid.SliceOfN(g, n, n).Draw(rt, name)
	}
	bools := func(name string) []bool {
		return rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, name)
	}
	b := Batch{Shape: s, Mask: bools("mask")}
	b.LogProbs = list("logprobs", n, rapid.Float64Range(-3, -0.05))
	b.OldLogProbs = list("ratio", n, rapid.SampledFrom(logRatios))
	b.RefLogProbs = list("ref", n, rapid.Float64Range(-3, -0.05))
	b.Entropies = list("entropies", n, rapid.Float64Range(0, 3))
	for i := range n {
		b.OldLogProbs[i] = b.LogProbs[i] - b.OldLogProbs[i]
		for _, kink := range refKinks {
			if math.Abs(b.RefLogProbs[i]-b.LogProbs[i]-kink) < 1e-3 {
				b.RefLogProbs[i] -= 0.01
			}
		}
	}
	b.Advantages = list("advantages", s.B, rapid.SampledFrom([]float64{-1.7, -0.4, 0, 0.3, 1.1}))
	if rapid.Bool().Draw(rt, "tokenLevel") {
		b.Advantages = list("advantages", n, rapid.SampledFrom([]float64{-1.7, -0.4, 0, 0.3, 1.1}))
		b.Advantages = poison(b.Advantages, b.Mask)
		if len(b.Advantages) == s.B { // T = 1: one for each sequence as well
			b.Advantages = clean(b.Advantages)
		}
	}
	if rapid.Bool().Draw(rt, "restricted") {
		b.PolicyMask = bools("policyMask")
	}
	for _, x := range []*[]float64{&b.LogProbs, &b.OldLogProbs, &b.RefLogProbs, &b.Entropies} {
		*x = poison(*x, b.Mask)
	}
	return b
}

// clean replaces NaN by 7, a value that would change the result if it were read.
func clean(x []float64) []float64 {
	out := slices.Clone(x)
	for i, v := range out {
		if math.IsNaN(v) {
			out[i] = 7
		}
	}
	return out
}

// named is a configuration with a name for the test's output.
type named struct {
	name string
	LossConfig
}

// everyLoss has each loss type, with the options that change its formula. The
// aggregation is left open.
func everyLoss() []named {
	clip := LossConfig{Loss: GRPOClip, Epsilon: 0.2}
	with := func(c LossConfig, f func(*LossConfig)) LossConfig {
		f(&c)
		return c
	}
	kl := func(e KLEstimator, bias bool) LossConfig {
		return with(clip, func(c *LossConfig) { c.Beta, c.KL, c.KLBiasCorrection = 0.3, e, bias })
	}
	return []named{
		{"no_baseline", LossConfig{Loss: NoBaseline}},
		{"reinforce_with_baseline", LossConfig{Loss: ReinforceWithBaseline}},
		{"grpo_clip", clip},
		{"grpo_clip high", with(clip, func(c *LossConfig) { c.EpsilonHigh = 0.28 })},
		{"grpo_clip delta", with(clip, func(c *LossConfig) { c.Delta = 1.5 })},
		{"grpo_clip dual", with(clip, func(c *LossConfig) { c.DualClip = 1.3 })},
		{"grpo_clip sequence", with(clip, func(c *LossConfig) { c.Level = SequenceLevel })},
		{"grpo_clip sequence_sum", with(clip, func(c *LossConfig) { c.Level = SequenceSum })},
		{"grpo_clip entropy", with(clip, func(c *LossConfig) { c.EntropyCoef = 0.1 })},
		{"grpo_clip entropy over all", with(clip, func(c *LossConfig) { c.EntropyCoef, c.EntropyOverAll = 0.1, true })},
		{"grpo_clip off-policy mask", with(clip, func(c *LossConfig) { c.OffPolicyMask, c.OffPolicyMaskThreshold = true, 0.0507 })},
		{"grpo_no_clip", LossConfig{Loss: GRPONoClip}},
		{"grpo_no_clip sequence", LossConfig{Loss: GRPONoClip, Level: SequenceLevel}},
		{"cispo", LossConfig{Loss: CISPO, EpsilonHigh: 1.5}},
		{"cispo_band", LossConfig{Loss: CISPOBand, Epsilon: 0.2, EpsilonHigh: 0.28}},
		{"sapo", LossConfig{Loss: SAPO}},
		{"vespo", LossConfig{Loss: VESPO}},
		{"geo_mean", LossConfig{Loss: GeoMean, Epsilon: 0.2, EpsilonHigh: 0.25}},
		{"kl k1", kl(K1, false)},
		{"kl k2", kl(K2, false)},
		{"kl k3", kl(K3, false)},
		{"kl abs", kl(KLAbs, false)},
		{"kl low_var_kl", kl(LowVarKL, false)},
		{"kl k3 bias correction", kl(K3, true)},
		{"kl k3 bias correction sequence", with(kl(K3, true), func(c *LossConfig) { c.Level = SequenceLevel })},
		{"kl straight through", kl(K3StraightThrough, false)},
	}
}

// every crosses each loss with each aggregation.
func every() []named {
	var out []named
	for _, c := range everyLoss() {
		for _, a := range Aggregations() {
			c := c
			c.Aggregation, c.NormalizeConstant = Aggregation(a), 5
			c.name = fmt.Sprintf("%s, %s", c.name, a)
			out = append(out, c)
		}
	}
	return out
}

func mustLoss(rt expect.TB, c LossConfig, b Batch) Result {
	r, err := Loss(c, b)
	expect.OK(rt, err)
	return r
}

// closeTo compares to 1e-9 relative to the larger of the two and 1.
func closeTo(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}
