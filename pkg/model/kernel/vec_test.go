package kernel

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
)

// TestVec compares with loops that do the same operations in the documented order: the bits must be
// equal on every path.
func TestVec(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		for n := range 140 {
			rows, ld := r.Intn(20), n+r.Intn(3)
			x := newGuarded(rows, n, ld, r.Intn(9), uniform(r, 1))
			bias, out := vector(n, r.Intn(9), uniform(r, 1)), vector(n, r.Intn(9), uniform(r, 1))
			accumulate := n%2 == 0

			want := append([]float32(nil), out.x...)
			for j := range n {
				if !accumulate {
					want[j] = 0
				}
				for i := range rows {
					want[j] += x.x[i*ld+j]
				}
			}
			ColSum(rows, n, x.x, ld, accumulate, out.x)
			sameBits(t, fmt.Sprint("ColSum ", rows, "x", n), out.x, want)

			want = append([]float32(nil), x.x...)
			for i := range rows {
				for j := range n {
					want[i*ld+j] += bias.x[j]
				}
			}
			AddBias(rows, n, x.x, ld, bias.x)
			sameBits(t, fmt.Sprint("AddBias ", rows, "x", n), x.x, want)

			want = append([]float32(nil), out.x...)
			for j := range want {
				want[j] += float32(0.3 * bias.x[j])
			}
			Axpy(0.3, bias.x, out.x)
			sameBits(t, "Axpy", out.x, want)

			const outRows = 7
			sums := newGuarded(outRows, n, ld, r.Intn(9), uniform(r, 1))
			ids := make([]int, rows)
			want = append([]float32(nil), sums.x...)
			for i := range ids {
				ids[i] = r.Intn(outRows)
				for j := range n {
					want[ids[i]*ld+j] += x.x[i*ld+j]
				}
			}
			ScatterAdd(ids, n, x.x, ld, outRows, sums.x, ld)
			sameBits(t, fmt.Sprint("ScatterAdd ", rows, "x", n), sums.x, want)
			sums.check(t, "sums")

			sum := 0.0
			for _, v := range out.x {
				sum += float64(v) * float64(v)
			}
			if got := SumSquares(out.x); math.Abs(got-sum) > 1e-14*sum {
				t.Fatalf("SumSquares of %d: %v, want %v", n, got, sum)
			}
			for name, g := range map[string]*guarded{"x": x, "bias": bias, "out": out} {
				g.check(t, name)
			}
		}
	})
}

func TestAdamW(t *testing.T) {
	const n = 77
	run := func(steps int) (w, m, v *guarded, reference []float64) {
		r := rand.New(rand.NewSource(3))
		w, m, v = vector(n, 1, uniform(r, 1)), vector(n, 2, func() float32 { return 0 }), vector(n, 3, func() float32 { return 0 })
		reference = wide64(w.x)
		m64, v64 := make([]float64, n), make([]float64, n)
		for step := 1; step <= steps; step++ {
			g := vector(n, step%5, uniform(r, 0.1))
			AdamW(w.x, g.x, m.x, v.x, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.7, step)
			ReferenceAdamW(reference, wide64(g.x), m64, v64, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.7, step)
			g.check(t, "g")
		}
		return w, m, v, reference
	}
	usePath(t, pathGo)
	wantW, wantM, wantV, _ := run(20)
	onEachPath(t, func(t *testing.T) {
		w, m, v, reference := run(20)
		near(t, "w", w.x, reference, 1e-5, 1e-6)
		sameBits(t, "w", w.x, wantW.x)
		sameBits(t, "m", m.x, wantM.x)
		sameBits(t, "v", v.x, wantV.x)
		w.check(t, "w")
		m.check(t, "m")
		v.check(t, "v")
	})
}

// TestAdamWFirstUpdate: with zero moments the first step is lr·sign(g), decay
// apart, whatever the size of g.
func TestAdamWFirstUpdate(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			g, decay float64
			scale    float64
			want     float64
		}{
			{"large gradient", 100, 0, 1, 1 - 0.01},
			{"small negative gradient", -1e-3, 0, 1, 1 + 0.01},
			{"clipping does not change the first step", 5, 0, 0.01, 1 - 0.01},
			{"decay is decoupled", 5, 0.5, 1, 1 - 0.01*0.5 - 0.01},
			{"no gradient, decay alone", 0, 0.5, 1, 1 - 0.01*0.5},
		} {
			w, g := make([]float32, 11), make([]float32, 11)
			fillWith(w, 1)
			fillWith(g, float32(c.g))
			AdamW(w, g, make([]float32, 11), make([]float32, 11), 0.01, 0.9, 0.95, 1e-8, c.decay, c.scale, 1)
			want := make([]float64, 11)
			for i := range want {
				want[i] = c.want
			}
			near(t, c.name, w, want, 1e-6, 0)
		}
	})
}

// FuzzVec compares the element-wise kernels with the portable version, bit for bit, over sizes,
// tails, offsets and numbers that need not be finite.
func FuzzVec(f *testing.F) {
	f.Add(uint8(3), uint8(17), uint8(1), int64(1), float32(1))
	f.Add(uint8(40), uint8(64), uint8(5), int64(2), float32(math.Inf(1)))
	f.Add(uint8(0), uint8(8), uint8(0), int64(3), float32(1e-40))
	f.Fuzz(func(t *testing.T, rows, n, offset uint8, seed int64, special float32) {
		run := func() (all [][]float32, sum float64) {
			r := rand.New(rand.NewSource(seed))
			rows, n, offset := int(rows), 1+int(n%130), int(offset%9)
			ld := n + r.Intn(3)
			x := newGuarded(rows, n, ld, offset, uniform(r, 2))
			if len(x.x) > 0 {
				x.x[r.Intn(rows)*ld+r.Intn(n)] = special
			}
			bias, out := vector(n, offset, uniform(r, 1)), vector(n, offset/2, uniform(r, 1))
			ColSum(rows, n, x.x, ld, seed%2 == 0, out.x)
			const outRows = 3
			sums := newGuarded(outRows, n, ld, offset, uniform(r, 1))
			ids := make([]int, rows)
			for i := range ids {
				ids[i] = r.Intn(outRows)
			}
			ScatterAdd(ids, n, x.x, ld, outRows, sums.x, ld)
			AddBias(rows, n, x.x, ld, bias.x)
			Axpy(special, bias.x, out.x)
			w, m, v := vector(n, offset, uniform(r, 1)), vector(n, 0, uniform(r, 1)), vector(n, 1, func() float32 { return r.Float32() })
			AdamW(w.x, bias.x, m.x, v.x, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.7, 3)
			for _, g := range []*guarded{x, bias, out, sums, w, m, v} {
				g.check(t, "array")
				all = append(all, g.x)
			}
			return all, SumSquares(x.x)
		}
		usePath(t, pathGo)
		want, wantSum := run()
		usePath(t, bestPath())
		got, sum := run()
		for i := range want {
			sameBits(t, fmt.Sprint("array ", i), got[i], want[i])
		}
		if sum != wantSum && !(math.IsNaN(sum) && math.IsNaN(wantSum)) {
			t.Errorf("SumSquares %v, want %v", sum, wantSum)
		}
	})
}
