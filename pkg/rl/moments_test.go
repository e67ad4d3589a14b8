package rl

import (
	"math"
	"testing"
)

// The squares of these rewards are 0 or infinite as a float64, their standard
// deviations are not.
func TestMomentsOfExtremeValues(t *testing.T) {
	for _, tt := range []struct {
		name      string
		x         []float64
		mean, std float64
	}{
		{"large", []float64{1e308, -1e308, 0}, 0, 1e308},
		{"a large weight", []float64{1e155, 0, 1e155, 0}, 0.5e155, 1e155 / math.Sqrt(3)},
		{"small", []float64{1e-200, 0, 1e-200, 0}, 0.5e-200, 1e-200 / math.Sqrt(3)},
		{"large and equal", []float64{1e308, 1e308, 1e308}, 1e308, 0},
		{"small and equal", []float64{1e-300, 1e-300}, 1e-300, 0},
		{"unscored among large", []float64{1e200, math.NaN(), -1e200}, 0, 1e200 * math.Sqrt2},
		{"one alone", []float64{1e308}, 1e308, math.NaN()},
		{"beyond the range", []float64{1.7e308, -1.7e308}, 0, math.Inf(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := momentsOf(tt.x)
			for _, v := range []struct{ got, want float64 }{{m.mean, tt.mean}, {m.std, tt.std}} {
				if !(math.IsNaN(v.got) && math.IsNaN(v.want)) && v.got != v.want && !(math.Abs(v.got-v.want) <= 1e-12*math.Abs(v.want)) {
					t.Errorf("mean %v, std %v, want %v and %v", m.mean, m.std, tt.mean, tt.std)
				}
			}
		})
	}
}

// Within the range of squares the numbers are bit-identical to the plain formula's: runs depend on
// it.
func TestMomentsAreThePlainOnesInRange(t *testing.T) {
	for _, x := range [][]float64{{1, 0, 0.5}, {0.1, 0.1, 0.1}, {0, 0}, {1e100, -3, 2}, {1e-100, 0}} {
		if got, want := momentsOf(x), plainMoments(x); got != want {
			t.Errorf("%v: %v, plain %v", x, got, want)
		}
	}
}
