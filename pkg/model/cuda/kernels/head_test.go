//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model/kernel"
)

// logitCase are rows of logits, hard ones among them.
func logitCase(kind string, rows, vocab int) []float32 {
	r := random(uint64(rows*1000 + vocab))
	x := normal(r, rows*vocab, 2)
	switch kind {
	case "large":
		for i := range x {
			x[i] *= 200
		}
	case "with -Inf":
		for i := range x {
			if i%vocab > 0 && r.IntN(3) == 0 { // the target stays finite
				x[i] = float32(math.Inf(-1))
			}
		}
	case "rising": // every element is a new maximum
		for i := range x {
			x[i] = float32(i%vocab) * 0.3
		}
	}
	return x
}

func TestHead(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	for _, size := range []struct {
		rows, vocab int
		bias        bool
	}{{1, 1, true}, {3, 7, false}, {9, 100, true}, {17, 256, true}, {5, 257, false}, {4, 1000, true}, {2, 2048, true}, {3, 2051, false}, {1, 20000, false}} {
		for _, kind := range []string{"normal", "large", "with -Inf", "rising"} {
			for _, temperature := range []float64{1, 0.7} {
				t.Run(fmt.Sprintf("%+v %s at %v", size, kind, temperature), func(t *testing.T) {
					rows, vocab := size.rows, size.vocab
					r := random(7)
					logits, bias := logitCase(kind, rows, vocab), make([]float32, vocab)
					if size.bias {
						bias = normal(r, vocab, 1)
					}
					targets := randomInts(r, rows, vocab)
					if kind == "with -Inf" {
						clear(targets)
					}
					inv := float32(1 / temperature)
					x := to64(logits)
					for i := range x {
						x[i] = float64(float32(x[i]) + bias[i%vocab])
					}
					logp, ent, probs := make([]float64, rows), make([]float64, rows), make([]float64, rows*vocab)
					kernel.ReferenceLogSoftmaxGather(rows, vocab, x, float64(inv), toInts(targets), logp, ent, probs)
					dlogp, dent := normal(r, rows, 1), normal(r, rows, 1)
					for _, withEntropy := range []bool{true, false} {
						d := make([]float64, rows*vocab)
						dentOr := to64(dent)
						if !withEntropy {
							dentOr = nil
						}
						kernel.ReferenceLogSoftmaxBackward(rows, vocab, probs, ent, toInts(targets), to64(dlogp), dentOr, float64(inv), d)
						got := b.everyOrder(func() [][]float32 {
							px, pt := b.floats(logits), b.ints(targets)
							var pb cudaemu.Ptr
							if size.bias {
								pb = b.floats(bias)
							}
							pl, pe, stats := b.Alloc(4*rows), b.Alloc(4*rows), b.Alloc(8*rows)
							b.start(c.Head(HeadForward, rows, vocab), rows, vocab, px, pb, inv, pt, pl, pe, stats)
							var pd cudaemu.Ptr
							if withEntropy {
								pd = b.floats(dent)
							}
							b.start(c.Head(HeadBackward, rows, vocab), rows, vocab, px, pb, inv, pt, stats, pe, b.floats(dlogp), pd)
							return [][]float32{b.read(pl, rows), b.read(pe, rows), b.read(px, rows*vocab)}
						})
						near(t, "log-probability", got[0], logp, 1e-5, 1e-5)
						near(t, "entropy", got[1], ent, 1e-5, 1e-5)
						near(t, "gradient of the logits", got[2], d, 1e-4, 2e-5)
					}
				})
			}
		}
	}
}

// A NaN or +Inf makes its row NaN, and no other.
func TestHeadKeepsNaNToItsRow(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	for _, vocab := range []int{5, 100, 700, 5000} {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			for _, place := range []int{0, vocab - 1} {
				const rows = 3
				logits := normal(random(8), rows*vocab, 1)
				logits[vocab+place] = float32(bad)
				pl, pe := b.Alloc(4*rows), b.Alloc(4*rows)
				b.start(c.Head(HeadForward, rows, vocab), rows, vocab, b.floats(logits), b.floats(make([]float32, vocab)), float32(1), b.ints(make([]int32, rows)), pl, pe, cudaemu.Ptr(0))
				for i, v := range append(b.read(pl, rows), b.read(pe, rows)...) {
					if isNaN := v != v; isNaN != (i%rows == 1) {
						t.Errorf("vocab %d, %v at %d: result %d is %v", vocab, bad, place, i, v)
					}
				}
			}
		}
	}
}

func TestValueHead(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	r := random(9)
	for _, size := range []struct{ rows, h int }{{1, 1}, {9, 33}, {20, 64}} {
		t.Run(fmt.Sprintf("%+v", size), func(t *testing.T) {
			x, w, bias, dv := normal(r, size.rows*size.h, 1), normal(r, size.h, 1), normal(r, 1, 1), normal(r, size.rows, 1)
			v, dx := make([]float64, size.rows), make([]float64, size.rows*size.h)
			for i := range v {
				v[i] = float64(bias[0])
				for k := range size.h {
					v[i] += float64(x[i*size.h+k]) * float64(w[k])
					dx[i*size.h+k] = float64(dv[i]) * float64(w[k])
				}
			}
			px, pw, pv, pdx := b.floats(x), b.floats(w), b.Alloc(4*size.rows), b.Alloc(4*len(dx))
			b.start(c.Rows(ValueForward, size.rows), size.rows, size.h, px, pw, b.floats(bias), pv)
			b.start(c.Rows(ValueBackward, size.rows), size.rows, size.h, b.floats(dv), pw, pdx)
			near(t, "values", b.read(pv, size.rows), v, 1e-5, 1e-5)
			near(t, "dx", b.read(pdx, len(dx)), dx, 1e-6, 0)
		})
	}
}
