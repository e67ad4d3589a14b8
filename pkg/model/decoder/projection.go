package decoder

import (
	"sync"

	"grpo/pkg/model/kernel"
)

// Projection is a weight matrix of a network, with LoRA adapters if it has any.
type Projection struct {
	In, Out int
	W       []float32      // (out, in); nil if packed holds frozen weights
	packed  *kernel.Packed // of frozen weights only
	bf16    bool           // its matmuls round their operands to bf16
	Adapters
}

// gemm is the matmul of the projection's precision.
func (m Projection) gemm(p *kernel.Pool) func(transA, transB bool, m, n, k int, a []float32, lda int,
	b []float32, ldb int, accumulate bool, c []float32, ldc int) {
	if m.bf16 {
		return p.GemmBF16
	}
	return p.Gemm
}

// forward is y = x·Wᵀ, or adds it to y: x is (rows, in), y (rows, out).
func (m Projection) forward(p *kernel.Pool, rows int, x []float32, accumulate bool, y []float32) {
	if m.packed != nil && m.Adapters.packed != nil {
		m.forwardPacked(p, rows, x, accumulate, y)
		return
	}
	if m.packed != nil {
		p.GemmPacked(false, rows, m.Out, m.In, x, m.In, m.packed, accumulate, y, m.Out)
	} else {
		m.gemm(p)(false, true, rows, m.Out, m.In, x, m.In, m.W, m.In, accumulate, y, m.Out)
	}
	m.Adapters.forward(p, rows, x, y, m.In, m.Out)
}

// forwardPacked is forward with packed adapters, which are added while y is in the cache.
func (m Projection) forwardPacked(p *kernel.Pool, rows int, x []float32, accumulate bool, y []float32) {
	l, n := m.Adapters, m.Ranks()
	h, more := borrow(rows*n), make([]kernel.Product, len(l.Targets))
	defer h.giveBack()
	p.GemmPacked(false, rows, n, m.In, x, m.In, &l.packed[0], false, h.x, n)
	scale(l.Scale, h.x)
	for i, t := range l.Targets {
		more[i] = kernel.Product{From: t.From, A: h.x[i*l.Rank:], Lda: n, B: &l.packed[1+i]}
	}
	p.GemmPackedPlus(false, rows, m.Out, m.In, x, m.In, m.packed, accumulate, y, m.Out, more)
}

// backward adds the gradient of the parameters to g and writes that of x to dx, from dy,
// the gradient of y. Frozen weights get no gradient.
func (m Projection) backward(p *kernel.Pool, rows int, x, dy, dx []float32, g Projection) {
	if g.W != nil {
		m.gemm(p)(true, false, m.Out, m.In, rows, dy, m.Out, x, m.In, true, g.W, m.In)
	}
	if m.W != nil {
		m.gemm(p)(false, false, rows, m.In, m.Out, dy, m.Out, m.W, m.In, false, dx, m.In)
	} else {
		m.backwardPacked(p, rows, dy, dx)
	}
	m.Adapters.backward(p, rows, x, dy, dx, m.In, m.Out, g.Adapters)
}

// backwardPacked writes the gradient of x to dx from parts of the packed weights, with the bits of a
// whole matmul.
func (m Projection) backwardPacked(p *kernel.Pool, rows int, dy, dx []float32) {
	most := m.unpackedRows()
	s := borrow(most * m.In)
	defer s.giveBack()
	for from := 0; from < m.Out; from += most {
		n := min(most, m.Out-from)
		const part = 64 // columns of a task
		p.Run((n+part-1)/part, func(task, _ int) {
			lo, hi := task*part, min(n, (task+1)*part)
			m.packed.Transposed(from+lo, from+hi, s.x[lo*m.In:hi*m.In])
		})
		m.gemm(p)(false, false, rows, m.In, n, dy[from:], m.Out, s.x, m.In, from > 0, dx, m.In)
	}
}

// unpackedNumbers bounds the weights that are unpacked at a time. Tests lower it.
var unpackedNumbers = 1 << 24

// unpackedRows is how many rows of packed weights are unpacked at a time: whole parts of a matmul's sum.
func (m Projection) unpackedRows() int {
	return min(m.Out, max(1, unpackedNumbers/m.In/kernel.SumPart)*kernel.SumPart)
}

// row writes a row of the weights to x, (in).
func (m Projection) row(i int, x []float32) {
	if m.W != nil {
		copy(x, m.W[i*m.In:(i+1)*m.In])
		return
	}
	m.packed.Transposed(i, i+1, x)
}

// packInto packs weights, (out, in), in the precision of the projection.
func (m Projection) packInto(w []float32, to *kernel.Packed) {
	pack := kernel.PackB
	if m.bf16 {
		pack = kernel.PackBF16
	}
	pack(true, m.In, m.Out, w, m.In, to)
}

// Adapters are the LoRA adapters of a projection: to rows of its output, such as the
// queries of the queries, keys and values, each adds scale·B·A·x (Hu et al., 2021,
// "LoRA: low-rank adaptation of large language models").
type Adapters struct {
	Rank    int
	Scale   float32
	A       []float32 // (targets · rank, in), the A of each target below that of the one before
	Targets []Adapter

	packed []kernel.Packed // A and each B, of a sampler; nil if they are not packed
}

// Adapter is the B of a target, whose outputs are from..from+out of the projection's.
type Adapter struct {
	From, Out int
	B         []float32 // (out, rank)
}

// Ranks is the number of rows of A.
func (l Adapters) Ranks() int { return len(l.Targets) * l.Rank }

// packInto packs A and each B in the memory of to, and returns it. It is nil if there are no adapters, or
// if they begin within a panel of packed weights.
func (l Adapters) packInto(to []kernel.Packed, in int) []kernel.Packed {
	for _, t := range l.Targets {
		if t.From%kernel.PanelWidth != 0 {
			return nil
		}
	}
	if len(l.Targets) == 0 {
		return nil
	}
	if to == nil {
		to = make([]kernel.Packed, 1+len(l.Targets))
	}
	kernel.PackB(true, in, l.Ranks(), l.A, in, &to[0])
	for i, t := range l.Targets {
		kernel.PackB(true, l.Rank, t.Out, t.B, l.Rank, &to[1+i])
	}
	return to
}

// low is scale·x·Aᵀ, (rows, ranks). [Adapters.forward] and [Adapters.backward] both
// compute it: it costs less than the memory to keep it.
func (l Adapters) low(p *kernel.Pool, rows int, x []float32, in int) *borrowed {
	h := borrow(rows * l.Ranks())
	p.Gemm(false, true, rows, l.Ranks(), in, x, in, l.A, in, false, h.x, l.Ranks())
	scale(l.Scale, h.x)
	return h
}

// forward adds to y, (rows, out), from x, (rows, in).
func (l Adapters) forward(p *kernel.Pool, rows int, x, y []float32, in, out int) {
	if len(l.Targets) == 0 {
		return
	}
	h := l.low(p, rows, x, in)
	defer h.giveBack()
	for i, t := range l.Targets {
		p.Gemm(false, true, rows, t.Out, l.Rank, h.x[i*l.Rank:], l.Ranks(), t.B, l.Rank, true, y[t.From:], out)
	}
}

// backward adds the gradients of the adapters to g and that of x to dx, from dy.
func (l Adapters) backward(p *kernel.Pool, rows int, x, dy, dx []float32, in, out int, g Adapters) {
	if len(l.Targets) == 0 {
		return
	}
	n, r := l.Ranks(), l.Rank
	h, dh := l.low(p, rows, x, in), borrow(rows*n)
	defer h.giveBack()
	defer dh.giveBack()
	for i, t := range l.Targets {
		p.Gemm(true, false, t.Out, r, rows, dy[t.From:], out, h.x[i*r:], n, true, g.Targets[i].B, r)
		p.Gemm(false, false, rows, r, t.Out, dy[t.From:], out, t.B, r, false, dh.x[i*r:], n)
	}
	scale(l.Scale, dh.x)
	p.Gemm(true, false, n, in, rows, dh.x, n, x, in, true, g.A, in)
	p.Gemm(false, false, rows, in, n, dh.x, n, l.A, in, true, dx, in)
}

func scale(s float32, x []float32) {
	for i := range x {
		x[i] *= s
	}
}

// borrowed is memory for the time of a call.
type borrowed struct{ x []float32 }

var lent = sync.Pool{New: func() any { return new(borrowed) }}

// borrow returns n numbers of any value.
func borrow(n int) *borrowed {
	b := lent.Get().(*borrowed)
	if cap(b.x) < n {
		b.x = make([]float32, n)
	}
	b.x = b.x[:n]
	return b
}

func (b *borrowed) giveBack() { lent.Put(b) }
