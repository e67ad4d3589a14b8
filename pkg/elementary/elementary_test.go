package elementary

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/cpu"
)

// functions are the functions of one argument, with those of package math.
var functions = map[string]struct{ own, math func(float64) float64 }{
	"Exp": {Exp, math.Exp}, "Expm1": {Expm1, math.Expm1}, "Tanh": {Tanh, math.Tanh}, "Log": {Log, math.Log},
	"Log1p": {Log1p, math.Log1p}, "Cos": {Cos, math.Cos},
	"Sin": {func(x float64) float64 { s, _ := Sincos(x); return s }, func(x float64) float64 { s, _ := math.Sincos(x); return s }},
}

// arguments draws n numbers: of every exponent, and of the sizes that occur.
func arguments(n int, visit func(x float64)) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64,
		-math.MaxFloat64, 0x1p-1074, -0x1p-1074, 0x1p-1022, 709.782712893384, 709.7827128933841, 709.79, -708.4, -745.13, -745.2, -746,
		-38.816242111356935, 0.34657359027997264, 1.0397207708399179, 0.625, 44.014845, math.Sqrt2 / 2, math.Sqrt2} {
		visit(x)
	}
	for i := range n {
		switch x := 2*r.Float64() - 1; i % 8 {
		case 0:
			visit(math.Float64frombits(r.Uint64()))
		case 1:
			visit(x * 745)
		case 2:
			visit(x * 1e-3)
		case 3:
			visit(1 + x*1e-3)
		default:
			visit(x * math.Exp2(float64(i%8-4)*2))
		}
	}
}

// likeGo reports whether math's functions are those that the functions here repeat.
func likeGo() bool { return runtime.GOARCH == "amd64" && cpu.X86.HasFMA && cpu.X86.HasAVX }

// TestLikeGoOnAMD64: on amd64 nothing changes.
func TestLikeGoOnAMD64(t *testing.T) {
	if !likeGo() {
		t.Skip("Go's functions have other bits on this processor")
	}
	n := 400_000
	if testing.Short() {
		n = 40_000
	}
	for name, f := range functions {
		arguments(n, func(x float64) {
			if got, want := f.own(x), f.math(x); math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) {
				t.Fatalf("%s(%v = %x) = %v, want %v", name, x, math.Float64bits(x), got, want)
			}
		})
	}
	last := 0.5
	arguments(n, func(x float64) {
		for _, base := range []float64{math.Abs(x), last} {
			if got, want := Pow(base, x), math.Pow(base, x); got != want && !(got != got && want != want) {
				t.Fatalf("Pow(%v, %v) = %v, want %v", base, x, got, want)
			}
		}
		last = math.Abs(x)
	})
}

// TestBits pins the bits, on every processor.
func TestBits(t *testing.T) {
	for name, want := range map[string]uint64{
		"Exp": 0x60af778387d453e5, "Expm1": 0xf74f1ea212a1b87e, "Tanh": 0x7bd1f57937220b71, "Log": 0xa1db955d891bd627,
		"Log1p": 0x974e3253870c3a9f, "Cos": 0xdde47c3c9d32d265, "Sin": 0x8538428387b396d1,
	} {
		h := fnv.New64a()
		arguments(20_000, func(x float64) {
			if (name == "Sin" || name == "Cos") && math.Abs(x) >= 1<<29 {
				return
			}
			bits := math.Float64bits(functions[name].own(x))
			if bits&^(1<<63) > 0x7ff0000000000000 {
				bits = 0x7ff8000000000000 // any NaN
			}
			var b [8]byte
			for i := range b {
				b[i] = byte(bits >> (8 * i))
			}
			h.Write(b[:])
		})
		if got := h.Sum64(); got != want {
			t.Errorf("%s: hash %#x, want %#x", name, got, want)
		}
	}
}
