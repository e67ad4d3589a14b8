package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// linear is y = x·Wᵀ, with W (out×in) in PyTorch's layout and no bias (the GRU
// adds both of its biases itself).
//
// With active, x holds the states of a segment (rows: capacity + sequences) and
// the product leaves out block 0, the initial states, since no input stands
// there; y then has inCap rows. Without active every row of x counts.
func (b *builder) linear(name string, x, w, active *G.Node, inCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	out, in := w.Shape()[0], w.Shape()[1]
	pool := b.pool
	y := newBuffer(inCap, out)
	// extent returns the first row of x that counts and how many do.
	extent := func(vals []G.Value, at int) (first, rows int) {
		if active == nil {
			return 0, inCap
		}
		first, rows, _ = sizes(ints(vals[at]))
		return first, rows
	}
	types, inputs, wrt := []hm.Type{matrixT, matrixT}, G.Nodes{x, w}, []bool{true, true}
	if active != nil {
		types, inputs, wrt = append(types, indexT), append(inputs, active), append(wrt, false)
	}
	op := &fusedOp{
		name: name, in: types, out: matrixT, shape: y.t.Shape(), wrt: wrt,
		run: func(vals []G.Value) (G.Value, error) {
			first, rows := extent(vals, 2)
			pool.Gemm(false, true, rows, out, in, floats(vals[0])[first*in:], in, floats(vals[1]), in, false, y.data, out)
			return y.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		dx, dw := newBuffer(x.Shape()...), newBuffer(out, in)
		main, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: dx.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				first, rows := extent(vals, 2)
				dy, xs := floats(vals[len(vals)-1]), floats(vals[0])[first*in:]
				clear(dx.data[:first*in])
				pool.Gemm(false, false, rows, in, out, dy, out, floats(vals[1]), in, false, dx.data[first*in:], in)
				pool.Gemm(true, false, out, in, rows, dy, out, xs, in, false, dw.data, in)
				return dx.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		if err != nil {
			return nil, err
		}
		dwn, err := part(name+"GradW", main, matrixT, dw)
		grads := make(G.Nodes, len(ins))
		grads[0], grads[1] = main, dwn
		return grads, err
	}
	return b.apply(op, inputs...)
}
