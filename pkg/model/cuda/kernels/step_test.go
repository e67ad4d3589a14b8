//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model/kernel"
)

// One step forward and back, against the references of pkg/model/kernel.
func TestGatesOfAStep(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	r := rand.New(rand.NewPCG(6, 6))
	const vocab = 6
	for _, size := range []struct{ n, h int }{{1, 1}, {3, 33}, {70, 5}, {4, 300}} {
		for _, table := range []bool{false, true} {
			for _, keep := range []bool{false, true} {
				t.Run(fmt.Sprintf("%+v table %v keep %v", size, table, keep), func(t *testing.T) {
					n, h := size.n, size.h
					rows := n
					var ids []int32
					if table {
						rows, ids = vocab, randomInts(r, n, vocab)
					}
					gi, gh, bih, bhh, old := normal(r, rows*3*h, 1), normal(r, n*3*h, 1), normal(r, 3*h, 1), normal(r, 3*h, 1), normal(r, n*h, 1)
					x := to64(gi)
					if table {
						x = nil
						for _, id := range ids {
							x = append(x, to64(gi[int(id)*3*h:(int(id)+1)*3*h])...)
						}
					}
					want, save := make([]float64, n*h), make([]float64, n*4*h)
					kernel.ReferenceGRUForward(n, h, x, to64(gh), to64(bih), to64(bhh), to64(old), want, save)
					out, pOld := b.Alloc(4*n*h), b.floats(old)
					var pSave, pBefore cudaemu.Ptr
					if keep {
						pSave, pBefore = b.Alloc(4*n*4*h), b.Alloc(4*n*h)
					}
					b.start(c.Gates(GRUGatesForward, n, h), n, h, b.floats(gi), b.ints(ids), b.floats(gh), b.floats(bih), b.floats(bhh), pOld, out, pSave, pBefore)
					near(t, "new state", b.read(out, n*h), want, 1e-5, 1e-6)
					if !keep {
						return
					}
					near(t, "save", b.read(pSave, n*4*h), save, 1e-5, 1e-6)
					near(t, "before", b.read(pBefore, n*h), to64(old), 0, 0)

					carry, dout := normal(r, n*h, 1), normal(r, n*h, 1)
					sum := make([]float64, n*h)
					for i := range sum {
						sum[i] = float64(carry[i]) + float64(dout[i])
					}
					dgi, dgh, dh := make([]float64, n*3*h), make([]float64, n*3*h), make([]float64, n*h)
					kernel.ReferenceGRUBackward(n, h, sum, to64(old), save, dgi, dgh, dh)
					pCarry, pDgh := b.floats(carry), b.Alloc(4*n*3*h)
					b.start(c.Gates(GRUGatesBackward, n, h), n, h, pCarry, b.floats(dout), pBefore, pSave, pDgh)
					near(t, "carry", b.read(pCarry, n*h), dh, 1e-4, 1e-6)
					near(t, "dgh", b.read(pDgh, n*3*h), dgh, 1e-4, 1e-6)
					gates := make([]float64, n*4*h)
					for i := range n {
						copy(gates[i*4*h:], dgi[i*3*h:(i+1)*3*h])
						copy(gates[i*4*h+3*h:], dgh[i*3*h+2*h:(i+1)*3*h])
					}
					near(t, "gates", b.read(pSave, n*4*h), gates, 1e-4, 1e-6)
				})
			}
		}
	}
}
