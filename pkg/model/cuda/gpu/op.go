//go:build withcuda && linux

package gpu

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/fused"
)

// op has the common parts of operations: the graph's ops, the output and the gradients of the
// inputs. [tinylm.Ops] documents what each operation computes, and the order of vals.
type op struct {
	ops   *ops
	out   *tensor.Dense
	grads []*tensor.Dense
}

func (o *op) do(f func(g *device)) error { return o.ops.g.do(func() { f(o.ops.g) }) }

// result is the return value of Forward.
func (o *op) result(err error) (G.Value, error) { return o.out, err }

// allocate allocates the gradients, of these shapes; a nil shape has none.
func (o *op) allocate(shapes ...tensor.Shape) ([]*tensor.Dense, error) {
	o.grads = make([]*tensor.Dense, len(shapes))
	for i, s := range shapes {
		if s != nil {
			o.grads[i] = o.ops.tensor(s...)
		}
	}
	return o.grads, o.ops.g.dev.Err()
}

func (o *op) grad(i int) cuda.Pointer { return at(o.grads[i]) }

// table implements [tinylm.Ops.Table].
type table struct {
	op
	rows, in, width int
}

func (n *ops) Table(rows, in, width int) (fused.Op, error) {
	return &table{op{ops: n, out: n.tensor(rows, width)}, rows, in, width}, n.g.dev.Err()
}

func (t *table) Forward(vals []G.Value) (G.Value, error) {
	return t.result(t.do(func(g *device) {
		g.gemm(false, true, t.rows, t.width, t.in, at(vals[0]), t.in, at(vals[1]), t.in, false, at(t.out), t.width)
	}))
}

func (t *table) AllocateGrads() ([]*tensor.Dense, error) {
	return t.allocate(tensor.Shape{t.rows, t.in}, tensor.Shape{t.width, t.in})
}

func (t *table) Backward(vals []G.Value) error {
	return t.do(func(g *device) {
		dy := at(vals[3])
		g.gemm(false, false, t.rows, t.in, t.width, dy, t.width, at(vals[1]), t.in, false, t.grad(0), t.in)
		g.gemm(true, false, t.width, t.in, t.rows, dy, t.width, at(vals[0]), t.in, false, t.grad(1), t.in)
	})
}

// lastState implements [tinylm.Ops.LastState].
type lastState struct {
	op
	capStates, width int
}

func (n *ops) LastState(capStates, width, rowCap int) (fused.Op, error) {
	return &lastState{op{ops: n, out: n.tensor(rowCap, width)}, capStates, width}, n.g.dev.Err()
}

func (l *lastState) Forward(vals []G.Value) (G.Value, error) {
	return l.result(l.do(func(g *device) {
		rows := l.ops.rows.n0
		g.gather(rows, l.width, l.ops.start, at(vals[0]), at(l.out))
	}))
}

func (l *lastState) AllocateGrads() ([]*tensor.Dense, error) {
	return l.allocate(tensor.Shape{l.capStates, l.width}, nil, nil, nil)
}

func (l *lastState) Backward(vals []G.Value) error {
	return l.do(func(g *device) {
		p, rows := &l.ops.prompt, l.ops.rows.n0
		g.zero(l.grad(0), (p.n0+p.inputs)*l.width)
		g.launch(g.card.ScatterAdd(l.width, p.n0), cuda.I(rows), cuda.I(l.width), cuda.P(l.ops.start),
			cuda.P(at(vals[5])), cuda.I(l.width), cuda.P(l.ops.last), cuda.I(p.n0), cuda.P(l.grad(0)), cuda.I(l.width),
			cuda.I(0))
	})
}

// head implements [tinylm.Ops.Head]. The matmul writes the logits; the backward
// pass replaces them by their gradient.
type head struct {
	op
	capRows, hidden, vocab int
	inv                    float32
	logits                 cuda.Pointer // (capRows, vocab)
	stats                  cuda.Pointer // 2 numbers for each state, for the backward pass
}

func (n *ops) Head(capRows, hidden, vocab int, inv float32) (fused.Op, error) {
	o := op{ops: n, out: n.tensor(2, capRows)}
	return &head{o, capRows, hidden, vocab, inv, n.alloc(capRows*vocab, "logits"), 0}, n.g.dev.Err()
}

func (e *head) Forward(vals []G.Value) (G.Value, error) {
	return e.result(e.do(func(g *device) {
		n, v, h, out := e.ops.used(), e.vocab, e.hidden, at(e.out)
		g.gemm(false, true, n, v, h, at(vals[0]), h, at(vals[1]), h, false, e.logits, v)
		g.launch(g.card.Rows(kernels.HeadForward, n), cuda.I(n), cuda.I(v), cuda.P(e.logits), cuda.P(at(vals[2])),
			cuda.F(e.inv), cuda.P(e.ops.targets), cuda.P(out), cuda.P(out.Add(e.capRows)), cuda.P(e.stats))
	}))
}

func (e *head) AllocateGrads() ([]*tensor.Dense, error) {
	e.stats = e.ops.alloc(2*e.capRows, "the head's softmax statistics")
	return e.allocate(tensor.Shape{e.capRows, e.hidden}, tensor.Shape{e.vocab, e.hidden}, tensor.Shape{e.vocab},
		nil, nil)
}

func (e *head) Backward(vals []G.Value) error {
	return e.do(func(g *device) {
		n, v, h := e.ops.used(), e.vocab, e.hidden
		x, w, bias, entropy, d := at(vals[0]), at(vals[1]), at(vals[2]), at(e.out).Add(e.capRows), at(vals[6])
		g.launch(g.card.Rows(kernels.HeadBackward, n), cuda.I(n), cuda.I(v), cuda.P(e.logits), cuda.P(bias),
			cuda.F(e.inv), cuda.P(e.ops.targets), cuda.P(e.stats), cuda.P(entropy), cuda.P(d), cuda.P(d.Add(e.capRows)))
		g.gemm(false, false, n, h, v, e.logits, v, w, h, false, e.grad(0), h)
		g.gemm(true, false, v, h, n, e.logits, v, x, h, false, e.grad(1), h)
		g.colSum(n, v, e.logits, 0, false, e.grad(2))
	})
}

// valueHead implements [tinylm.Ops.ValueHead].
type valueHead struct {
	op
	capRows, hidden int
}

func (n *ops) ValueHead(capRows, hidden int) (fused.Op, error) {
	return &valueHead{op{ops: n, out: n.tensor(1, capRows)}, capRows, hidden}, n.g.dev.Err()
}

func (e *valueHead) Forward(vals []G.Value) (G.Value, error) {
	return e.result(e.do(func(g *device) {
		n := e.ops.used()
		g.launch(g.card.Rows(kernels.ValueForward, n), cuda.I(n), cuda.I(e.hidden), cuda.P(at(vals[0])),
			cuda.P(at(vals[1])), cuda.P(at(vals[2])), cuda.P(at(e.out)))
	}))
}

func (e *valueHead) AllocateGrads() ([]*tensor.Dense, error) {
	return e.allocate(tensor.Shape{e.capRows, e.hidden}, tensor.Shape{1, e.hidden}, tensor.Shape{1}, nil)
}

func (e *valueHead) Backward(vals []G.Value) error {
	return e.do(func(g *device) {
		n, dv := e.ops.used(), at(vals[5])
		g.launch(g.card.Rows(kernels.ValueBackward, n), cuda.I(n), cuda.I(e.hidden), cuda.P(dv),
			cuda.P(at(vals[1])), cuda.P(e.grad(0)))
		g.colSum(n, e.hidden, at(vals[0]), dv, false, e.grad(1))
		g.colSum(n, 1, dv, 0, false, e.grad(2))
	})
}
