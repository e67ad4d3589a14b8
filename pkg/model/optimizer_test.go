package model_test

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// Updates match the reference, with the gradient scaled to the maximum norm if it is longer.
func TestAdamWAgainstReference(t *testing.T) {
	o := model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1}
	for _, maxNorm := range []float64{0, 1e9, 0.5} {
		w, g := params(5, 3, 5, 0.1), params(5, 3, 5, 1)
		opt := model.NewAdamW(w, o)
		to64 := func(x []float32) []float64 {
			y := make([]float64, len(x))
			for i, v := range x {
				y[i] = float64(v)
			}
			return y
		}
		want, m, v := to64(w.Flat), make([]float64, w.Count()), make([]float64, w.Count())
		for step := 1; step <= 3; step++ {
			var norm float64
			for i := range g.Flat {
				g.Flat[i] = float32(math.Sin(float64(7*step + i)))
				norm += float64(g.Flat[i]) * float64(g.Flat[i])
			}
			norm = math.Sqrt(norm)
			scale := 1.0
			if maxNorm > 0 && norm > maxNorm {
				scale = maxNorm / (norm + 1e-6)
			}
			kernel.ReferenceAdamW(want, to64(g.Flat), m, v, 1e-2, o.Beta1, o.Beta2, o.Eps, o.WeightDecay, scale, step)
			got, err := opt.Step(w, g, 1e-2, maxNorm)
			if err != nil || math.Abs(got-norm) > 1e-6*norm || opt.T != step {
				t.Fatalf("max norm %v: step %d: norm %v, %v, want %v; %d updates", maxNorm, step, got, err, norm, opt.T)
			}
		}
		// The moments too: a constant factor of the gradient hardly moves the weights.
		for what, pair := range map[string]struct {
			got  []float32
			want []float64
		}{"weight": {w.Flat, want}, "first moment": {opt.M.Flat, m}, "second moment": {opt.V.Flat, v}} {
			for i, x := range pair.want {
				if math.Abs(float64(pair.got[i])-x) > 1e-6+1e-5*math.Abs(x) {
					t.Fatalf("max norm %v: %s %d is %v, want %v", maxNorm, what, i, pair.got[i], x)
				}
			}
		}
	}
}

// A gradient that is not finite changes neither weights nor moments.
func TestAdamWSkipsGradientsThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		w, g := params(5, 3, 5, 1), params(5, 3, 5, 1)
		opt := model.NewAdamW(w, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8})
		expect.OK(t, expect.Err(opt.Step(w, g, 1e-2, 1)))
		before, m, v := slices.Clone(w.Flat), slices.Clone(opt.M.Flat), slices.Clone(opt.V.Flat)
		g.Flat[3] = float32(bad)
		norm, err := opt.Step(w, g, 1e-2, 1)
		if err != nil || norm-norm == 0 {
			t.Errorf("norm %v, %v", norm, err)
		}
		if opt.T != 1 || !slices.Equal(w.Flat, before) || !slices.Equal(opt.M.Flat, m) || !slices.Equal(opt.V.Flat, v) {
			t.Errorf("a gradient with %v changed something", bad)
		}
	}
}
