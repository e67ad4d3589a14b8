package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// loss ends a network in a scalar. evaluate reads the values of x, returns the
// cost and writes its gradient with respect to x into d, which is kept for the
// way back. Places of x that no token uses keep whatever d held there; no op
// reads them.
func (b *builder) loss(name string, x *G.Node, evaluate func(x, d []float32) (float64, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	d := newBuffer(x.Shape()...)
	value := G.NewF32(0)
	op := &fusedOp{
		name: name, in: []hm.Type{matrixT}, out: scalarT, wrt: []bool{true},
		run: func(vals []G.Value) (G.Value, error) {
			loss, err := evaluate(floats(vals[0]), d.data)
			if err != nil {
				return nil, err
			}
			*value = G.F32(float32(loss))
			return value, nil
		},
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		n, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: []hm.Type{matrixT, scalarT, scalarT}, out: matrixT, shape: d.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				// The graph's cost is the loss itself, so the gradient that
				// comes in is 1; a graph that scales its cost would bring another.
				if s := vals[2].Data().(float32); s != 1 {
					for i := range d.data {
						d.data[i] *= s
					}
				}
				return d.t, nil
			},
		}, ins[0], output, grad)
		return G.Nodes{n}, err
	}
	return b.apply(op, x)
}
