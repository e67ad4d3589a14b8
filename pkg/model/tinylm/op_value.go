package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

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
	capRows, h := x.Shape()[0], w.Shape()[1]
	f, err := b.ops.ValueHead(capRows, h)
	return b.fuse("valueHead", f, err, tensor.Shape{1, capRows},
		input{x, matrixT, true}, input{w, matrixT, true}, input{bias, vectorT, true}, input{active, indexT, false})
}

// valueHead is the CPU's.
type valueHead struct {
	pool            *kernel.Pool
	capRows, hidden int
	out             *buffer
	dx, dw, db      *buffer
}

func (c cpu) ValueHead(capRows, hidden int) (Op, error) {
	return &valueHead{pool: c.pool, capRows: capRows, hidden: hidden, out: newBuffer(1, capRows)}, nil
}

func (e *valueHead) states(vals []G.Value) int {
	first, rows, _ := sizes(ints(vals[3]))
	return first + rows
}

func (e *valueHead) Forward(vals []G.Value) (G.Value, error) {
	n, h := e.states(vals), e.hidden
	e.pool.Gemm(false, true, n, 1, h, floats(vals[0]), h, floats(vals[1]), h, false, e.out.data, 1)
	kernel.AddBias(n, 1, e.out.data, 1, floats(vals[2]))
	return e.out.t, nil
}

func (e *valueHead) AllocateGrads() ([]*tensor.Dense, error) {
	e.dx, e.dw, e.db = newBuffer(e.capRows, e.hidden), newBuffer(1, e.hidden), newBuffer(1)
	return []*tensor.Dense{e.dx.t, e.dw.t, e.db.t, nil}, nil
}

func (e *valueHead) Backward(vals []G.Value) error {
	n, h, dv := e.states(vals), e.hidden, floats(vals[5])
	e.pool.Gemm(false, false, n, h, 1, dv, 1, floats(vals[1]), h, false, e.dx.data, h)
	e.pool.Gemm(true, false, 1, h, n, dv, 1, floats(vals[0]), h, false, e.dw.data, h)
	kernel.ColSum(n, 1, dv, 1, false, e.db.data)
	return nil
}
