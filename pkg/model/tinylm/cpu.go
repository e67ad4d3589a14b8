package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// cpu computes with pkg/model/kernel, on the slices of the weights themselves.
type cpu struct {
	fused.Host
	pool  *kernel.Pool
	batch *loaded // of the graph; nil without one
}

// loaded is what a graph's operations read of the batch besides its inputs.
type loaded struct {
	kept []*model.Kept // see [Packed]
}

// restrict applies the restrictions of the states lo to hi-1 to their logits.
func (b *loaded) restrict(lo, hi, vocab int, logits []float32) {
	if b == nil || b.kept == nil {
		return
	}
	for i, k := range b.kept[lo:hi] {
		k.Restrict(logits[i*vocab : (i+1)*vocab])
	}
}

func (c cpu) NewOps(*Weights, Capacity) (Ops, error) {
	c.batch = &loaded{}
	return c, nil
}

func (c cpu) Load(b *Packed) error {
	c.batch.kept = b.Kept
	return nil
}

func (c cpu) Place(*model.Params) error { return nil }
func (c cpu) Close()                    {}

func (c cpu) Weight(p *Weights, i int) *tensor.Dense {
	t := p.Tensors()[i]
	return fused.Dense(t.Data, t.Shape...)
}

func (c cpu) AccumulateGrads(grads []G.Value, sum *model.Params) error {
	for i, t := range sum.Tensors() {
		kernel.Axpy(1, fused.Floats(grads[i]), t.Data)
	}
	return nil
}

// A task runs all steps of a chunk of sequences. Sequences are independent, so tasks never wait,
// the states stay in the cache, and the chunk size does not change the bits.
const (
	maxChunk = 36 // of sequences: a multiple of the tiles' height
	minChunk = 12 // below this the tiles' overhead outweighs a second thread
)

// chunkSize cuts n sequences into chunks of equal size that divide evenly among the
// cuts of a pool.
func chunkSize(n, cuts int) int {
	chunks := (n + maxChunk - 1) / maxChunk
	if r := chunks % cuts; r > 0 {
		chunks += cuts - r
	}
	return min(max(minChunk, (n+chunks-1)/chunks), maxChunk)
}

// table is E·Wᵀ for the embedding E (V×H) and the first layer's input weights W (3H×H): each
// token's input projection, without the biases, which the layer adds.
func (b *builder) table(name string, embedding, w *G.Node) *G.Node {
	if b.Err != nil {
		return nil
	}
	rows, in, out := embedding.Shape()[0], w.Shape()[1], w.Shape()[0]
	f, err := b.ops.Table(rows, in, out)
	return b.Fuse(name, f, err, tensor.Shape{rows, out}, fused.Matrix(embedding), fused.Matrix(w))
}

// table is the CPU's.
type table struct {
	pool          *kernel.Pool
	rows, in, out int
	y, dx, dw     *fused.Buffer
}

func (c cpu) Table(rows, in, out int) (fused.Op, error) {
	return &table{pool: c.pool, rows: rows, in: in, out: out, y: fused.NewBuffer(rows, out)}, nil
}

func (t *table) Forward(vals []G.Value) (G.Value, error) {
	x, w := fused.Floats(vals[0]), fused.Floats(vals[1])
	t.pool.Gemm(false, true, t.rows, t.out, t.in, x, t.in, w, t.in, false, t.y.Data, t.out)
	return t.y.T, nil
}

func (t *table) AllocateGrads() ([]*tensor.Dense, error) {
	t.dx, t.dw = fused.NewBuffer(t.rows, t.in), fused.NewBuffer(t.out, t.in)
	return []*tensor.Dense{t.dx.T, t.dw.T}, nil
}

func (t *table) Backward(vals []G.Value) error {
	dy := fused.Floats(vals[3])
	t.pool.Gemm(false, false, t.rows, t.in, t.out, dy, t.out, fused.Floats(vals[1]), t.in, false, t.dx.Data, t.in)
	t.pool.Gemm(true, false, t.out, t.in, t.rows, dy, t.out, fused.Floats(vals[0]), t.in, false, t.dw.Data, t.in)
	return nil
}

// lastState gives each completion the last state of its prompt: y[i] = states[start[i]].
// Completions of a group read the same row; their gradients are summed there.
func (b *builder) lastState(name string, states, start, promptActive, active *G.Node, rowCap int) *G.Node {
	if b.Err != nil {
		return nil
	}
	capStates, width := states.Shape()[0], states.Shape()[1]
	f, err := b.ops.LastState(capStates, width, rowCap)
	return b.Fuse(name, f, err, tensor.Shape{rowCap, width}, fused.Matrix(states),
		fused.Index(start), fused.Index(promptActive), fused.Index(active))
}

// lastState is the CPU's.
type lastState struct {
	pool             *kernel.Pool
	capStates, width int
	y, dx            *fused.Buffer
}

func (c cpu) LastState(capStates, width, rowCap int) (fused.Op, error) {
	return &lastState{pool: c.pool, capStates: capStates, width: width, y: fused.NewBuffer(rowCap, width)}, nil
}

func (l *lastState) Forward(vals []G.Value) (G.Value, error) {
	x, n, width := fused.Floats(vals[0]), fused.Ints(vals[3])[0], l.width
	for i, at := range fused.Ints(vals[1])[:n] {
		copy(l.y.Data[i*width:(i+1)*width], x[at*width:(at+1)*width])
	}
	return l.y.T, nil
}

func (l *lastState) AllocateGrads() ([]*tensor.Dense, error) {
	l.dx = fused.NewBuffer(l.capStates, l.width)
	return []*tensor.Dense{l.dx.T, nil, nil, nil}, nil
}

func (l *lastState) Backward(vals []G.Value) error {
	first, rows, _ := sizes(fused.Ints(vals[2]))
	clear(l.dx.Data[:(first+rows)*l.width])
	n := fused.Ints(vals[3])[0]
	start, dy := fused.Ints(vals[1])[:n], fused.Floats(vals[5])
	l.pool.ScatterAdd(start, l.width, dy, l.width, first+rows, l.dx.Data, l.width)
	return nil
}

// valueHead is the critic's head: for each state of the completion segment,
//
//	v = w·h + b,  dh = dv·w,  dw = Σ dv·h,  db = Σ dv
//
// with w (1×H) and b (1). The output is (1, states).
func (b *builder) valueHead(x, w, bias, active *G.Node) *G.Node {
	if b.Err != nil {
		return nil
	}
	capRows, h := x.Shape()[0], w.Shape()[1]
	f, err := b.ops.ValueHead(capRows, h)
	return b.Fuse("valueHead", f, err, tensor.Shape{1, capRows},
		fused.Matrix(x), fused.Matrix(w), fused.Vector(bias), fused.Index(active))
}

// valueHead is the CPU's.
type valueHead struct {
	pool            *kernel.Pool
	capRows, hidden int
	out             *fused.Buffer
	dx, dw, db      *fused.Buffer
}

func (c cpu) ValueHead(capRows, hidden int) (fused.Op, error) {
	return &valueHead{pool: c.pool, capRows: capRows, hidden: hidden, out: fused.NewBuffer(1, capRows)}, nil
}

func (e *valueHead) states(vals []G.Value) int {
	first, rows, _ := sizes(fused.Ints(vals[3]))
	return first + rows
}

func (e *valueHead) Forward(vals []G.Value) (G.Value, error) {
	n, h := e.states(vals), e.hidden
	e.pool.Gemm(false, true, n, 1, h, fused.Floats(vals[0]), h, fused.Floats(vals[1]), h, false, e.out.Data, 1)
	kernel.AddBias(n, 1, e.out.Data, 1, fused.Floats(vals[2]))
	return e.out.T, nil
}

func (e *valueHead) AllocateGrads() ([]*tensor.Dense, error) {
	e.dx, e.dw, e.db = fused.NewBuffer(e.capRows, e.hidden), fused.NewBuffer(1, e.hidden), fused.NewBuffer(1)
	return []*tensor.Dense{e.dx.T, e.dw.T, e.db.T, nil}, nil
}

func (e *valueHead) Backward(vals []G.Value) error {
	n, h, dv := e.states(vals), e.hidden, fused.Floats(vals[5])
	e.pool.Gemm(false, false, n, h, 1, dv, 1, fused.Floats(vals[1]), h, false, e.dx.Data, h)
	e.pool.Gemm(true, false, 1, h, n, dv, 1, fused.Floats(vals[0]), h, false, e.dw.Data, h)
	kernel.ColSum(n, 1, dv, 1, false, e.db.Data)
	return nil
}
