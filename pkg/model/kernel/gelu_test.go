package kernel

import (
	"math"
	"math/rand"
	"slices"
	"testing"
)

// GeGLU and its gradient are the formulas in float64, and do not depend on the number of threads.
func TestGeGLU(t *testing.T) {
	gelu := func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	const rows, n = 37, 129
	r := rand.New(rand.NewSource(1))
	gu, da := make([]float32, rows*2*n), make([]float32, rows*n)
	for i := range gu {
		gu[i] = float32(r.NormFloat64() * 3)
	}
	for i := range da {
		da[i] = float32(r.NormFloat64())
	}
	gu[0], gu[1], gu[2] = 40, -40, 0
	out, grad := make([]float32, rows*n), slices.Clone(gu)
	GeGLU(rows, n, gu, out)
	GeGLUBackward(rows, n, grad, da)
	near := func(what string, got float32, want float64) {
		if d := math.Abs(float64(got) - want); !(d <= 2e-6*max(1, math.Abs(want))) {
			t.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
	for i := range rows {
		for j := range n {
			g, u, d := float64(gu[2*i*n+j]), float64(gu[(2*i+1)*n+j]), float64(da[i*n+j])
			near("output", out[i*n+j], gelu(g)*u)
			near("gradient of u", grad[(2*i+1)*n+j], d*gelu(g))
			const h = 1e-5
			want := d * u * (gelu(g+h) - gelu(g-h)) / (2 * h)
			if got := float64(grad[2*i*n+j]); !(math.Abs(got-want) <= 1e-5*max(1, math.Abs(d*u))) {
				t.Fatalf("gradient of g = %v is %v, want %v", g, got, want)
			}
		}
	}
	pool := NewPool(3)
	defer pool.Close()
	again, gradAgain := make([]float32, rows*n), slices.Clone(gu)
	pool.GeGLU(rows, n, gu, again)
	pool.GeGLUBackward(rows, n, gradAgain, da)
	if !slices.Equal(again, out) || !slices.Equal(gradAgain, grad) {
		t.Error("3 threads give other bits")
	}
}
