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
