package kernel

import (
	"math"
	"math/rand"
	"slices"
	"testing"
)

// A soft cap and its derivative are the formulas in float64, do not depend on the number of threads, and keep NaN.
func TestSoftCap(t *testing.T) {
	const scale, c = 0.25, 7
	r := rand.New(rand.NewSource(1))
	x := make([]float32, 1<<18+37)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 40)
	}
	x[0], x[1], x[2], x[3] = 0, 1e30, float32(math.Inf(-1)), 1e-6
	got, slope := slices.Clone(x), make([]float32, len(x))
	SoftCap(got, scale, c, slope)
	for i, v := range x {
		th := math.Tanh(float64(v) * scale / c)
		if d := math.Abs(float64(got[i]) - c*th); !(d <= 2e-6) {
			t.Fatalf("of %v: %v, want %v", v, got[i], c*th)
		}
		if d := math.Abs(float64(slope[i]) - scale*(1-th*th)); !(d <= 2e-7) {
			t.Fatalf("slope of %v: %v, want %v", v, slope[i], scale*(1-th*th))
		}
	}
	pool := NewPool(3)
	defer pool.Close()
	again, slopes := slices.Clone(x), make([]float32, len(x))
	pool.SoftCap(again, scale, c, slopes)
	if !slices.Equal(again, got) || !slices.Equal(slopes, slope) {
		t.Error("other numbers with three threads")
	}
	pool.SoftCap(x, scale, c, nil)
	if !slices.Equal(x, got) {
		t.Error("other numbers without the derivative")
	}
	nan := []float32{float32(math.NaN())}
	if SoftCap(nan, scale, c, nil); nan[0] == nan[0] {
		t.Errorf("of NaN: %v", nan[0])
	}
}
