//go:build withcuda && linux

package kernels

import (
	"fmt"
	"testing"
)

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
