package decoder

import "grpo/pkg/model/kernel"

// projection is a weight matrix of a network.
type projection struct {
	in, out int
	w       []float32 // (out, in)
	bf16    bool      // its matmuls round their operands to bf16
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
	m.gemm(p)(false, true, rows, m.out, m.in, x, m.in, m.w, m.in, accumulate, y, m.out)
}

// backward adds the gradient of the weights to g and writes that of x to dx, from dy,
// the gradient of y.
func (m projection) backward(p *kernel.Pool, rows int, x, dy, dx []float32, g projection) {
	m.gemm(p)(true, false, m.out, m.in, rows, dy, m.out, x, m.in, true, g.w, m.in)
	m.gemm(p)(false, false, rows, m.in, m.out, dy, m.out, m.w, m.in, false, dx, m.in)
}

// packedProjection is a projection in the form that is fast for few rows.
type packedProjection struct {
	projection
	packed kernel.Packed
}

// pack reads the weights of m.
func (q *packedProjection) pack(m projection) {
	q.projection = m
	pack := kernel.PackB
	if m.bf16 {
		pack = kernel.PackBF16
	}
	pack(true, m.in, m.out, m.w, m.in, &q.packed)
}

// forward is [projection.forward], with the same bits.
func (q *packedProjection) forward(p *kernel.Pool, rows int, x []float32, accumulate bool, y []float32) {
	p.GemmPacked(false, rows, q.out, q.in, x, q.in, &q.packed, accumulate, y, q.out)
}
