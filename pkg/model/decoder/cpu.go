package decoder

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// cpu is the [Backend] of the CPU.
type cpu struct {
	pool *kernel.Pool
	mem  *arena // of all that runs a network, one at a time
}

func newCPU(pool *kernel.Pool) *cpu { return &cpu{pool, new(arena)} }

// Check accepts every network.
func (c *cpu) Check(*hf.Config) error { return nil }

// Place does nothing: the numbers are in Flat.
func (c *cpu) Place(*model.Params) error { return nil }

func (c *cpu) NewSampler(net *Network, end []int) model.Sampler {
	return newSampler(net, c.pool, c.mem, end)
}

func (c *cpu) NewTreeOps(net, grads *Network, t *Tree, checkpointing bool) (Ops, error) {
	c.mem.Reset()
	p := newPass(net, c.pool, c.mem, t, grads != nil)
	o := &cpuOps{pass: p, grads: grads, checkpointing: checkpointing}
	if grads != nil {
		o.dx = p.states()
	} else { // a layer's input is not read again
		o.spare = [2][]float32{p.states(), p.states()}
	}
	return o, nil
}

// cpuOps implements [Ops].
type cpuOps struct {
	fused.Host
	*pass
	grads         *Network // nil without a backward pass
	checkpointing bool
	dx            []float32    // the gradient of the residual stream
	spare         [2][]float32 // without a backward pass, outputs of layers in turn
}

func (*cpuOps) Weight(x []float32, shape ...int) *tensor.Dense { return fused.Dense(x, shape...) }

func (o *cpuOps) Do(f func()) error                { f(); return nil }
func (o *cpuOps) At(v G.Value) []float32           { return fused.Floats(v) }
func (o *cpuOps) Grad() []float32                  { return o.dx }
func (o *cpuOps) Stream(x []float32) *tensor.Dense { return fused.Dense(x, o.n, o.net.Config.Hidden) }

func (o *cpuOps) GradientOf(x []float32, shape ...int) *tensor.Dense {
	if x == nil {
		return nil
	}
	return fused.Dense(x, shape...)
}

func (o *cpuOps) Embed() fused.Op { return &embedOp{o} }

// embedOp is [Ops.Embed].
type embedOp struct{ *cpuOps }

func (o *embedOp) Forward([]G.Value) (G.Value, error) { return o.Stream(o.embed()), nil }

func (o *embedOp) AllocateGrads() ([]*tensor.Dense, error) {
	c := o.net.Config
	return []*tensor.Dense{o.GradientOf(o.grads.Embed, c.Vocab, c.Hidden)}, nil
}

func (o *embedOp) Backward([]G.Value) error {
	o.embedBackward(o.dx, o.grads.Embed)
	return nil
}

func (o *cpuOps) Block(i int) fused.Op {
	op := &BlockOp[[]float32]{M: o, Net: o.net, Grads: o.grads, Index: i, Checkpointing: o.checkpointing}
	if o.grads == nil {
		op.Out = &o.spare[i%2]
	}
	return op
}

// normBackward begins the backward pass of the layers, from the gradient of the last
// RMSNorm of x.
func (o *cpuOps) normBackward(x, rstd, dfinal []float32) {
	clear(o.dx)
	w := o.scales(o.net.Norm)
	o.pool.RMSNormBackward(len(o.tree.Tokens), o.net.Config.Hidden, x, w, rstd, dfinal, o.dx, o.grads.Norm)
}

// cpuRows is the part of the CPU's [Machine] that is the same for the tokens of a tree and for the
// last tokens of completions: everything but attention.
type cpuRows struct {
	net      *Network
	pool     *kernel.Pool
	mem      *arena
	attn     attention
	n        int
	backward bool
	rotation []rotation // of each of the network's Ropes
	rstd     []float32  // (rows), of the last Norm; nil if nobody needs it
}

// rotation holds the cosines and sines of positions, (rows, dim/2).
type rotation struct{ cos, sin []float32 }

// newRotations allocates the rotations of the rows.
func (r *cpuRows) newRotations() {
	for range r.net.Ropes {
		r.rotation = append(r.rotation, rotation{r.Matrix(r.attn.dim / 2), r.Matrix(r.attn.dim / 2)})
	}
}

// place fills the rotations with the positions of rows.
func (r *cpuRows) place(positions []int) {
	for i, x := range r.rotation {
		r.net.Rotations(i, positions, x.cos, x.sin)
	}
}

// rotate rotates queries and the keys, which follow them, or with sign -1 their gradients.
func (r *cpuRows) rotate(l *Layer, qkv []float32, sign float32) {
	if l.Rope >= 0 {
		x := r.rotation[l.Rope]
		r.pool.RoPE(r.n, r.attn.heads+r.attn.kvHeads, r.attn.dim, qkv, r.attn.width(), x.cos, x.sin, sign)
	}
}

func (r *cpuRows) Matrix(width int) []float32 { return r.mem.floats(r.n * width) }
func (r *cpuRows) Mark() []int                { return r.mem.Mark() }
func (r *cpuRows) Back(mark []int)            { r.mem.Back(mark) }

func (r *cpuRows) Copy(to, from []float32) {
	if len(to) > 0 && &to[0] != &from[0] {
		copy(to, from)
	}
}

// scales are the scales of an RMSNorm with the weights w; nil without weights.
func (r *cpuRows) scales(w []float32) []float32 {
	if !r.net.Config.OffsetNorms || w == nil {
		return w
	}
	out := r.mem.floats(len(w))
	for i, v := range w {
		out[i] = 1 + v
	}
	return out
}

func (r *cpuRows) Norm(x, w, y []float32) {
	defer r.mem.Back(r.mem.Mark())
	r.pool.RMSNorm(r.n, len(w), x, r.scales(w), r.net.Config.NormEps, y, r.rstd)
}

func (r *cpuRows) Add(to, from []float32) {
	n := r.n * r.net.Config.Hidden
	r.pool.Add(to[:n], from[:n])
}

func (r *cpuRows) NormBackward(x, w, dy []float32, accumulate bool, dx, dw []float32) {
	if !accumulate {
		r.pool.Clear(dx[:r.n*len(w)])
	}
	defer r.mem.Back(r.mem.Mark())
	r.pool.RMSNormBackward(r.n, len(w), x, r.scales(w), r.rstd, dy, dx, dw)
}

func (r *cpuRows) Project(m *Projection, x []float32, accumulate bool, y []float32) {
	m.forward(r.pool, r.n, x, accumulate, y)
}

func (r *cpuRows) ProjectBackward(m, g *Projection, x, dy, dx []float32) {
	m.backward(r.pool, r.n, x, dy, dx, *g)
}

func (r *cpuRows) Gate(gateUp, y []float32) {
	gate := r.pool.SwiGLU
	if r.net.Config.GELU {
		gate = r.pool.GeGLU
	}
	gate(r.n, r.net.Config.FFN, gateUp, y)
}

func (r *cpuRows) GateBackward(gateUp, dy []float32) {
	gate := r.pool.SwiGLUBackward
	if r.net.Config.GELU {
		gate = r.pool.GeGLUBackward
	}
	gate(r.n, r.net.Config.FFN, gateUp, dy)
}

// Keep allocates the rows before q/k norms, and their norms.
func (r *cpuRows) Keep(l *Layer, s *Saved[[]float32]) {
	if r.backward && l.QNorm != nil {
		s.Raw, s.Stats = r.Matrix(r.attn.width()), r.Matrix(r.attn.heads+r.attn.kvHeads)
	}
}

func (r *cpuRows) FinishQKV(l *Layer, s *Saved[[]float32]) {
	width := r.attn.width()
	if l.QKVBias != nil {
		kernel.AddBias(r.n, width, s.QKV, width, l.QKVBias)
	}
	if l.QNorm != nil {
		copy(s.Raw, s.QKV)
		q, k := r.scales(l.QNorm), r.scales(l.KNorm)
		for i := range r.n {
			for _, h := range r.headNorms(q, k, s, i) {
				x := s.QKV[i*width+h.at:][:h.size]
				kernel.RMSNorm(h.size/len(h.w), len(h.w), x, h.w, r.net.Config.NormEps, x, h.rstd)
			}
		}
	}
	r.rotate(l, s.QKV, 1)
}

func (r *cpuRows) FinishQKVBackward(l, g *Layer, s *Saved[[]float32], dqkv []float32) {
	a, width := r.attn, r.attn.width()
	r.rotate(l, dqkv, -1)
	if l.QNorm != nil {
		dx, q, k := r.mem.floats(a.q()), r.scales(l.QNorm), r.scales(l.KNorm)
		for i := range r.n {
			dw := [2][]float32{g.QNorm, g.KNorm}
			for j, h := range r.headNorms(q, k, s, i) {
				x, d, dx := s.Raw[i*width+h.at:], dqkv[i*width+h.at:], dx[:h.size]
				clear(dx)
				kernel.RMSNormBackward(h.size/len(h.w), len(h.w), x[:len(dx)], h.w, h.rstd, d[:len(dx)], dx, dw[j])
				copy(d, dx)
			}
		}
	}
	if g.QKVBias != nil {
		r.pool.ColSum(r.n, width, dqkv, width, true, g.QKVBias)
	}
}

// headNorm is the norm of a row's queries or keys, of each head or of all: see [Layer].
type headNorm struct {
	at, size int
	w, rstd  []float32 // rstd is nil if it is not kept
}

// headNorms are the norms of row i: the queries', then the keys'.
func (r *cpuRows) headNorms(ofQ, ofK []float32, s *Saved[[]float32], i int) [2]headNorm {
	a := r.attn
	q, k := headNorm{0, a.q(), ofQ, nil}, headNorm{a.q(), a.kv(), ofK, nil}
	if s.Stats != nil {
		rstd := s.Stats[i*(a.heads+a.kvHeads):]
		q.rstd, k.rstd = rstd[:a.heads], rstd[a.heads:a.heads+a.kvHeads]
	}
	return [2]headNorm{q, k}
}
