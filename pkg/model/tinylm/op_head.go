package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// headChunk is the number of states per task of the head: their logits stay in the second-level
// cache between the matmul and the softmax.
const headChunk = 128

// head is the CPU's: see [builder.head].
type head struct {
	pool        *kernel.Pool
	batch       *loaded
	vocab       int
	hidden      int
	inv         float32 // 1/temperature
	cap         int
	out         *fused.Buffer // 2×cap
	probs       []float32     // cap×V, for the backward pass, which overwrites it with the gradient of the logits
	scratch     []float32     // threads × headChunk×V, instead of probs without a backward pass
	weights     kernel.Packed
	dx, dw, db  *fused.Buffer
	forwardFn   func(task, worker int)
	backwardFn  func(task, worker int)
	rows        int
	x, bias     []float32
	targets     []int
	dlogp, dent []float32
}

// head is linear, log-softmax, gather of the sampled token and entropy in one
// node: for each state of the completion segment, the log-probability of its
// target under softmax((W·h + b)/temperature), and the entropy in nats; both over the tokens that
// [Packed.Kept] leaves.
//
// The output is (2, states): row 0 log-probabilities, row 1 entropies.
func (b *builder) head(x, w, bias, targets, active *G.Node, temperature float64) *G.Node {
	if b.Err != nil {
		return nil
	}
	v, h, capRows := w.Shape()[0], w.Shape()[1], x.Shape()[0]
	f, err := b.ops.Head(capRows, h, v, float32(1/temperature))
	return b.Fuse("headLogProb", f, err, tensor.Shape{2, capRows}, fused.Matrix(x), fused.Matrix(w), fused.Vector(bias),
		fused.Index(targets), fused.Index(active))
}

func (c cpu) Head(capRows, hidden, vocab int, inv float32) (fused.Op, error) {
	e := &head{pool: c.pool, batch: c.batch, vocab: vocab, hidden: hidden, inv: inv, cap: capRows,
		out: fused.NewBuffer(2, capRows)}
	e.forwardFn, e.backwardFn = e.forwardChunk, e.backwardChunk
	return e, nil
}

func (e *head) AllocateGrads() ([]*tensor.Dense, error) {
	e.probs = make([]float32, e.cap*e.vocab)
	e.dx, e.dw, e.db = fused.NewBuffer(e.cap, e.hidden), fused.NewBuffer(e.vocab, e.hidden), fused.NewBuffer(e.vocab)
	return []*tensor.Dense{e.dx.T, e.dw.T, e.db.T, nil, nil}, nil
}

func (e *head) load(vals []G.Value) {
	first, rows, _ := sizes(fused.Ints(vals[4]))
	e.rows = first + rows
	e.x, e.bias, e.targets = fused.Floats(vals[0]), fused.Floats(vals[2]), fused.Ints(vals[3])
}

func (e *head) Forward(vals []G.Value) (G.Value, error) {
	e.load(vals)
	if e.probs == nil && e.scratch == nil {
		e.scratch = make([]float32, e.pool.Threads()*headChunk*e.vocab)
	}
	kernel.PackB(true, e.hidden, e.vocab, fused.Floats(vals[1]), e.hidden, &e.weights)
	e.pool.Run((e.rows+headChunk-1)/headChunk, e.forwardFn)
	return e.out.T, nil
}

func (e *head) forwardChunk(task, worker int) {
	lo := task * headChunk
	hi := min(lo+headChunk, e.rows)
	n, v, h := hi-lo, e.vocab, e.hidden
	var logits []float32
	if e.probs != nil {
		logits = e.probs[lo*v : hi*v]
	} else {
		logits = e.scratch[worker*headChunk*v:][:n*v]
	}
	kernel.GemmPacked(false, n, v, h, e.x[lo*h:], h, &e.weights, false, logits, v)
	kernel.AddBias(n, v, logits, v, e.bias)
	e.batch.restrict(lo, hi, v, logits)
	logp, ent := e.out.Data[:e.cap], e.out.Data[e.cap:]
	kernel.LogSoftmaxGather(n, v, logits, e.inv, e.targets[lo:hi], logp[lo:hi], ent[lo:hi], logits)
}

func (e *head) Backward(vals []G.Value) error {
	e.load(vals)
	grad := fused.Floats(vals[6])
	e.dlogp, e.dent = grad[:e.cap], grad[e.cap:]
	kernel.PackB(false, e.vocab, e.hidden, fused.Floats(vals[1]), e.hidden, &e.weights)
	e.pool.Run((e.rows+headChunk-1)/headChunk, e.backwardFn)
	e.pool.Gemm(true, false, e.vocab, e.hidden, e.rows, e.probs, e.vocab, e.x, e.hidden, false, e.dw.Data, e.hidden)
	e.pool.ColSum(e.rows, e.vocab, e.probs, e.vocab, false, e.db.Data)
	return nil
}

func (e *head) backwardChunk(task, _ int) {
	lo := task * headChunk
	hi := min(lo+headChunk, e.rows)
	n, v, h := hi-lo, e.vocab, e.hidden
	p := e.probs[lo*v : hi*v]
	logp, ent := e.out.Data[:e.cap], e.out.Data[e.cap:]
	kernel.LogSoftmaxBackward(n, v, p, logp[lo:hi], ent[lo:hi], e.targets[lo:hi], e.dlogp[lo:hi],
		e.dent[lo:hi], e.inv, p)
	kernel.GemmPacked(false, n, h, v, p, v, &e.weights, false, e.dx.Data[lo*h:], h)
}
