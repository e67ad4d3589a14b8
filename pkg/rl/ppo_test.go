package rl

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestGAE(t *testing.T) {
	s, mask := Shape{1, 4}, []bool{true, true, true, false}
	r, v := []float64{0, 0, 1, nan}, []float64{0.5, 0.25, 0.75, nan}
	for _, c := range []struct {
		name          string
		gamma, lambda float64
		want          []float64
	}{
		{"lambda 1: return less value", 1, 1, []float64{0.5, 0.75, 0.25, 0}},
		{"lambda 0: one step", 1, 0, []float64{-0.25, 0.5, 0.25, 0}},
		{"between", 0.5, 0.5, []float64{-0.375 + 0.25*(0.125+0.25*0.25), 0.125 + 0.25*0.25, 0.25, 0}},
	} {
		a, ret, err := GAE(s, r, v, mask, c.gamma, c.lambda)
		expect.OK(t, err)
		sameValues(t, c.name, a, c.want)
		for i, in := range mask {
			if in && ret[i] != a[i]+v[i] || !in && ret[i] != 0 {
				t.Errorf("%s: return %v", c.name, ret)
			}
		}
	}
}

func TestValueLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBatch(rt)
		v, old, ret := b.LogProbs, b.OldLogProbs, b.RefLogProbs
		for _, clip := range []float64{0, 0.1} {
			loss, grad, frac, err := ValueLoss(b.Shape, v, old, ret, b.Mask, clip, MaskedMeanSeq, 0, Totals{})
			expect.OK(rt, err)
			if clip == 0 && frac != 0 || math.IsNaN(loss) {
				rt.Fatalf("loss %v, clip fraction %v", loss, frac)
			}
			for i := range v {
				const h = 1e-5
				at := func(d float64) float64 {
					w := slices.Clone(v)
					w[i] += d
					l, _, _, _ := ValueLoss(b.Shape, w, old, ret, b.Mask, clip, MaskedMeanSeq, 0, Totals{})
					return l
				}
				left, right := (loss-at(-h))/h, (at(h)-loss)/h
				if math.Abs(left-right) > 2*h { // the second derivative is at most 1
					continue // a kink of the maximum
				}
				if math.Abs(grad[i]-(left+right)/2) > 2*h {
					rt.Fatalf("gradient %v, finite difference %v", grad[i], (left+right)/2)
				}
			}
		}
	})
}

func TestValueLossByHand(t *testing.T) {
	for _, c := range []struct {
		name                string
		v, old, ret         float64
		loss, grad, clipped float64
	}{
		{"clipped above: the clip's error is larger", 3, 0, 5, 8, 0, 1},
		{"clipped above: its own error is larger", 3, 0, -1, 8, 4, 0},
		{"clipped below: the clip's error is larger", -3, 0, -5, 8, 0, 1},
		{"clipped below: its own error is larger", -3, 0, 1, 8, -4, 0},
		{"inside", 0.5, 0, 1, 0.125, -0.5, 0},
	} {
		loss, grad, frac, err := ValueLoss(Shape{1, 1}, []float64{c.v}, []float64{c.old}, []float64{c.ret}, all(1), 1, TokenSum, 0, Totals{})
		if err != nil || !closeTo(loss, c.loss) || grad[0] != c.grad || frac != c.clipped {
			t.Errorf("%s: loss %v, gradient %v, clip fraction %v, %v", c.name, loss, grad, frac, err)
		}
	}
	none := []float64{nan}
	loss, _, frac, err := ValueLoss(Shape{1, 1}, none, none, none, []bool{false}, 1, TokenMean, 0, Totals{})
	if loss != 0 || frac != 0 || err != nil {
		t.Errorf("no token: loss %v, clip fraction %v, %v", loss, frac, err)
	}
}

func TestAdaptEntropyCoef(t *testing.T) {
	for _, c := range []struct{ entropy, next, apply float64 }{
		{0.1, 0.3, 0.3}, {0.2, 0.3, 0.3}, {0.5, 0.1, 0},
	} {
		if next, apply := AdaptEntropyCoef(0.2, c.entropy, 0.2, 0.1, 0, 1); !closeTo(next, c.next) || !closeTo(apply, c.apply) {
			t.Errorf("entropy %v: next %v, apply %v", c.entropy, next, apply)
		}
	}
	if next, _ := AdaptEntropyCoef(0.95, 0, 0.2, 0.1, 0, 1); next != 1 {
		t.Errorf("above the largest: %v", next)
	}
	if next, _ := AdaptEntropyCoef(0.05, 9, 0.2, 0.1, 0, 1); next != 0 {
		t.Errorf("below the smallest: %v", next)
	}
}

func TestTokenAdvantages(t *testing.T) {
	s := Shape{2, 3}
	mask := []bool{true, true, true, true, true, false}
	r := []float64{0, 0, 1, 1, 2, nan}
	check := func(name string, got []float64, err error, want ...float64) {
		t.Helper()
		expect.OK(t, err)
		sameValues(t, name, got, want)
	}
	got, err := ReturnsToGo(s, r, mask, 0.5)
	check("returns", got, err, 0.25, 0.5, 1, 2, 2, 0)
	teacher := []float64{-1, -1, -1, -1, -1, nan}
	student := []float64{-2, -1, -3, -1, -2, nan} // rewards 1 0 2, 0 1
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, false)
	check("minillm", got, err, 1.5, 1, 2, 0.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, true)
	check("minillm, by length", got, err, 1.5/1.75, 1/1.5, 2, 0.5/1.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0, true)
	check("minillm, gamma 0", got, err, 1, 0, 2, 0, 1, 0)
	got, err = KLInReward(s, []float64{10, 20}, student, teacher, mask, K1, 2)
	check("kl in reward", got, err, 10+2*3, 20+2*1)
	got, err = WhitenTokens(s, []float64{1, 1, 3, 3, 2, 99}, mask, 0)
	check("whiten", got, err, -1, -1, 1, 1, 0, 0)
	got, err = WhitenTokens(s, []float64{.1, .1, .1, .1, .1, nan}, mask, 1e-8)
	check("whiten equal values", got, err, 0, 0, 0, 0, 0, 0)
}

func TestPassKAdvantages(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		std     bool
		want    []float64
	}{
		{"best minus second", []float64{1, 4, 2, 3}, false, []float64{0, 1, 0, 0}},
		{"over the std", []float64{1, 0, 0, 0}, true, []float64{2, 0, 0, 0}},
		{"two best", []float64{1, 0, 1, 0}, false, []float64{0, 0, 0, 0}},
		{"flat", []float64{1, 1, 1, 1}, true, []float64{0, 0, 0, 0}},
		{"not scorable", []float64{nan, 3, nan, 1}, false, []float64{0, 2, 0, 0}},
		{"one scorable", []float64{nan, 3, nan, nan}, false, []float64{0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := PassKAdvantages(c.rewards, 4, c.std, 0)
			expect.OK(t, err)
			sameValues(t, "advantages", got, c.want)
		})
	}
	if got, err := PassKAdvantages([]float64{1, 3, 2, 2}, 2, false, 0); err != nil || !slices.Equal(got, []float64{0, 2, 0, 0}) {
		t.Errorf("groups of two: %v, %v", got, err)
	}
}

func TestRewards(t *testing.T) {
	got, err := CombineRewards([][]float64{{1, nan, nan}, {2, 3, nan}}, []float64{1, 0.5})
	expect.OK(t, err)
	sameValues(t, "sum", got, []float64{2, 1.5, nan})
	r := []float64{-3, 0.5, 7, nan}
	ClipRewards(r, -1, 1)
	sameValues(t, "clip", r, []float64{-1, 0.5, 1, nan})
}
