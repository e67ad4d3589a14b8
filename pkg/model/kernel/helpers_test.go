package kernel

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
)

// usePath makes p the active path until the test ends.
func usePath(t testing.TB, p path) {
	t.Helper()
	old := active
	active = p
	t.Cleanup(func() { active = old })
}

// onEachPath runs f once for each path that this processor supports.
func onEachPath(t *testing.T, f func(t *testing.T)) {
	for _, p := range pathsUpTo(bestPath()) {
		if testing.Short() && p != bestPath() { // the race detector wants goroutines that meet, on any path
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			usePath(t, p)
			f(t)
		})
	}
}

// sentinel is a NaN that no kernel writes.
const sentinel = 0x7fc0dead

// guarded is a matrix of rows×cols, ld apart, somewhere inside a buffer that is
// otherwise full of sentinels: a kernel that reads outside gets NaN, one that
// writes outside is found by check.
type guarded struct {
	buf            []float32
	x              []float32
	lo             int
	rows, cols, ld int
}

// newGuarded makes a matrix that starts offset elements from the allocation's
// alignment and fills it by f, or leaves sentinels where f is nil.
func newGuarded(rows, cols, ld, offset int, f func() float32) *guarded {
	const margin = 64
	n := 0
	if rows > 0 {
		n = (rows-1)*ld + cols
	}
	g := &guarded{buf: make([]float32, margin+offset+n+margin), lo: margin + offset, rows: rows, cols: cols, ld: ld}
	for i := range g.buf {
		g.buf[i] = math.Float32frombits(sentinel)
	}
	g.x = g.buf[g.lo : g.lo+n : g.lo+n]
	if f != nil {
		for i := range rows {
			for j := range cols {
				g.x[i*ld+j] = f()
			}
		}
	}
	return g
}

// vector is a guarded row of n elements.
func vector(n, offset int, f func() float32) *guarded { return newGuarded(1, n, n, offset, f) }

// check fails if anything outside the matrix was written.
func (g *guarded) check(t testing.TB, name string) {
	t.Helper()
	for i, v := range g.buf {
		at := i - g.lo
		inside := at >= 0 && g.ld > 0 && at/g.ld < g.rows && at%g.ld < g.cols
		if !inside && math.Float32bits(v) != sentinel {
			t.Fatalf("%s: element %d, outside the matrix of %d×%d (%d apart), was overwritten with %v", name, at, g.rows, g.cols, g.ld, v)
		}
	}
}

// wide64 returns x in float64.
func wide64(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func uniform(r *rand.Rand, scale float32) func() float32 {
	return func() float32 { return (2*r.Float32() - 1) * scale }
}

func randSlice(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = uniform(r, 1)()
	}
	return x
}

// sameBits fails at the first element that differs in a bit; NaNs are equal.
func sameBits(t interface { // a *testing.T or a *rapid.T
	Helper()
	Fatalf(format string, args ...any)
}, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("%s: element %d is %x (%v), want %x (%v)", name, i, math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
		}
	}
}

// near fails unless got is within abs + rel·|want| of want everywhere.
func near(t testing.TB, name string, got []float32, want []float64, rel, abs float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), want[i]
		if math.IsNaN(w) && math.IsNaN(g) || g == w {
			continue
		}
		if !(math.Abs(g-w) <= abs+rel*math.Abs(w)) {
			t.Fatalf("%s: element %d is %v, want %v (off by %.3g)", name, i, g, w, math.Abs(g-w))
		}
	}
}

// newPool is closed at the end of the test.
func newPool(t testing.TB, threads int) *Pool {
	p := NewPool(threads)
	t.Cleanup(p.Close)
	return p
}

// mustPanic fails unless f panics.
func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

// Slices that are too short, and sizes that do not fit, panic: assembly checks no bounds.
func TestPanics(t *testing.T) {
	x := make([]float32, 12)
	for name, f := range map[string]func(){
		"Gemm: short a":          func() { Gemm(false, false, 4, 1, 4, x, 4, x, 1, false, x, 1) },
		"Gemm: short b":          func() { Gemm(false, true, 1, 4, 4, x, 4, x, 4, false, x, 4) },
		"Gemm: short c":          func() { Gemm(false, false, 4, 4, 1, x, 1, x, 4, false, x, 4) },
		"Gemm: rows overlap":     func() { Gemm(false, false, 2, 2, 2, x, 1, x, 2, false, x, 2) },
		"Gemm: negative m":       func() { Gemm(false, false, -1, 2, 2, x, 2, x, 2, false, x, 2) },
		"GemmPacked: shape":      func() { GemmPacked(false, 2, 2, 2, x, 2, new(Packed), false, x, 2) },
		"PackB: short b":         func() { PackB(false, 4, 4, x, 4, new(Packed)) },
		"GemmGates: gap outside": func() { NewPool(1).GemmGates(3, 2, 2, x, 4, 4, 1, x, 2, x, 2) },
		"GemmGates: short a":     func() { NewPool(1).GemmGates(3, 2, 2, x[:6], 4, 2, 1, x, 2, x, 2) },
		"GRUForward: short gi":   func() { GRUForward(2, 2, x[:11], x, nil, nil, x, x, nil) },
		"GRUForward: short bias": func() { GRUForward(1, 2, x, x, x[:5], nil, x, x, nil) },
		"GRUForward: short save": func() { GRUForward(1, 2, x, x, nil, nil, x, x, x[:7]) },
		"GRUBackward: short dgh": func() { GRUBackward(1, 2, x, x, x, x[:5], x) },
		"gather: large target":   func() { LogSoftmaxGather(1, 5, x, 1, []int{5}, x, x, x) },
		"gather: few targets":    func() { LogSoftmaxGather(2, 5, x, 1, []int{0}, x, x, x) },
		"gather: short logits":   func() { LogSoftmaxGather(2, 7, x, 1, []int{0, 0}, x, x, x) },
		"softmax: target < 0":    func() { LogSoftmaxBackward(1, 5, x, x, x, []int{-1}, x, nil, 1, x) },
		"softmax: short entropy": func() { LogSoftmaxBackward(2, 5, x, x, x, []int{0, 0}, x, x[:1], 1, x) },
		"RMSNorm: short y":       func() { RMSNorm(3, 4, x, x, 1, x[:11], nil) },
		"RMSNorm: short rstd":    func() { RMSNorm(3, 4, x, x, 1, x, x[:2]) },
		"RMSNormBackward: dw":    func() { RMSNormBackward(3, 4, x, x, x, x, x, x[:3]) },
		"RoPE: short x":          func() { RoPE(3, 2, 2, x[:11], 4, x, x, 1) },
		"RoPE: short sin":        func() { RoPE(3, 1, 4, x, 4, x, x[:5], 1) },
		"SwiGLU: short gu":       func() { SwiGLU(2, 4, x, x) },
		"SwiGLUBackward: da":     func() { SwiGLUBackward(2, 3, x, x[:5]) },
		"SoftmaxBackward":        func() { SoftmaxBackward(x, x[:5], 1) },
		"AddBias: short bias":    func() { AddBias(2, 5, x, 5, x[:4]) },
		"ColSum: short x":        func() { ColSum(3, 5, x, 5, false, x) },
		"ScatterAdd: id outside": func() { ScatterAdd([]int{0, 2}, 5, x, 5, 2, x, 5) },
		"Axpy: lengths":          func() { Axpy(1, x, x[:9]) },
		"AdamW: lengths":         func() { AdamW(x, x[:9], x, x, 1, 0.9, 0.9, 1, 0, 1, 1) },
		"AdamW: update 0":        func() { AdamW(x, x, x, x, 1, 0.9, 0.9, 1, 0, 1, 0) },
	} {
		mustPanic(t, name, f)
	}
	GRUForward(0, 8, nil, nil, nil, nil, nil, nil, nil)
}

// fma32 is the fused multiply-add of float32 by definition: the product is
// exact in float64, the sum is rounded to odd there, and a value rounded to odd
// with two more bits to spare rounds to float32 as the exact sum would.
func fma32(a, b, c float32) float32 {
	p, q := float64(float64(a)*float64(b)), float64(c)
	s := p + q
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return float32(s)
	}
	bb := s - p
	rest := (p - (s - bb)) + (q - bb)
	bits := math.Float64bits(s)
	if rest != 0 && bits&1 == 0 {
		if (rest > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

func TestFMA32(t *testing.T) {
	ulp := float32(0x1p-23)
	for _, c := range []struct{ a, b, c, want float32 }{
		{2, 3, 4, 10},
		{1 + ulp, 1 + ulp, -1, 0x1p-22 + 0x1p-46},    // the product keeps its low bits
		{1, 1, 0x1p-24, 1},                           // a tie goes to even
		{1 + 0x1p-12, 1 - 0x1p-12, 0x1p-24, 1},       // exact
		{1, 1 + ulp, 0x1p-24, 1 + 2*ulp},             // a tie goes to even, upwards
		{0x1p-60, 0x1p-60, 1 + 0x1p-23, 1 + 0x1p-23}, // a tiny product has no effect
		{0x1p-40, 0x1p-40, float32(math.Inf(1)), float32(math.Inf(1))},
	} {
		if got := fma32(c.a, c.b, c.c); got != c.want {
			t.Errorf("fma32(%v, %v, %v) = %v, want %v", c.a, c.b, c.c, got, c.want)
		}
	}
}

func shapeName(mode string, m, k, n int) string { return fmt.Sprintf("%s/%dx%dx%d", mode, m, k, n) }
