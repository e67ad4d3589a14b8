package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// table is E·Wᵀ for the embedding E (V×H) and the first layer's input weights W
// (3H×H): what each token of the vocabulary brings to the gates, without the
// biases, which the layer adds itself.
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
