package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// lastState hands each completion the last state of its prompt: y[i] =
// states[start[i]]. Completions of a group read the same row; their gradients
// add up there.
func (b *builder) lastState(name string, states, start, promptActive, active *G.Node, rowCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	width := states.Shape()[1]
	y := newBuffer(rowCap, width)
	types := []hm.Type{matrixT, indexT, indexT, indexT}
	op := &fusedOp{
		name: name, in: types, out: matrixT, shape: y.t.Shape(), wrt: []bool{true, false, false, false},
		run: func(vals []G.Value) (G.Value, error) {
			x, n := floats(vals[0]), ints(vals[3])[0]
			for i, at := range ints(vals[1])[:n] {
				copy(y.data[i*width:(i+1)*width], x[at*width:(at+1)*width])
			}
			return y.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		d := newBuffer(states.Shape()...)
		dx, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: d.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				first, rows, _ := sizes(ints(vals[2]))
				clear(d.data[:(first+rows)*width])
				n := ints(vals[3])[0]
				b.pool.ScatterAdd(ints(vals[1])[:n], width, floats(vals[4]), width, first+rows, d.data, width)
				return d.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		return G.Nodes{dx, nil, nil, nil}, err
	}
	return b.apply(op, states, start, promptActive, active)
}
