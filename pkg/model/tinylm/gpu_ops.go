//go:build withcuda && linux

package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// gpuOp is what the operations on a GPU share: their net, their output and the
// gradients of their inputs. What each computes is said where the CPU's version
// stands.
type gpuOp struct {
	net   *gpuNet
	out   *tensor.Dense
	grads []*tensor.Dense
}

func (o *gpuOp) do(f func(g *gpu) error) error {
	return o.net.g.dev.Do(func() error { return f(o.net.g) })
}

// result is what forward returns.
func (o *gpuOp) result(err error) (G.Value, error) { return o.out, err }

// allocate makes room for the gradients.
func (o *gpuOp) allocate(shapes ...tensor.Shape) ([]*tensor.Dense, error) {
	var err error
	o.grads, err = o.net.tensors(shapes...)
	return o.grads, err
}

func (o *gpuOp) grad(i int) cuda.Pointer { return at(o.grads[i]) }

// gpuTable is [table] on a GPU.
type gpuTable struct {
	gpuOp
	rows, in, width int
}

func (n *gpuNet) table(rows, in, width int) (fused, error) {
	out, err := n.tensor(rows, width)
	return &gpuTable{gpuOp{net: n, out: out}, rows, in, width}, err
}

func (t *gpuTable) forward(vals []G.Value) (G.Value, error) {
	return t.result(t.do(func(g *gpu) error {
		return g.dev.Gemm(false, true, t.rows, t.width, t.in, at(vals[0]), t.in, at(vals[1]), t.in, false, at(t.out), t.width)
	}))
}

func (t *gpuTable) differentiate() ([]*tensor.Dense, error) {
	return t.allocate(tensor.Shape{t.rows, t.in}, tensor.Shape{t.width, t.in})
}

func (t *gpuTable) backward(vals []G.Value) error {
	return t.do(func(g *gpu) error {
		dy := at(vals[3])
		if err := g.dev.Gemm(false, false, t.rows, t.in, t.width, dy, t.width, at(vals[1]), t.in, false, t.grad(0), t.in); err != nil {
			return err
		}
		return g.dev.Gemm(true, false, t.width, t.in, t.rows, dy, t.width, at(vals[0]), t.in, false, t.grad(1), t.in)
	})
}

// gpuLast is [lastState] on a GPU.
type gpuLast struct {
	gpuOp
	capStates, width int
}

func (n *gpuNet) lastState(capStates, width, rowCap int) (fused, error) {
	out, err := n.tensor(rowCap, width)
	return &gpuLast{gpuOp{net: n, out: out}, capStates, width}, err
}

func (l *gpuLast) forward(vals []G.Value) (G.Value, error) {
	return l.result(l.do(func(g *gpu) error {
		rows := l.net.rows.n0
		return g.launch(g.card.Gather(rows, l.width), cuda.I(rows), cuda.I(l.width), cuda.P(l.net.start), cuda.P(at(vals[0])), cuda.P(at(l.out)))
	}))
}

func (l *gpuLast) differentiate() ([]*tensor.Dense, error) {
	return l.allocate(tensor.Shape{l.capStates, l.width}, nil, nil, nil)
}

func (l *gpuLast) backward(vals []G.Value) error {
	return l.do(func(g *gpu) error {
		p, rows := &l.net.prompt, l.net.rows.n0
		if err := g.dev.Zero(l.grad(0), (p.n0+p.inputs)*l.width); err != nil {
			return err
		}
		return g.launch(g.card.ScatterAdd(l.width, p.n0), cuda.I(rows), cuda.I(l.width), cuda.P(l.net.start), cuda.P(at(vals[5])), cuda.I(l.width),
			cuda.P(l.net.last), cuda.I(p.n0), cuda.P(l.grad(0)), cuda.I(l.width), cuda.I(0))
	})
}

// gpuHead is [head] on a GPU. The logits are written once, by the product, and
// turned into their gradient where they stand.
type gpuHead struct {
	gpuOp
	capRows, hidden, vocab int
	inv                    float32
	logits, stats          cuda.Pointer
}

func (n *gpuNet) head(capRows, hidden, vocab int, inv float32) (fused, error) {
	out, err := n.tensor(2, capRows)
	if err != nil {
		return nil, err
	}
	logits, err := n.take(capRows*vocab, "logits")
	return &gpuHead{gpuOp{net: n, out: out}, capRows, hidden, vocab, inv, logits.At(0), 0}, err
}

func (e *gpuHead) states() int { return e.net.rows.n0 + e.net.rows.inputs }

func (e *gpuHead) forward(vals []G.Value) (G.Value, error) {
	return e.result(e.do(func(g *gpu) error {
		n, v, h, out := e.states(), e.vocab, e.hidden, at(e.out)
		if err := g.dev.Gemm(false, true, n, v, h, at(vals[0]), h, at(vals[1]), h, false, e.logits, v); err != nil {
			return err
		}
		return g.launch(g.card.Rows(kernels.HeadForward, n), cuda.I(n), cuda.I(v), cuda.P(e.logits), cuda.P(at(vals[2])), cuda.F(e.inv),
			cuda.P(e.net.targets), cuda.P(out), cuda.P(out.Add(e.capRows)), cuda.P(e.stats))
	}))
}

func (e *gpuHead) differentiate() ([]*tensor.Dense, error) {
	stats, err := e.net.take(2*e.capRows, "the head's sums")
	if err != nil {
		return nil, err
	}
	e.stats = stats.At(0)
	return e.allocate(tensor.Shape{e.capRows, e.hidden}, tensor.Shape{e.vocab, e.hidden}, tensor.Shape{e.vocab}, nil, nil)
}

func (e *gpuHead) backward(vals []G.Value) error {
	return e.do(func(g *gpu) error {
		n, v, h := e.states(), e.vocab, e.hidden
		x, w, bias, entropy, d := at(vals[0]), at(vals[1]), at(vals[2]), at(e.out).Add(e.capRows), at(vals[6])
		if err := g.launch(g.card.Rows(kernels.HeadBackward, n), cuda.I(n), cuda.I(v), cuda.P(e.logits), cuda.P(bias), cuda.F(e.inv),
			cuda.P(e.net.targets), cuda.P(e.stats), cuda.P(entropy), cuda.P(d), cuda.P(d.Add(e.capRows))); err != nil {
			return err
		}
		if err := g.dev.Gemm(false, false, n, h, v, e.logits, v, w, h, false, e.grad(0), h); err != nil {
			return err
		}
		if err := g.dev.Gemm(true, false, v, h, n, e.logits, v, x, h, false, e.grad(1), h); err != nil {
			return err
		}
		return g.colSum(n, v, e.logits, v, 0, e.grad(2))
	})
}

// gpuValue is [valueHead] on a GPU.
type gpuValue struct {
	gpuOp
	capRows, hidden int
}

func (n *gpuNet) valueHead(capRows, hidden int) (fused, error) {
	out, err := n.tensor(1, capRows)
	return &gpuValue{gpuOp{net: n, out: out}, capRows, hidden}, err
}

func (e *gpuValue) states() int { return e.net.rows.n0 + e.net.rows.inputs }

func (e *gpuValue) forward(vals []G.Value) (G.Value, error) {
	return e.result(e.do(func(g *gpu) error {
		n := e.states()
		return g.launch(g.card.Rows(kernels.ValueForward, n), cuda.I(n), cuda.I(e.hidden), cuda.P(at(vals[0])), cuda.P(at(vals[1])), cuda.P(at(vals[2])), cuda.P(at(e.out)))
	}))
}

func (e *gpuValue) differentiate() ([]*tensor.Dense, error) {
	return e.allocate(tensor.Shape{e.capRows, e.hidden}, tensor.Shape{1, e.hidden}, tensor.Shape{1}, nil)
}

func (e *gpuValue) backward(vals []G.Value) error {
	return e.do(func(g *gpu) error {
		n, dv := e.states(), at(vals[5])
		if err := g.launch(g.card.Rows(kernels.ValueBackward, n), cuda.I(n), cuda.I(e.hidden), cuda.P(dv), cuda.P(at(vals[1])), cuda.P(e.grad(0))); err != nil {
			return err
		}
		if err := g.colSum(n, e.hidden, at(vals[0]), e.hidden, dv, e.grad(1)); err != nil {
			return err
		}
		return g.colSum(n, 1, dv, 1, 0, e.grad(2))
	})
}
