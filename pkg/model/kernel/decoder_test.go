package kernel

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
)

// normCase is an RMSNorm in both directions, in guarded memory.
type normCase struct {
	rows, n                      int
	x, w, y, rstd, dy, dx, dw    *guarded
	dxBefore, dwBefore, inPlaceY []float32
}

func newNormCase(r *rand.Rand, rows, n int) *normCase {
	in := func(n int) *guarded { return vector(n, r.Intn(9), uniform(r, 2)) }
	out := func(n int) *guarded { return vector(n, r.Intn(9), nil) }
	c := &normCase{rows: rows, n: n, x: in(rows * n), w: in(n), y: out(rows * n), rstd: out(rows),
		dy: in(rows * n), dx: in(rows * n), dw: in(n)}
	c.dxBefore, c.dwBefore = append([]float32(nil), c.dx.x...), append([]float32(nil), c.dw.x...)
	RMSNorm(rows, n, c.x.x, c.w.x, 1e-5, c.y.x, c.rstd.x)
	c.inPlaceY = append([]float32(nil), c.x.x...)
	RMSNorm(rows, n, c.inPlaceY, c.w.x, 1e-5, c.inPlaceY, nil)
	RMSNormBackward(rows, n, c.x.x, c.w.x, c.rstd.x, c.dy.x, c.dx.x, c.dw.x)
	return c
}

// sizes are those of the tests of rows: all tails, and the sizes of real networks.
func sizes(f func(n int)) {
	for n := 1; n <= 70; n++ {
		f(n)
	}
	f(576)
}

func TestRMSNorm(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		sizes(func(n int) {
			rows := r.Intn(6)
			c := newNormCase(r, rows, n)
			for i, g := range []*guarded{c.x, c.w, c.y, c.rstd, c.dy, c.dx, c.dw} {
				g.check(t, [...]string{"x", "w", "y", "rstd", "dy", "dx", "dw"}[i])
			}
			y, rstd := make([]float64, rows*n), make([]float64, rows)
			ReferenceRMSNorm(rows, n, wide64(c.x.x), wide64(c.w.x), 1e-5, y, rstd)
			near(t, "rstd", c.rstd.x, rstd, 1e-7, 0)
			near(t, "y", c.y.x, y, 3e-7, 0)
			sameBits(t, "y in place", c.inPlaceY, c.y.x)
			dx, dw := wide64(c.dxBefore), wide64(c.dwBefore)
			ReferenceRMSNormBackward(rows, n, wide64(c.x.x), wide64(c.w.x), rstd, wide64(c.dy.x), dx, dw)
			largest := 1.0
			for _, v := range rstd {
				largest = max(largest, v)
			}
			near(t, "dx", c.dx.x, dx, 1e-6, 5e-6*largest)
			near(t, "dw", c.dw.x, dw, 1e-6, 5e-6)
			frozen := append([]float32(nil), c.dxBefore...)
			RMSNormBackward(rows, n, c.x.x, c.w.x, c.rstd.x, c.dy.x, frozen, nil)
			sameBits(t, "dx without dw", frozen, c.dx.x)
		})
	})
}

// rope rotates a guarded matrix of rows with a gap, and returns it as it was, with the
// angles.
func rope(r *rand.Rand, rows, heads, dim int, sign float32) (x *guarded, before []float32, angles []float64) {
	x = newGuarded(rows, heads*dim, heads*dim+r.Intn(5), r.Intn(9), uniform(r, 1))
	before = append([]float32(nil), x.x...)
	half := dim / 2
	cos, sin := vector(rows*half, 1, nil), vector(rows*half, 2, nil)
	for i := range rows * half {
		angles = append(angles, 20*r.Float64())
		s, c := math.Sincos(angles[i])
		cos.x[i], sin.x[i] = float32(c), float32(s)
	}
	RoPE(rows, heads, dim, x.x, x.ld, cos.x, sin.x, sign)
	return x, before, angles
}

func TestRoPE(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		for dim := 2; dim <= 130; dim += 2 {
			rows, heads, sign := 1+r.Intn(4), 1+r.Intn(4), float32(1-2*(dim/2%2))
			x, before, angles := rope(r, rows, heads, dim, sign)
			x.check(t, "x")
			want := wide64(before)
			ReferenceRoPE(rows, heads, dim, want, x.ld, angles, float64(sign))
			near(t, fmt.Sprint("dimension ", dim), x.x, want, 2e-7, 2e-7)
		}
	})
}

func TestSwiGLU(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		sizes(func(n int) {
			rows, scale := r.Intn(4), []float32{1, 6, 60}[n%3]
			gu, out := vector(rows*2*n, r.Intn(9), uniform(r, scale)), vector(rows*n, r.Intn(9), nil)
			da := vector(rows*n, r.Intn(9), uniform(r, 1))
			before := wide64(gu.x)
			want := make([]float64, rows*n)
			ReferenceSwiGLU(rows, n, before, want)
			SwiGLU(rows, n, gu.x, out.x)
			near(t, "out", out.x, want, 1e-6, 1e-30)
			ReferenceSwiGLUBackward(rows, n, before, wide64(da.x))
			SwiGLUBackward(rows, n, gu.x, da.x)
			near(t, "gradient", gu.x, before, 1e-6, 1e-6*float64(scale))
			for name, g := range map[string]*guarded{"gu": gu, "out": out, "da": da} {
				g.check(t, name)
			}
		})
	})
}

func TestSoftmaxBackward(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		sizes(func(n int) {
			p, d := vector(n, r.Intn(9), uniform(r, 5)), vector(n, r.Intn(9), uniform(r, 1))
			Softmax(n, p.x, 1, p.x)
			want := wide64(d.x)
			ReferenceSoftmaxBackward(wide64(p.x), want, 0.125)
			SoftmaxBackward(p.x, d.x, 0.125)
			near(t, "d", d.x, want, 1e-6, 1e-7)
			p.check(t, "p")
			d.check(t, "d")
		})
	})
}

// differences compares a gradient with central differences of the loss f at x.
func differences(t *testing.T, name string, got []float32, x []float64, f func() float64) {
	t.Helper()
	const h = 1e-5
	want := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + h
		up := f()
		x[i] = v - h
		want[i] = (up - f()) / (2 * h)
		x[i] = v
	}
	near(t, name, got, want, 1e-5, 1e-5)
}

// TestDecoderGradients holds the backward passes to finite differences of the forward
// passes' references, for the loss Σ dy·y.
func TestDecoderGradients(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		const rows, n = 3, 37
		loss := func(y []float64, dy []float32) (sum float64) {
			for i, v := range y {
				sum += v * float64(dy[i])
			}
			return sum
		}
		x, w, dy := randSlice(r, rows*n), randSlice(r, n), randSlice(r, rows*n)
		y, rstd, dx, dw := make([]float32, rows*n), make([]float32, rows), make([]float32, rows*n), make([]float32, n)
		RMSNorm(rows, n, x, w, 0.1, y, rstd)
		RMSNormBackward(rows, n, x, w, rstd, dy, dx, dw)
		x64, w64, y64 := wide64(x), wide64(w), make([]float64, rows*n)
		norm := func() float64 {
			ReferenceRMSNorm(rows, n, x64, w64, 0.1, y64, make([]float64, rows))
			return loss(y64, dy)
		}
		differences(t, "RMSNorm dx", dx, x64, norm)
		differences(t, "RMSNorm dw", dw, w64, norm)

		gu := randSlice(r, rows*2*n)
		gu64 := wide64(gu)
		SwiGLUBackward(rows, n, gu, dy)
		differences(t, "SwiGLU", gu, gu64, func() float64 {
			ReferenceSwiGLU(rows, n, gu64, y64)
			return loss(y64, dy)
		})

		p, d := make([]float32, n), append([]float32(nil), dy[:n]...)
		Softmax(n, x[:n], 0.7, p)
		SoftmaxBackward(p, d, 0.7)
		differences(t, "Softmax", d, x64[:n], func() float64 {
			probs := make([]float64, n)
			ReferenceLogSoftmaxGather(1, n, x64, 0.7, []int{0}, make([]float64, 1), make([]float64, 1), probs)
			return loss(probs, dy)
		})

		// A rotation's gradient rotates back: the transpose is the inverse.
		there, before, _ := rope(rand.New(rand.NewSource(9)), 2, 3, 26, 1)
		back, _, _ := rope(rand.New(rand.NewSource(9)), 2, 3, 26, -1)
		sum, want := 0.0, 0.0
		for i := range 2 {
			for j := range 3 * 26 {
				at := i*there.ld + j
				sum += float64(there.x[at]) * float64(before[at])
				want += float64(before[at]) * float64(back.x[at])
			}
		}
		if math.Abs(sum-want) > 1e-5 {
			t.Errorf("RoPE: (R·x)·x = %v, x·(Rᵀ·x) = %v", sum, want)
		}
	})
}

// TestDecoderExactPaths: norms, rotations and the gradient of softmax fuse nothing, so
// they have the portable version's bits on every path.
func TestDecoderExactPaths(t *testing.T) {
	run := func() (all [][]float32) {
		r := rand.New(rand.NewSource(3))
		sizes(func(n int) {
			c := newNormCase(r, 5, n)
			x, _, _ := rope(r, 3, 2, 2*n, -1)
			p, d := randSlice(r, n), randSlice(r, n)
			SoftmaxBackward(p, d, 0.3)
			all = append(all, c.y.x, c.rstd.x, c.dx.x, c.dw.x, d)
			for i := range x.rows {
				all = append(all, x.x[i*x.ld:i*x.ld+x.cols])
			}
		})
		return all
	}
	usePath(t, pathGo)
	want := run()
	onEachPath(t, func(t *testing.T) {
		for i, got := range run() {
			sameBits(t, fmt.Sprint("array ", i), got, want[i])
		}
	})
}

// TestSwiGLUPlace: an element has the same bits wherever it is in a row.
func TestSwiGLUPlace(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(4))
		const n = 53
		gu, da, out := randSlice(r, 2*n), randSlice(r, n), make([]float32, n)
		for i := range gu {
			gu[i] *= 10
		}
		gu[7], gu[40] = inf32, float32(math.NaN())
		SwiGLU(1, n, gu, out)
		whole := append([]float32(nil), gu...)
		SwiGLUBackward(1, n, whole, da)
		for j := range n {
			one, y := []float32{gu[j], gu[n+j]}, make([]float32, 1)
			SwiGLU(1, 1, one, y)
			SwiGLUBackward(1, 1, one, da[j:])
			got, want := []float32{y[0], one[0], one[1]}, []float32{out[j], whole[j], whole[n+j]}
			sameBits(t, fmt.Sprint("element ", j), got, want)
		}
	})
}

// decoderCalls are all decoder kernels by name, over a pool or without one, on fixed data.
// Each returns what it wrote.
func decoderCalls(rows, n int) map[string]func(p *Pool) []float32 {
	r := rand.New(rand.NewSource(5))
	x, dy, gu := randSlice(r, rows*n), randSlice(r, rows*n), randSlice(r, 2*rows*n)
	w, rstd := randSlice(r, n), randSlice(r, rows)
	logp, entropy, targets := randSlice(r, rows), randSlice(r, rows), randTargets(r, rows, n)
	out, rowOut, both := make([]float32, rows*n), make([]float32, rows), make([]float32, 2*rows*n)
	dw, second := make([]float32, n), make([]float32, rows)
	return map[string]func(p *Pool) []float32{
		"RMSNorm": func(p *Pool) []float32 {
			clear(rowOut)
			p.RMSNorm(rows, n, x, w, 1e-5, out, rowOut)
			return append(out[:rows*n:rows*n], rowOut...)
		},
		"RMSNormBackward": func(p *Pool) []float32 {
			copy(out, dy)
			copy(dw, w)
			p.RMSNormBackward(rows, n, x, w, rstd, dy, out, dw)
			return append(out[:rows*n:rows*n], dw...)
		},
		"RoPE": func(p *Pool) []float32 {
			copy(out, x)
			p.RoPE(rows, 1, n/2*2, out, n, gu, dy, -1)
			return out
		},
		"SwiGLU": func(p *Pool) []float32 {
			p.SwiGLU(rows, n, gu, out)
			return out
		},
		"SwiGLUBackward": func(p *Pool) []float32 {
			copy(both, gu)
			p.SwiGLUBackward(rows, n, both, dy)
			return both
		},
		"AddBias": func(p *Pool) []float32 {
			copy(out, x)
			p.AddBias(rows, n, out, n, w)
			return out
		},
		"LogSoftmaxGather": func(p *Pool) []float32 {
			p.LogSoftmaxGather(rows, n, x, 0.7, targets, rowOut, second, out)
			return append(append(out[:rows*n:rows*n], rowOut...), second...)
		},
		"LogSoftmaxBackward": func(p *Pool) []float32 {
			p.LogSoftmaxBackward(rows, n, x, logp, entropy, targets, rstd, logp, 0.7, out)
			return out
		},
	}
}

// TestPoolDecoder: threads change no bit.
func TestPoolDecoder(t *testing.T) {
	for _, s := range []struct{ rows, n int }{{1, 70}, {700, 64}, {90, 577}} {
		alone := decoderCalls(s.rows, s.n)
		for _, threads := range []int{2, 3, 5} {
			p := newPool(t, threads)
			for name, call := range decoderCalls(s.rows, s.n) {
				sameBits(t, fmt.Sprintf("%s, %d threads, %dx%d", name, threads, s.rows, s.n), call(p), alone[name](nil))
			}
		}
	}
}

func TestDecoderAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const rows, n = 2, 37
	x, y, gu := make([]float32, rows*n), make([]float32, rows*n), make([]float32, 2*rows*n)
	w, rstd := make([]float32, n), make([]float32, rows)
	if got := testing.AllocsPerRun(100, func() {
		RMSNorm(rows, n, x, w, 1e-5, y, rstd)
		RMSNormBackward(rows, n, x, w, rstd, y, x, w)
		RoPE(rows, 1, n-1, x, n, gu, gu, 1)
		SwiGLU(rows, n, gu, y)
		SwiGLUBackward(rows, n, gu, y)
		SoftmaxBackward(x, y, 1)
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
