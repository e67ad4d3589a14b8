package decoder

import "grpo/pkg/model/kernel"

// projection is a weight matrix of a network, with LoRA adapters if it has any.
type projection struct {
	in, out int
	w       []float32      // (out, in); nil if packed holds frozen weights
	packed  *kernel.Packed // of frozen weights only
	bf16    bool           // its matmuls round their operands to bf16
	adapters
}

// gemm is the matmul of the projection's precision.
func (m projection) gemm(p *kernel.Pool) func(transA, transB bool, m, n, k int, a []float32, lda int,
	b []float32, ldb int, accumulate bool, c []float32, ldc int) {
	if m.bf16 {
		return p.GemmBF16
	}
	return p.Gemm
}

// forward is y = x·Wᵀ, or adds it to y: x is (rows, in), y (rows, out).
func (m projection) forward(p *kernel.Pool, rows int, x []float32, accumulate bool, y []float32) {
	if m.packed != nil {
		p.GemmPacked(false, rows, m.out, m.in, x, m.in, m.packed, accumulate, y, m.out)
	} else {
		m.gemm(p)(false, true, rows, m.out, m.in, x, m.in, m.w, m.in, accumulate, y, m.out)
	}
	m.adapters.forward(p, rows, x, y, m.in, m.out)
}

// backward adds the gradient of the parameters to g and writes that of x to dx, from dy,
// the gradient of y. Frozen weights get no gradient.
func (m projection) backward(p *kernel.Pool, rows int, x, dy, dx []float32, g projection) {
	if g.w != nil {
		m.gemm(p)(true, false, m.out, m.in, rows, dy, m.out, x, m.in, true, g.w, m.in)
	}
	w := m.w
	if w == nil {
		s := borrow(m.out * m.in)
		defer s.giveBack()
		w = s.x
		const part = 64 // columns of a task
		p.Run((m.out+part-1)/part, func(task, _ int) {
			lo, hi := task*part, min(m.out, (task+1)*part)
			m.packed.Transposed(lo, hi, w[lo*m.in:hi*m.in])
		})
	}
	m.gemm(p)(false, false, rows, m.in, m.out, dy, m.out, w, m.in, false, dx, m.in)
	m.adapters.backward(p, rows, x, dy, dx, m.in, m.out, g.adapters)
}

// packedProjection is a projection in the form that is fast for few rows.
type packedProjection struct {
	projection
	own kernel.Packed // of weights that are not frozen
}

// pack reads the weights of m.
func (q *packedProjection) pack(m projection) {
	q.projection = m
	if m.packed != nil {
		return
	}
	m.packInto(m.w, &q.own)
	q.projection.packed = &q.own
}

// packInto packs weights, (out, in), in the precision of the projection.
func (m projection) packInto(w []float32, to *kernel.Packed) {
	pack := kernel.PackB
	if m.bf16 {
		pack = kernel.PackBF16
	}
	pack(true, m.in, m.out, w, m.in, to)
}
