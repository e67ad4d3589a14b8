package rl

import (
	"math"
	"slices"
	"testing"
)

func TestKLEstimators(t *testing.T) {
	for _, name := range KLEstimators() {
		e := KLEstimator(name)
		shape := e // whose gradient it has
		if e == K1StraightThrough || e == K3StraightThrough {
			shape = K2
		}
		t.Run(name, func(t *testing.T) {
			for _, d := range []float64{-25, -5, -2.5, -0.3, 0.2, 1.7, 9, 14, 25} {
				const h = 1e-6
				hi, _ := shape.At(d+h-1, -1)
				lo, _ := shape.At(d-h-1, -1)
				v, g := e.At(d-1, -1)
				if want := (hi - lo) / (2 * h); math.Abs(g-want) > 1e-6*math.Max(1, math.Abs(want)) {
					t.Errorf("d = %v: gradient %v, finite difference %v", d, g, want)
				}
				if e != K1 && e != K1StraightThrough && v < 0 {
					t.Errorf("d = %v: value %v below 0", d, v)
				}
			}
			if v, g := e.At(-1, -1); v != 0 || (g != 0 && e != K1) {
				t.Errorf("equal policies: value %v, gradient %v", v, g)
			}
		})
	}
	for _, d := range []float64{-1e4, -26, -5, 11.5, 14, 99} {
		if v, g := LowVarKL.At(d, 0); v != 10 || g != 0 {
			t.Errorf("low_var_kl at %v: value %v, gradient %v; it is limited to 10", d, v, g)
		}
	}
	if v, _ := LowVarKL.At(-2, 0); !closeTo(v, math.Exp(2)-3) {
		t.Errorf("low_var_kl at -2: %v", v)
	}
	if v, _ := KLEstimator("k4").At(0, 0); !math.IsNaN(v) {
		t.Errorf("unknown estimator: %v", v)
	}
}

func TestTopEntropyMask(t *testing.T) {
	s, mask := Shape{1, 6}, []bool{true, true, false, true, true, true}
	e := []float64{1, 5, nan, 2, 4, 3}
	for _, c := range []struct {
		quantile float64
		want     []bool
	}{
		{1, mask},
		{0.2, []bool{false, true, false, false, false, false}}, // threshold 4.2
		{0.25, []bool{false, true, false, false, true, false}}, // threshold 4
		{0.5, []bool{false, true, false, false, true, true}},   // threshold 3
	} {
		got, err := TopEntropyMask(s, e, mask, c.quantile)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("quantile %v: %v (%v), want %v", c.quantile, got, err, c.want)
		}
	}
	if got, err := TopEntropyMask(Shape{1, 1}, []float64{nan}, []bool{false}, 0.5); err != nil || got[0] {
		t.Errorf("no token: %v, %v", got, err)
	}
}
