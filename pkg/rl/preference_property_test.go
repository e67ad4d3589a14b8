package rl

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// drawPreferences draws pairs with holes in the mask, NaN wherever it is false, and at least one
// token in each row.
func drawPreferences(rt *rapid.T) PreferenceBatch {
	s := Shape{2 * rapid.IntRange(1, 4).Draw(rt, "pairs"), rapid.IntRange(1, 5).Draw(rt, "T")}
	n := s.Len()
	list := func(name string, lo, hi float64) []float64 {
		return rapid.SliceOfN(rapid.Float64Range(lo, hi), n, n).Draw(rt, name)
	}
	b := PreferenceBatch{Shape: s, Mask: rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "mask")}
	for row := range s.B {
		b.Mask[row*s.T+rapid.IntRange(0, s.T-1).Draw(rt, "token")] = true
	}
	b.LogProbs = poison(list("logprobs", -3, -0.05), b.Mask)
	b.RefLogProbs = poison(list("ref", -3, -0.05), b.Mask)
	b.LogSumSq = poison(list("log-sum of squares", -3, -0.05), b.Mask)
	return b
}

type namedPreference struct {
	name string
	PreferenceConfig
}

// everyPreference has each loss with each divergence that it can have, and the options that change
// the sums.
func everyPreference() []namedPreference {
	var out []namedPreference
	for _, row := range preferenceTable {
		for _, d := range Divergences() {
			if d != ReverseKL && row.uses&usesDivergence == 0 {
				continue
			}
			c := PreferenceConfig{Losses: []PreferenceLoss{row.name}, Beta: 0.3, LDAlpha: 1, Divergence: d, AlphaCoef: 0.4}
			if row.uses&usesSmoothing != 0 {
				c.LabelSmoothing = 0.1
			}
			out = append(out, namedPreference{string(row.name) + " " + d, c})
		}
	}
	plain := PreferenceConfig{Losses: []PreferenceLoss{DPOSigmoid}, Beta: 0.3, LDAlpha: 1}
	with := func(name string, f func(*PreferenceConfig)) {
		c := plain
		f(&c)
		out = append(out, namedPreference{name, c})
	}
	with("ld_alpha", func(c *PreferenceConfig) { c.LDAlpha = 0.5 })
	with("weighting", func(c *PreferenceConfig) { c.Weighting = true })
	with("discopop_tau", func(c *PreferenceConfig) { c.Losses, c.DiscoPOPTau = []PreferenceLoss{DPODiscoPOP}, 0.7 })
	with("three losses", func(c *PreferenceConfig) {
		c.Losses, c.Weights, c.LDAlpha = []PreferenceLoss{DPOSigmoid, DPOBCO, DPOSFT}, []float64{0.8, 0.2, 1.5}, 0.3
	})
	return out
}

func forEveryPreference(t *testing.T, law func(rt *rapid.T, c PreferenceConfig, b PreferenceBatch)) {
	for _, c := range everyPreference() {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { law(rt, c.PreferenceConfig, drawPreferences(rt)) })
		})
	}
}

func mustPreference(rt expect.TB, c PreferenceConfig, b PreferenceBatch) PreferenceResult {
	r, err := Preference(c, b)
	expect.OK(rt, err)
	return r
}

// nearKink reports whether a finite difference may step over a kink: of the order of the pairs in
// aot, or of the hinge.
func nearKink(c PreferenceConfig, b PreferenceBatch) bool {
	var policy, chosen, rejected []float64
	for i := range b.Shape.B / 2 {
		p := b.pair(c, i)
		policy = append(policy, p.chosen.logProb-p.rejected.logProb)
		chosen, rejected = append(chosen, p.chosen.logRatio()), append(rejected, p.rejected.logRatio())
		if c.Losses[0] == DPOHinge {
			s, _ := c.score(chosen[i])
			r, _ := c.score(rejected[i])
			if math.Abs(c.Beta*(s-r)-1) < 1e-3 {
				return true
			}
		}
	}
	for _, x := range [][]float64{policy, chosen, rejected} {
		slices.Sort(x)
		for i := 1; i < len(x) && c.NeedsBatch(); i++ {
			if x[i]-x[i-1] < 1e-3 {
				return true
			}
		}
	}
	return false
}

func TestPreferenceGradientIsTheFiniteDifference(t *testing.T) {
	forEveryPreference(t, func(rt *rapid.T, c PreferenceConfig, b PreferenceBatch) {
		if nearKink(c, b) {
			return
		}
		const h = 1e-5
		result := mustPreference(rt, c, b)
		grad, rounding := result.Grad, 0x1p-51*math.Abs(result.Loss)/h // of the difference
		at := func(i int, d float64) float64 {
			m := b
			m.LogProbs, m.LogSumSq = slices.Clone(b.LogProbs), slices.Clone(b.LogSumSq)
			m.LogProbs[i] += d
			m.LogSumSq[i] += d // keeps the weight, which has no gradient
			return mustPreference(rt, c, m).Loss
		}
		for i, in := range b.Mask {
			want := 0.0
			if in {
				want = (at(i, h) - at(i, -h)) / (2 * h)
			}
			if !(math.Abs(grad[i]-want) <= 1e-6*math.Max(1, math.Abs(want))+rounding) {
				rt.Fatalf("gradient %d is %v, finite difference %v", i, grad[i], want)
			}
		}
	})
}

// part returns pairs lo..hi-1 with the totals of the whole.
func (b PreferenceBatch) part(lo, hi int) PreferenceBatch {
	from, to := 2*lo*b.Shape.T, 2*hi*b.Shape.T
	return PreferenceBatch{
		Shape: Shape{2 * (hi - lo), b.Shape.T}, Mask: b.Mask[from:to], Totals: CountPairs(b.Shape, b.Mask),
		LogProbs: b.LogProbs[from:to], RefLogProbs: b.RefLogProbs[from:to], LogSumSq: b.LogSumSq[from:to],
	}
}

func TestPreferenceMicroBatchesAddUp(t *testing.T) {
	forEveryPreference(t, func(rt *rapid.T, c PreferenceConfig, b PreferenceBatch) {
		whole := mustPreference(rt, c, b)
		pairs := b.Shape.B / 2
		if c.NeedsBatch() {
			if pairs > 1 {
				if _, err := Preference(c, b.part(0, pairs-1)); err == nil {
					rt.Fatal("some pairs of aot without an error")
				}
			}
			return
		}
		size, loss := rapid.IntRange(1, pairs).Draw(rt, "micro-batch"), 0.0
		var grad, rewards []float64
		for lo := 0; lo < pairs; lo += size {
			r := mustPreference(rt, c, b.part(lo, min(lo+size, pairs)))
			loss += r.Loss
			grad, rewards = append(grad, r.Grad...), append(rewards, r.RewardsChosen...)
		}
		if !slices.Equal(grad, whole.Grad) || !slices.Equal(rewards, whole.RewardsChosen) {
			rt.Fatalf("gradients or rewards of the micro-batches differ in their bits:\n%v\n%v", grad, whole.Grad)
		}
		if !closeTo(loss, whole.Loss) {
			rt.Fatalf("losses add up to %v, not %v", loss, whole.Loss)
		}
	})
}

func TestPreferenceIgnoresMaskedEntries(t *testing.T) {
	forEveryPreference(t, func(rt *rapid.T, c PreferenceConfig, b PreferenceBatch) {
		poisoned := mustPreference(rt, c, b)
		b.LogProbs, b.RefLogProbs, b.LogSumSq = clean(b.LogProbs), clean(b.RefLogProbs), clean(b.LogSumSq)
		r := mustPreference(rt, c, b)
		if r.Loss != poisoned.Loss || !slices.Equal(r.Grad, poisoned.Grad) {
			rt.Fatalf("masked entries changed the result: %+v and %+v", r, poisoned)
		}
		for i, in := range b.Mask {
			if !in && r.Grad[i] != 0 {
				rt.Fatalf("gradient %d is %v, and its mask is false", i, r.Grad[i])
			}
		}
		if len(r.Losses) > 0 && !closeTo(average(r.Losses), r.Loss) {
			rt.Fatalf("the losses %v have another mean than %v", r.Losses, r.Loss)
		}
	})
}

// swapped exchanges the chosen and the rejected completion of each pair.
func (b PreferenceBatch) swapped() PreferenceBatch {
	out := b
	out.LogProbs, out.RefLogProbs, out.LogSumSq, out.Mask = nil, nil, nil, nil
	for row := range b.Shape.B {
		lo, hi := (row^1)*b.Shape.T, (row^1+1)*b.Shape.T
		out.LogProbs = append(out.LogProbs, b.LogProbs[lo:hi]...)
		out.RefLogProbs = append(out.RefLogProbs, b.RefLogProbs[lo:hi]...)
		out.LogSumSq = append(out.LogSumSq, b.LogSumSq[lo:hi]...)
		out.Mask = append(out.Mask, b.Mask[lo:hi]...)
	}
	return out
}

// -log sigmoid(x) and -log sigmoid(-x) differ by x: swapping the completions mirrors the loss.
func TestSwappedPairsMirrorTheLoss(t *testing.T) {
	for _, d := range Divergences() {
		t.Run(d, func(t *testing.T) {
			c := PreferenceConfig{Losses: []PreferenceLoss{DPOSigmoid}, Beta: 0.4, LDAlpha: 1, Divergence: d, AlphaCoef: 0.3}
			rapid.Check(t, func(rt *rapid.T) {
				b := drawPreferences(rt)
				r, s := mustPreference(rt, c, b), mustPreference(rt, c, b.swapped())
				if !slices.Equal(r.RewardsChosen, s.RewardsRejected) || !slices.Equal(r.LogPsRejected, s.LogPsChosen) {
					rt.Fatalf("rewards or log-probabilities are not swapped: %+v and %+v", r, s)
				}
				for i := range r.Losses {
					chosen, _ := c.score(r.RewardsChosen[i] / c.Beta)
					rejected, _ := c.score(r.RewardsRejected[i] / c.Beta)
					if want := c.Beta * (chosen - rejected); !closeTo(s.Losses[i]-r.Losses[i], want) {
						rt.Fatalf("loss %v, swapped %v; they should differ by %v", r.Losses[i], s.Losses[i], want)
					}
				}
			})
		})
	}
}

// As beta goes to 0, each loss of sigmoids goes to its value at equal completions.
func TestPreferenceAtSmallBeta(t *testing.T) {
	limits := map[PreferenceLoss]float64{
		DPOSigmoid: math.Ln2, DPOSigmoidNorm: math.Ln2, DPORobust: math.Ln2, DPOAOT: math.Ln2, DPOAOTUnpaired: math.Ln2,
		DPOHinge: 1, DPONCA: 2 * math.Ln2, DPOBCO: 2 * math.Ln2, DPOAPOZero: 1, DPOAPODown: 1,
		DPODiscoPOP: math.Ln2/2 + 0.5,
		DPOExo:      -math.Ln2 - math.Log(0.1*0.9)/2,
	}
	for _, c := range everyPreference() {
		want, ok := limits[c.Losses[0]]
		if !ok || len(c.Losses) > 1 || c.Weighting {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.Beta = 1e-12 // times a margin of up to e^10: forward_kl has ratios in it
			rapid.Check(t, func(rt *rapid.T) {
				if r := mustPreference(rt, c.PreferenceConfig, drawPreferences(rt)); math.Abs(r.Loss-want) > 1e-5 {
					rt.Fatalf("loss %v, want %v", r.Loss, want)
				}
			})
		})
	}
}

// Pairs of two equal completions have the margin 0, and in the losses of the margin the gradients
// of the two cancel.
func TestIdenticalPairsCancel(t *testing.T) {
	forEveryPreference(t, func(rt *rapid.T, c PreferenceConfig, b PreferenceBatch) {
		T := b.Shape.T
		for row := 1; row < b.Shape.B; row += 2 {
			for _, x := range [][]float64{b.LogProbs, b.RefLogProbs, b.LogSumSq} {
				copy(x[row*T:(row+1)*T], x[(row-1)*T:])
			}
			copy(b.Mask[row*T:(row+1)*T], b.Mask[(row-1)*T:])
		}
		r := mustPreference(rt, c, b)
		if !slices.Equal(r.RewardsChosen, r.RewardsRejected) {
			rt.Fatalf("rewards %v and %v of equal completions", r.RewardsChosen, r.RewardsRejected)
		}
		for _, l := range c.Losses {
			if uses, _ := preferenceTable.of(l); uses&usesDivergence == 0 && l != DPOAOT {
				return
			}
		}
		for i := range T {
			for row := 0; row < b.Shape.B; row += 2 {
				if g := r.Grad[row*T+i] + r.Grad[(row+1)*T+i]; g != 0 {
					rt.Fatalf("the gradients of token %d in pair %d sum to %v", i, row/2, g)
				}
			}
		}
	})
}

// Finite log-ratios of any size give finite numbers, except where the divergence itself overflows.
func TestPreferenceAtExtremes(t *testing.T) {
	sizes := []float64{-1e150, -1e4, -800, -90, -1e-300, 0, 1e-300, 90, 800, 1e4, 1e150}
	for _, c := range everyPreference() {
		if c.Weighting || c.DiscoPOPTau != 0 {
			continue // the weight and, above tau 1, the exponential may overflow
		}
		t.Run(c.name, func(t *testing.T) {
			for _, beta := range []float64{0.1, 1} {
				for _, chosen := range sizes {
					for _, rejected := range sizes {
						if c.Divergence == ForwardKL && min(chosen, rejected) < -90 || len(c.Losses) > 1 && math.Abs(chosen) > 1e5 {
							continue
						}
						c.Beta = beta
						b := PreferenceBatch{Shape: Shape{2, 1}, Mask: []bool{true, true}, LogProbs: []float64{chosen, rejected},
							RefLogProbs: []float64{0, 0}}
						r := mustPreference(t, c.PreferenceConfig, b)
						for _, x := range append(r.Grad, r.Loss) {
							if math.IsNaN(x) || math.IsInf(x, 0) {
								t.Fatalf("log-ratios %v and %v: loss %v, gradient %v", chosen, rejected, r.Loss, r.Grad)
							}
						}
					}
				}
			}
		})
	}
}

// A pair that is so clearly right that the loss is 0 has no gradient, although the slope of its
// divergence overflows.
func TestOverflowOfADivergence(t *testing.T) {
	b := PreferenceBatch{Shape: Shape{2, 1}, Mask: []bool{true, true}, LogProbs: []float64{0, -800}, RefLogProbs: []float64{0, 0}}
	for _, l := range []PreferenceLoss{DPOSigmoid, DPOSigmoidNorm, DPOHinge, DPODiscoPOP} {
		c := PreferenceConfig{Losses: []PreferenceLoss{l}, Beta: 0.1, LDAlpha: 1, Divergence: ForwardKL}
		if r := mustPreference(t, c, b); r.Loss != 0 || r.Grad[0] != 0 || r.Grad[1] != 0 {
			t.Errorf("%s: loss %v, gradient %v; want 0", l, r.Loss, r.Grad)
		}
	}
}

func TestUnusedOptions(t *testing.T) {
	var got []string
	c := PreferenceConfig{Losses: []PreferenceLoss{DPOSFT}, Beta: 0.1, LabelSmoothing: 0.1, Divergence: ForwardKL, DiscoPOPTau: 1}
	for _, u := range c.Unused() {
		got = append(got, u.Name+": "+strings.Join(u.UsedBy, " "))
	}
	want := []string{
		"label_smoothing: exo_pair robust aot aot_unpaired",
		"f_divergence_type: sigmoid hinge ipo sigmoid_norm exo_pair robust discopop",
		"ld_alpha: sigmoid hinge ipo sigmoid_norm exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop",
		"discopop_tau: discopop",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	c = PreferenceConfig{Losses: []PreferenceLoss{DPORobust, DPODiscoPOP}, LabelSmoothing: 0.1, Divergence: ForwardKL, DiscoPOPTau: 1}
	if u := c.Unused(); len(u) > 0 {
		t.Errorf("used options: %v", u)
	}
}
