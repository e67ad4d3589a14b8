package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// table is E·Wᵀ for the embedding E (V×H) and the first layer's input weights W (3H×H): each
// token's input projection, without the biases, which the layer adds.
func (b *builder) table(name string, embedding, w *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	rows, in, out := embedding.Shape()[0], w.Shape()[1], w.Shape()[0]
	f, err := b.ops.Table(rows, in, out)
	return b.fuse(name, f, err, tensor.Shape{rows, out}, input{embedding, matrixT, true}, input{w, matrixT, true})
}

// table is the CPU's.
type table struct {
	pool          *kernel.Pool
	rows, in, out int
	y, dx, dw     *buffer
}

func (c cpu) Table(rows, in, out int) (Op, error) {
	return &table{pool: c.pool, rows: rows, in: in, out: out, y: newBuffer(rows, out)}, nil
}

func (t *table) Forward(vals []G.Value) (G.Value, error) {
	t.pool.Gemm(false, true, t.rows, t.out, t.in, floats(vals[0]), t.in, floats(vals[1]), t.in, false, t.y.data, t.out)
	return t.y.t, nil
}

func (t *table) AllocateGrads() ([]*tensor.Dense, error) {
	t.dx, t.dw = newBuffer(t.rows, t.in), newBuffer(t.out, t.in)
	return []*tensor.Dense{t.dx.t, t.dw.t}, nil
}

func (t *table) Backward(vals []G.Value) error {
	dy := floats(vals[3])
	t.pool.Gemm(false, false, t.rows, t.in, t.out, dy, t.out, floats(vals[1]), t.in, false, t.dx.data, t.in)
	t.pool.Gemm(true, false, t.out, t.in, t.rows, dy, t.out, floats(vals[0]), t.in, false, t.dw.data, t.in)
	return nil
}

// lastState gives each completion the last state of its prompt: y[i] = states[start[i]].
// Completions of a group read the same row; their gradients are summed there.
func (b *builder) lastState(name string, states, start, promptActive, active *G.Node, rowCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	capStates, width := states.Shape()[0], states.Shape()[1]
	f, err := b.ops.LastState(capStates, width, rowCap)
	return b.fuse(name, f, err, tensor.Shape{rowCap, width}, input{states, matrixT, true},
		input{start, indexT, false}, input{promptActive, indexT, false}, input{active, indexT, false})
}

// lastState is the CPU's.
type lastState struct {
	pool             *kernel.Pool
	capStates, width int
	y, dx            *buffer
}

func (c cpu) LastState(capStates, width, rowCap int) (Op, error) {
	return &lastState{pool: c.pool, capStates: capStates, width: width, y: newBuffer(rowCap, width)}, nil
}

func (l *lastState) Forward(vals []G.Value) (G.Value, error) {
	x, n, width := floats(vals[0]), ints(vals[3])[0], l.width
	for i, at := range ints(vals[1])[:n] {
		copy(l.y.data[i*width:(i+1)*width], x[at*width:(at+1)*width])
	}
	return l.y.t, nil
}

func (l *lastState) AllocateGrads() ([]*tensor.Dense, error) {
	l.dx = newBuffer(l.capStates, l.width)
	return []*tensor.Dense{l.dx.t, nil, nil, nil}, nil
}

func (l *lastState) Backward(vals []G.Value) error {
	first, rows, _ := sizes(ints(vals[2]))
	clear(l.dx.data[:(first+rows)*l.width])
	n := ints(vals[3])[0]
	l.pool.ScatterAdd(ints(vals[1])[:n], l.width, floats(vals[5]), l.width, first+rows, l.dx.data, l.width)
	return nil
}

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
