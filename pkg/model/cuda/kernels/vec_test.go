//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model/kernel"
)

func TestElementwise(t *testing.T) {
	b := newBench(t, Base())
	r := random(1)
	for _, n := range []int{1, 255, 256, 5000, 20000} {
		x, y := normal(r, n, 1), normal(r, n, 1)
		for _, c := range []struct {
			kernel string
			args   func(x, y cudaemu.Ptr) []any
			want   func(i int) float64
		}{
			{Axpy, func(x, y cudaemu.Ptr) []any { return []any{int64(n), float32(-2), x, y} },
				func(i int) float64 { return float64(y[i]) - 2*float64(x[i]) }},
			{Add, func(x, y cudaemu.Ptr) []any { return []any{int64(n), x, y, y} },
				func(i int) float64 { return float64(x[i]) + float64(y[i]) }},
			{Axpy, func(x, y cudaemu.Ptr) []any { return []any{int64(n), float32(2), y, y} },
				func(i int) float64 { return 3 * float64(y[i]) }},
		} {
			t.Run(fmt.Sprint(c.kernel, n), func(t *testing.T) {
				want := make([]float64, n)
				for i := range want {
					want[i] = c.want(i)
				}
				got := b.everyOrder(func() [][]float32 {
					px, py := b.floats(x), b.floats(y)
					b.start(card(b.Machine).Elementwise(c.kernel, n), c.args(px, py)...)
					return [][]float32{b.read(py, n)}
				})
				near(t, c.kernel, got[0], want, 1e-6, 1e-6)
			})
		}
	}
}

func TestColSumAndBiasGrad(t *testing.T) {
	b := newBench(t, Base())
	r := random(2)
	c := card(b.Machine)
	for _, size := range []struct{ rows, width, ld int }{{1, 1, 1}, {3, 40, 41}, {700, 5, 8}, {1300, 33, 64}} {
		for _, weighted := range []bool{false, true} {
			for _, accumulate := range []int{0, 1} {
				t.Run(fmt.Sprintf("%+v weighted %v accumulate %d", size, weighted, accumulate), func(t *testing.T) {
					x, out := normal(r, size.rows*size.ld, 1), normal(r, size.width, 1)
					var w []float32
					if weighted {
						w = normal(r, size.rows, 1)
					}
					want := make([]float64, size.width)
					for j := range want {
						if accumulate == 1 {
							want[j] = float64(out[j])
						}
						for i := range size.rows {
							v := float64(x[i*size.ld+j])
							if weighted {
								v *= float64(w[i])
							}
							want[j] += v
						}
					}
					got := b.everyOrder(func() [][]float32 {
						parts, sum := c.ColSum(size.rows, size.width)
						room, to := b.Alloc(4*parts.Tiles*size.width), b.floats(out)
						b.start(parts, size.rows, size.width, b.floats(x), size.ld, b.floats(w), parts.Tile, room)
						b.start(sum, sum.Tiles, size.width, room, to, accumulate)
						return [][]float32{b.read(to, size.width)}
					})
					near(t, "column sums", got[0], want, 1e-5, 1e-4)
				})
			}
		}
	}
	t.Run("bias gradients", func(t *testing.T) {
		const h, count = 21, 19
		parts := normal(r, count*4*h, 1)
		ih, hh := make([]float64, 3*h), make([]float64, 3*h)
		for p := range count {
			row := parts[p*4*h:]
			for j := range 3 * h {
				ih[j] += float64(row[j])
			}
			for j := range 2 * h {
				hh[j] += float64(row[j])
			}
			for j := range h {
				hh[2*h+j] += float64(row[3*h+j])
			}
		}
		pi, ph := b.Alloc(4*3*h), b.Alloc(4*3*h)
		b.start(c.BiasGrad(h), count, h, b.floats(parts), pi, ph)
		near(t, "dbih", b.read(pi, 3*h), ih, 1e-5, 1e-5)
		near(t, "dbhh", b.read(ph, 3*h), hh, 1e-5, 1e-5)
	})
}

// AdamW has the bits of pkg/model/kernel for the same gradient and scale, and changes no memory if
// the norm is not finite.
func TestAdamWAndNorm(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	r := random(3)
	const lr, beta1, beta2, eps, decay = 3e-4, 0.9, 0.95, 1e-8, 0.01
	for _, n := range []int{1, 300, 4097} {
		for _, maxNorm := range []float64{0, 0.5, 1e6} {
			for _, broken := range []bool{false, true} {
				t.Run(fmt.Sprintf("n %d max %v broken %v", n, maxNorm, broken), func(t *testing.T) {
					w, g, m, v := normal(r, n, 1), normal(r, n, 1), normal(r, n, 0.1), normal(r, n, 0.1)
					for i := range v {
						v[i] *= v[i]
					}
					if broken {
						g[n/2] = float32(math.Inf(1))
					}
					parts, total := c.SumSquares(n)
					room, sum := b.Alloc(8*parts.Tiles), b.Alloc(8)
					pg := b.floats(g)
					b.start(parts, int64(n), pg, room)
					b.start(total, total.Grid[0]*parts.Tiles, room, sum)
					norm2 := b.readF64(sum, 1)[0]
					if want := kernel.SumSquares(g); !broken && math.Abs(norm2-want) > 1e-12*want {
						t.Fatalf("squares add up to %v, want %v", norm2, want)
					}
					const step = 3
					pw, pm, pv := b.floats(w), b.floats(m), b.floats(v)
					b.start(c.Elementwise(AdamW, n), int64(n), pw, pg, pm, pv, float32(1-lr*decay),
						float32(beta1), float32(1-beta1), float32(beta2), float32(1-beta2),
						float32(lr/(1-math.Pow(beta1, step))), float32(1/math.Sqrt(1-math.Pow(beta2, step))), float32(eps), maxNorm, sum)
					if !broken {
						scale := 1.0
						if maxNorm > 0 {
							scale = min(1, maxNorm/(math.Sqrt(norm2)+1e-6))
						}
						kernel.AdamW(w, g, m, v, lr, beta1, beta2, eps, decay, scale, step)
					}
					for k, got := range [][]float32{b.read(pw, n), b.read(pm, n), b.read(pv, n)} {
						for i, want := range [][]float32{w, m, v}[k] {
							if got[i] != want {
								t.Fatalf("array %d, element %d is %v, want %v", k, i, got[i], want)
							}
						}
					}
				})
			}
		}
	}
}

func TestGatherRows(t *testing.T) {
	b := newBench(t, Base())
	r := random(4)
	for _, size := range []struct{ n, from, width int }{{1, 1, 1}, {7, 3, 300}, {40, 100, 64}} {
		t.Run(fmt.Sprintf("%+v", size), func(t *testing.T) {
			x, index := normal(r, size.from*size.width, 1), randomInts(r, size.n, size.from)
			var want []float64
			for _, i := range index {
				want = append(want, to64(x[int(i)*size.width:(int(i)+1)*size.width])...)
			}
			y := b.Alloc(4 * size.n * size.width)
			b.start(card(b.Machine).Gather(size.n, size.width), size.n, size.width, b.ints(index), b.floats(x), y)
			near(t, "rows", b.read(y, size.n*size.width), want, 0, 0)
		})
	}
}

// Both sums of rows by index give the same result and do not change rows that no index names.
func TestScatterAddAndTableGrad(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	r := random(5)
	for _, size := range []struct{ n, width, ld, vocab int }{
		{1, 1, 1, 1}, {9, 3, 3, 4}, {500, 66, 70, 7}, {1000, 192, 256, 100}, {131, 130, 130, 3},
	} {
		for _, accumulate := range []int{0, 1} {
			t.Run(fmt.Sprintf("%+v accumulate %d", size, accumulate), func(t *testing.T) {
				x, ids := normal(r, size.n*size.ld, 1), randomInts(r, size.n, size.vocab)
				old := normal(r, size.vocab*size.width, 1)
				want := make([]float64, len(old))
				if accumulate == 1 {
					want = to64(old)
				}
				for i, id := range ids {
					for j := range size.width {
						want[int(id)*size.width+j] += float64(x[i*size.ld+j])
					}
				}
				got := b.everyOrder(func() [][]float32 {
					px, pi, out := b.floats(x), b.ints(ids), b.floats(old)
					parts, sum, ok := c.TableGrad(size.n, size.width, size.vocab)
					if !ok {
						t.Fatal("a small vocabulary does not fit")
					}
					room := b.Alloc(4 * parts.Tiles * size.vocab * size.width)
					b.start(parts, size.n, size.width, pi, px, size.ld, size.vocab, parts.Tile, room)
					b.start(sum, sum.Tiles, size.vocab*size.width, room, out, accumulate)
					scattered := b.floats(old)
					b.start(c.ScatterAdd(size.width, size.vocab), size.n, size.width, pi, px, size.ld, b.ints(nil), size.vocab, scattered, size.width, accumulate)
					return [][]float32{b.read(out, len(old)), b.read(scattered, len(old))}
				})
				near(t, "table gradient", got[0], want, 1e-5, 1e-4)
				near(t, "scattered", got[1], want, 1e-5, 1e-4)
			})
		}
	}
	t.Run("named targets only", func(t *testing.T) {
		const width, n = 5, 300
		targets := []int32{9, 2, 4}
		index := make([]int32, n)
		x := normal(r, n*width, 1)
		want := nans(11 * width)
		for _, k := range targets {
			for j := range width {
				want[int(k)*width+j] = 0
			}
		}
		for i := range index {
			index[i] = targets[r.IntN(2)] // 4 gets no row
			for j := range width {
				want[int(index[i])*width+j] += float64(x[i*width+j])
			}
		}
		out := b.Alloc(4 * 11 * width)
		b.start(c.ScatterAdd(width, len(targets)), n, width, b.ints(index), b.floats(x), width, b.ints(targets), len(targets), out, width, 0)
		near(t, "rows", b.read(out, 11*width), want, 1e-5, 1e-5)
	})
	if _, _, ok := c.TableGrad(10, 10, 50000); ok {
		t.Error("a vocabulary of 50000 is said to fit shared memory")
	}
}
