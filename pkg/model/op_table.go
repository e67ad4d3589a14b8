package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// table is E·Wᵀ for the embedding E (V×H) and the first layer's input weights W
// (3H×H): what each token of the vocabulary brings to the gates, without the
// biases, which the layer adds itself.
func (b *builder) table(name string, embedding, w *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	rows, in, out := embedding.Shape()[0], w.Shape()[1], w.Shape()[0]
	pool := b.pool
	y := newBuffer(rows, out)
	types := []hm.Type{matrixT, matrixT}
	op := &fusedOp{
		name: name, in: types, out: matrixT, shape: y.t.Shape(), wrt: []bool{true, true},
		run: func(vals []G.Value) (G.Value, error) {
			pool.Gemm(false, true, rows, out, in, floats(vals[0]), in, floats(vals[1]), in, false, y.data, out)
			return y.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		dx, dw := newBuffer(rows, in), newBuffer(out, in)
		main, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: dx.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				dy := floats(vals[2])
				pool.Gemm(false, false, rows, in, out, dy, out, floats(vals[1]), in, false, dx.data, in)
				pool.Gemm(true, false, out, in, rows, dy, out, floats(vals[0]), in, false, dw.data, in)
				return dx.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		if err != nil {
			return nil, err
		}
		dwn, err := part(name+"GradW", main, matrixT, dw)
		return G.Nodes{main, dwn}, err
	}
	return b.apply(op, embedding, w)
}
