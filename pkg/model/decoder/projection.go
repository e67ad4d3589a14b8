package decoder

import "grpo/pkg/model/kernel"

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
	if m.packed != nil {
		p.GemmPacked(false, rows, m.Out, m.In, x, m.In, m.packed, accumulate, y, m.Out)
	} else {
		m.gemm(p)(false, true, rows, m.Out, m.In, x, m.In, m.W, m.In, accumulate, y, m.Out)
	}
	m.Adapters.forward(p, rows, x, y, m.In, m.Out)
}

// backward adds the gradient of the parameters to g and writes that of x to dx, from dy,
// the gradient of y. Frozen weights get no gradient.
func (m Projection) backward(p *kernel.Pool, rows int, x, dy, dx []float32, g Projection) {
	if g.W != nil {
		m.gemm(p)(true, false, m.Out, m.In, rows, dy, m.Out, x, m.In, true, g.W, m.In)
	}
	w := m.W
	if w == nil {
		s := borrow(m.Out * m.In)
		defer s.giveBack()
		w = s.x
		const part = 64 // columns of a task
		p.Run((m.Out+part-1)/part, func(task, _ int) {
			lo, hi := task*part, min(m.Out, (task+1)*part)
			m.packed.Transposed(lo, hi, w[lo*m.In:hi*m.In])
		})
	}
	m.gemm(p)(false, false, rows, m.In, m.Out, dy, m.Out, w, m.In, false, dx, m.In)
	m.Adapters.backward(p, rows, x, dy, dx, m.In, m.Out, g.Adapters)
}

// packInto packs weights, (out, in), in the precision of the projection.
func (m Projection) packInto(w []float32, to *kernel.Packed) {
	pack := kernel.PackB
	if m.bf16 {
		pack = kernel.PackBF16
	}
	pack(true, m.In, m.Out, w, m.In, to)
}
