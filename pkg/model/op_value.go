package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"

	"grpo/pkg/model/kernel"
)

// valueHead is the critic's head: for each state of the completion segment,
//
//	v = w·h + b,  dh = dv·w,  dw = Σ dv·h,  db = Σ dv
//
// with w (1×H) and b (1). The output is (1, states).
func (b *builder) valueHead(x, w, bias, active *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	h, capRows := w.Shape()[1], x.Shape()[0]
	pool, out := b.pool, newBuffer(1, capRows)
	states := func(vals []G.Value) int {
		first, rows, _ := sizes(ints(vals[3]))
		return first + rows
	}
	types := []hm.Type{matrixT, matrixT, vectorT, indexT}
	op := &fusedOp{
		name: "valueHead", in: types, out: matrixT, shape: out.t.Shape(), wrt: []bool{true, true, true, false},
		run: func(vals []G.Value) (G.Value, error) {
			n := states(vals)
			pool.Gemm(false, true, n, 1, h, floats(vals[0]), h, floats(vals[1]), h, false, out.data, 1)
			kernel.AddBias(n, 1, out.data, 1, floats(vals[2]))
			return out.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		dx, dw, db := newBuffer(capRows, h), newBuffer(1, h), newBuffer(1)
		main, err := G.ApplyOp(&fusedOp{
			name: "valueHeadGrad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: dx.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				n, dv := states(vals), floats(vals[4])
				pool.Gemm(false, false, n, h, 1, dv, 1, floats(vals[1]), h, false, dx.data, h)
				pool.Gemm(true, false, 1, h, n, dv, 1, floats(vals[0]), h, false, dw.data, h)
				kernel.ColSum(n, 1, dv, 1, false, db.data)
				return dx.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		if err != nil {
			return nil, err
		}
		dwn, err := part("valueHeadGradW", main, matrixT, dw)
		if err != nil {
			return nil, err
		}
		dbn, err := part("valueHeadGradB", main, matrixT, db)
		return G.Nodes{main, dwn, dbn, nil}, err
	}
	return b.apply(op, x, w, bias, active)
}
