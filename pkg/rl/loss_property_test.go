package rl

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// forEvery checks a property on drawn batches for every loss and aggregation.
func forEvery(t *testing.T, law func(rt *rapid.T, c LossConfig, b Batch)) {
	for _, c := range every() {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { law(rt, c.LossConfig, drawBatch(rt)) })
		})
	}
}

// If a loss stops the gradient of its ratio, moving the old log-probability together
// with the new one keeps the ratio constant.
func stopsGradient(c LossConfig) bool {
	return c.Loss == CISPO || c.Loss == CISPOBand || c.Loss == VESPO
}

func TestGradientIsTheFiniteDifference(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		grad := mustLoss(rt, c, b).Grad
		if c.KL == K3StraightThrough {
			c.KL = K2 // whose gradient it borrows
		}
		const h = 1e-5
		at := func(i int, d float64) float64 {
			m := b
			m.LogProbs = slices.Clone(b.LogProbs)
			m.LogProbs[i] += d
			if stopsGradient(c) {
				m.OldLogProbs = slices.Clone(b.OldLogProbs)
				m.OldLogProbs[i] += d
			}
			return mustLoss(rt, c, m).Loss
		}
		for i, in := range b.Mask {
			want := 0.0
			if in {
				want = (at(i, h) - at(i, -h)) / (2 * h)
			}
			if math.Abs(grad[i]-want) > 1e-7*math.Max(1, math.Abs(want)) {
				rt.Fatalf("gradient %d is %v, finite difference %v", i, grad[i], want)
			}
		}
	})
}

func TestEntropyGradientIsTheFiniteDifference(t *testing.T) {
	for _, overAll := range []bool{false, true} {
		rapid.Check(t, func(rt *rapid.T) {
			b := drawBatch(rt)
			c := LossConfig{Loss: NoBaseline, Aggregation: TokenMean, EntropyCoef: 0.7, EntropyOverAll: overAll}
			grad := mustLoss(rt, c, b).GradEntropy
			for i, in := range b.Mask {
				want := 0.0
				if in {
					m := b
					m.Entropies = slices.Clone(b.Entropies)
					m.Entropies[i]++
					want = mustLoss(rt, c, m).Loss - mustLoss(rt, c, b).Loss
				}
				if !closeTo(grad[i], want) {
					rt.Fatalf("gradient %d is %v, difference %v", i, grad[i], want)
				}
			}
		})
	}
}

func TestMicroBatchesAddUp(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		whole := mustLoss(rt, c, b)
		var grad, gradEntropy []float64
		var stats Stats
		loss, policy := 0.0, 0.0
		for _, m := range split(b, rapid.IntRange(1, b.Shape.B).Draw(rt, "micro-batch")) {
			r := mustLoss(rt, c, m)
			loss, policy = loss+r.Loss, policy+r.PolicyLoss
			grad, gradEntropy = append(grad, r.Grad...), append(gradEntropy, r.GradEntropy...)
			stats.Add(r.Stats)
		}
		if !slices.Equal(grad, whole.Grad) || !slices.Equal(gradEntropy, whole.GradEntropy) {
			rt.Fatalf("gradients of the micro-batches differ in their bits:\n%v\n%v", grad, whole.Grad)
		}
		if !closeTo(loss, whole.Loss) || !closeTo(policy, whole.PolicyLoss) {
			rt.Fatalf("losses add up to %v, not %v", loss, whole.Loss)
		}
		sameStats(rt, stats, whole.Stats)
	})
}

// sameStats compares sums up to rounding, and all else exactly.
func sameStats(rt *rapid.T, a, b Stats) {
	for _, p := range [][2]*float64{
		{&a.ratio.sum, &b.ratio.sum}, {&a.ppoKL.sum, &b.ppoKL.sum}, {&a.k3.sum, &b.k3.sum},
		{&a.refKL.sum, &b.refKL.sum}, {&a.entropy.sum, &b.entropy.sum}, {&a.phi.sum, &b.phi.sum},
	} {
		if !closeTo(*p[0], *p[1]) {
			rt.Fatalf("statistics of the micro-batches differ: %+v and %+v", a, b)
		}
		*p[0], *p[1] = 0, 0
	}
	if a != b {
		rt.Fatalf("statistics of the micro-batches differ: %+v and %+v", a, b)
	}
}

func TestMaskedEntriesAreNeverRead(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		poisoned := mustLoss(rt, c, b)
		m := b
		m.LogProbs, m.OldLogProbs = clean(b.LogProbs), clean(b.OldLogProbs)
		m.RefLogProbs, m.Entropies = clean(b.RefLogProbs), clean(b.Entropies)
		m.Advantages = clean(b.Advantages)
		r := mustLoss(rt, c, m)
		if r.Loss != poisoned.Loss || r.Stats != poisoned.Stats || !slices.Equal(r.Grad, poisoned.Grad) {
			rt.Fatalf("what the mask hides changed the result: %+v and %+v", r, poisoned)
		}
		for i, in := range b.Mask {
			if !in && r.Grad[i] != 0 {
				rt.Fatalf("gradient %d is %v, and its mask is false", i, r.Grad[i])
			}
			if math.IsNaN(r.Grad[i]) {
				rt.Fatalf("gradient %d is NaN", i)
			}
		}
	})
}

// No old log-probabilities give the same loss as the policy's own, except that no clip
// fraction and no ratio are reported.
func TestOnPolicyIsRatioOne(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		b.OldLogProbs = b.LogProbs
		off := mustLoss(rt, c, b)
		b.OldLogProbs = nil
		on := mustLoss(rt, c, b)
		if on.Loss != off.Loss || !slices.Equal(on.Grad, off.Grad) {
			rt.Fatalf("on-policy %+v, ratio of ones %+v", on, off)
		}
		if s := on.Stats; s.ClipFraction() != nil || s.MeanRatio() != nil || s.ApproxKL() != nil {
			rt.Fatalf("on-policy statistics of the ratio: %+v", s)
		}
		if v := off.Stats.ClipFraction(); v != nil && *v != 0 {
			rt.Fatalf("clip fraction %v at a ratio of 1", *v)
		}
	})
}

// Every policy loss is linear in the size of the advantages.
func TestLossScalesWithAdvantages(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		c.Beta, c.EntropyCoef = 0, 0
		one := mustLoss(rt, c, b)
		b.Advantages = slices.Clone(b.Advantages)
		for i := range b.Advantages {
			b.Advantages[i] *= 4
		}
		four := mustLoss(rt, c, b)
		if !closeTo(four.Loss, 4*one.Loss) {
			rt.Fatalf("loss %v, four times the advantages %v", one.Loss, four.Loss)
		}
		for i := range one.Grad {
			if !closeTo(four.Grad[i], 4*one.Grad[i]) {
				rt.Fatalf("gradient %v, four times the advantages %v", one.Grad[i], four.Grad[i])
			}
		}
	})
}

// Sequences with advantage 0 can be left out of the update if the totals are kept: the gradient of
// the others has the same bits.
func TestZeroAdvantageCanBeSkipped(t *testing.T) {
	forEvery(t, func(rt *rapid.T, c LossConfig, b Batch) {
		if len(b.Advantages) != b.Shape.B {
			return
		}
		c.Beta, c.EntropyCoef = 0, 0
		whole := mustLoss(rt, c, b)
		for i, m := range split(b, 1) {
			own := whole.Grad[i*b.Shape.T : (i+1)*b.Shape.T]
			if m.Advantages[0] == 0 {
				if slices.ContainsFunc(own, func(g float64) bool { return g != 0 }) {
					rt.Fatalf("advantage 0, gradient %v", own)
				}
				continue
			}
			if r := mustLoss(rt, c, m); !slices.Equal(r.Grad, own) {
				rt.Fatalf("gradient alone %v, among others %v", r.Grad, own)
			}
		}
	})
}

// The policy mask restricts the policy term and not the KL term.
func TestPolicyMaskLeavesKLWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBatch(rt)
		b.PolicyMask = make([]bool, b.Shape.Len())
		c := LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq, Beta: 0.5, KL: K2}
		got := mustLoss(rt, c, b)
		b.PolicyMask, b.Advantages = nil, make([]float64, b.Shape.B)
		if want := mustLoss(rt, c, b); got.Loss != want.Loss || !slices.Equal(got.Grad, want.Grad) {
			rt.Fatalf("with an empty policy mask %v, with advantages of 0 %v", got.Grad, want.Grad)
		}
	})
}

func TestLossIntoUsesItsBuffersAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: TokenMean, EntropyCoef: 0.1}
		var r Result
		for range 3 {
			b := drawBatch(rt)
			expect.OK(rt, LossInto(c, b, &r))
			want := mustLoss(rt, c, b)
			if r.Loss != want.Loss || r.Stats != want.Stats || !slices.Equal(r.Grad, want.Grad) || !slices.Equal(r.GradEntropy, want.GradEntropy) {
				rt.Fatalf("used again %+v, fresh %+v", r, want)
			}
		}
	})
}
