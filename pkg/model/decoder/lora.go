package decoder

import (
	"sync"

	"grpo/pkg/model/kernel"
)

// adapters are the LoRA adapters of a projection: to rows of its output, such as the
// queries of the queries, keys and values, each adds scale·B·A·x (Hu et al., 2021,
// "LoRA: low-rank adaptation of large language models").
type adapters struct {
	rank    int
	scale   float32
	a       []float32 // (targets · rank, in), the A of each target below that of the one before
	targets []adapter
}

// adapter is the B of a target, whose outputs are from..from+out of the projection's.
type adapter struct {
	from, out int
	b         []float32 // (out, rank)
}

// ranks is the number of rows of a.
func (l adapters) ranks() int { return len(l.targets) * l.rank }

// low is scale·x·Aᵀ, (rows, ranks). [adapters.forward] and [adapters.backward] both
// compute it: it costs less than the memory to keep it.
func (l adapters) low(p *kernel.Pool, rows int, x []float32, in int) *borrowed {
	h := borrow(rows * l.ranks())
	p.Gemm(false, true, rows, l.ranks(), in, x, in, l.a, in, false, h.x, l.ranks())
	scale(l.scale, h.x)
	return h
}

// forward adds to y, (rows, out), from x, (rows, in).
func (l adapters) forward(p *kernel.Pool, rows int, x, y []float32, in, out int) {
	if len(l.targets) == 0 {
		return
	}
	h := l.low(p, rows, x, in)
	defer h.giveBack()
	for i, t := range l.targets {
		p.Gemm(false, true, rows, t.out, l.rank, h.x[i*l.rank:], l.ranks(), t.b, l.rank, true, y[t.from:], out)
	}
}

// backward adds the gradients of the adapters to g and that of x to dx, from dy.
func (l adapters) backward(p *kernel.Pool, rows int, x, dy, dx []float32, in, out int, g adapters) {
	if len(l.targets) == 0 {
		return
	}
	n, r := l.ranks(), l.rank
	h, dh := l.low(p, rows, x, in), borrow(rows*n)
	defer h.giveBack()
	defer dh.giveBack()
	for i, t := range l.targets {
		p.Gemm(true, false, t.out, r, rows, dy[t.from:], out, h.x[i*r:], n, true, g.targets[i].b, r)
		p.Gemm(false, false, rows, r, t.out, dy[t.from:], out, t.b, r, false, dh.x[i*r:], n)
	}
	scale(l.scale, dh.x)
	p.Gemm(true, false, n, in, rows, dh.x, n, x, in, true, g.a, in)
	p.Gemm(false, false, rows, in, n, dh.x, n, l.a, in, true, dx, in)
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
