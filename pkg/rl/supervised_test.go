package rl

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The gradient of each loss, against central differences; the factor p of dft is held constant.
func TestSupervisedGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := SupervisedLoss(rapid.SampledFrom(SupervisedLosses()).Draw(t, "loss"))
		shape := Shape{B: rapid.IntRange(1, 3).Draw(t, "B"), T: rapid.IntRange(1, 4).Draw(t, "T")}
		logProbs := rapid.SliceOfN(rapid.Float64Range(-5, -0.01), shape.Len(), shape.Len()).Draw(t, "log-probs")
		weights := make([][]float64, shape.B)
		for i := range weights {
			n := rapid.IntRange(1, shape.T).Draw(t, "tokens")
			weights[i] = rapid.SliceOfN(rapid.Float64Range(0.1, 1), n, n).Draw(t, "weights")
		}
		loss := func(x []float64) (float64, []float64) {
			grad := make([]float64, shape.Len())
			v, err := Supervised(kind, shape, x, weights, grad)
			if err != nil {
				t.Fatal(err)
			}
			return v, grad
		}
		_, grad := loss(logProbs)
		for i := range logProbs {
			const eps = 1e-6
			at := func(d float64) float64 {
				x := append([]float64{}, logProbs...)
				x[i] += d
				v, _ := loss(x)
				return v
			}
			want := (at(eps) - at(-eps)) / (2 * eps)
			if kind == DFT { // d(-p log p) = -p (1 + log p), without the derivative of p
				want /= 1 + logProbs[i]
				if math.Abs(1+logProbs[i]) < 1e-2 {
					continue
				}
			}
			if math.Abs(grad[i]-want) > 1e-6 {
				t.Fatalf("%s: gradient %d is %v, finite difference %v", kind, i, grad[i], want)
			}
		}
	})
}

func TestSupervisedRefuses(t *testing.T) {
	if _, err := Supervised("huber", Shape{B: 1, T: 1}, []float64{-1}, [][]float64{{1}}, []float64{0}); err == nil {
		t.Error("an unknown loss is accepted")
	}
	if _, err := Supervised(NLL, Shape{B: 2, T: 1}, []float64{-1}, [][]float64{{1}}, []float64{0}); err == nil {
		t.Error("slices of another shape are accepted")
	}
}
