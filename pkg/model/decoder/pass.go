package decoder

import (
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// pass is what the layers of a network need to read a tree. All slices are (tokens, ...),
// tokens in the order of the tree.
type pass struct {
	net      *Network
	pool     *kernel.Pool
	mem      *arena
	tree     *Tree
	attn     attention
	cos, sin []float32 // (tokens, dim/2)
	runs     []run
	scratch  []*scratch // of each worker
}

// saved is what the backward pass needs of a layer. RMSNorms and the output of SwiGLU
// are not in it: they cost little to compute again.
type saved struct {
	in, mid      []float32 // the residual stream before attention and before the feed-forward layer
	qkv          []float32 // (tokens, q + 2 kv), after the rotation
	raw          []float32 // the same before q/k norms and rotation; only with q/k norms
	qRstd, kRstd []float32 // (tokens, heads)
	attn         []float32 // (tokens, q)
	gateUp       []float32 // (tokens, 2 ffn)
}

// newPass prepares a pass over a tree; backward says that its backward methods will be
// called. All of its memory is from mem.
func newPass(net *Network, pool *kernel.Pool, mem *arena, t *Tree, backward bool) *pass {
	c, n := net.Config, len(t.Tokens)
	p := &pass{net: net, pool: pool, mem: mem, tree: t, attn: attention{c.Heads, c.KVHeads, c.HeadDim}}
	half := c.HeadDim / 2
	p.cos, p.sin = mem.floats(n*half), mem.floats(n*half)
	net.Rotations(t.Positions, p.cos, p.sin)
	p.runs = t.runs()
	for range pool.Threads() {
		p.scratch = append(p.scratch, newScratch(t, p.runs, c.HeadDim, backward, mem))
	}
	return p
}

// states returns memory for a vector of the residual stream for each token.
func (p *pass) states() []float32 { return p.mem.floats(len(p.tree.Tokens) * p.net.Config.Hidden) }

// embed looks the tokens up.
func (p *pass) embed() []float32 {
	h, x := p.net.Config.Hidden, p.states()
	for i, id := range p.tree.Tokens {
		copy(x[i*h:(i+1)*h], p.net.Embed[int(id)*h:(int(id)+1)*h])
	}
	return x
}

// norm is the RMSNorm of x, with the weights w; rstd is as in [kernel.RMSNorm].
func (p *pass) norm(x, w []float32) (y, rstd []float32) {
	n := len(p.tree.Tokens)
	y, rstd = p.states(), p.mem.floats(n)
	p.pool.RMSNorm(n, len(w), x, w, p.net.Config.NormEps, y, rstd)
	return y, rstd
}

// block adds a layer's attention and feed-forward outputs to the residual stream in and
// writes the sum to out. With a nil out it only computes what it returns, for the
// backward pass.
func (p *pass) block(l *Layer, in, out []float32) saved {
	c, n := p.net.Config, len(p.tree.Tokens)
	q, width := p.attn.q(), p.attn.width()
	s := saved{in: in, qkv: p.mem.floats(n * width)}
	if l.QNorm != nil {
		s.raw = p.mem.floats(n * width)
		s.qRstd, s.kRstd = p.mem.floats(n*c.Heads), p.mem.floats(n*c.KVHeads)
	}
	s.attn, s.mid, s.gateUp = p.mem.floats(n*q), p.states(), p.mem.floats(n*2*c.FFN)
	defer p.mem.Back(p.mem.Mark())

	x, _ := p.norm(in, l.AttnNorm)
	l.QKV.forward(p.pool, n, x, false, s.qkv)
	l.project(c, n, s.qkv, &s, s.raw)
	p.pool.RoPE(n, c.Heads+c.KVHeads, c.HeadDim, s.qkv, width, p.cos, p.sin, 1) // keys follow the queries
	p.pool.Run(len(p.runs)*c.KVHeads, func(task, worker int) {
		p.attn.forward(p.tree, p.runs[task/c.KVHeads], task%c.KVHeads, s.qkv, s.attn, p.scratch[worker])
	})
	copy(s.mid, in)
	l.Out.forward(p.pool, n, s.attn, true, s.mid)

	x, _ = p.norm(s.mid, l.FFNNorm)
	l.GateUp.forward(p.pool, n, x, false, s.gateUp)
	if out != nil {
		copy(out, s.mid)
		l.Down.forward(p.pool, n, p.activations(&s), true, out)
	}
	return s
}

// activations are the inputs of a layer's last matrix.
func (p *pass) activations(s *saved) []float32 {
	n, ffn := len(p.tree.Tokens), p.net.Config.FFN
	a := p.mem.floats(n * ffn)
	p.pool.SwiGLU(n, ffn, s.gateUp, a)
	return a
}

// project adds the biases to n rows of queries, keys and values, and normalises queries
// and keys, where the network does so. With raw it keeps the rows before that, and their
// norms in s.
func (l *Layer) project(c *hf.Config, n int, qkv []float32, s *saved, raw []float32) {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	width := q + 2*kv
	if l.QKVBias != nil {
		kernel.AddBias(n, width, qkv, width, l.QKVBias)
	}
	if l.QNorm == nil {
		return
	}
	copy(raw, qkv[:min(len(raw), len(qkv))])
	for i := range n {
		row := qkv[i*width:]
		var qRstd, kRstd []float32
		if s != nil {
			qRstd, kRstd = s.qRstd[i*c.Heads:], s.kRstd[i*c.KVHeads:]
		}
		kernel.RMSNorm(c.Heads, c.HeadDim, row[:q], l.QNorm, c.NormEps, row[:q], qRstd)
		kernel.RMSNorm(c.KVHeads, c.HeadDim, row[q:q+kv], l.KNorm, c.NormEps, row[q:q+kv], kRstd)
	}
}

// embedBackward adds dx to the gradient of the embedding.
func (p *pass) embedBackward(dx, dembed []float32) {
	h := p.net.Config.Hidden
	for i, id := range p.tree.Tokens {
		if id == p.net.Config.Pad { // transformers: an embedding learns nothing from its padding token
			continue
		}
		kernel.Axpy(1, dx[i*h:(i+1)*h], dembed[int(id)*h:(int(id)+1)*h])
	}
}

// blockBackward replaces dx, the gradient of a layer's output, by that of its input, and
// adds the gradients of its weights to g. It overwrites what s has. dcontext is memory
// of [pass.contexts].
func (p *pass) blockBackward(l, g *Layer, s *saved, dcontext [][]float32, dx []float32) {
	defer p.mem.Back(p.mem.Mark())
	c, n := p.net.Config, len(p.tree.Tokens)
	h, q, kv, width := c.Hidden, p.attn.q(), p.attn.kv(), p.attn.width()

	x, rstd := p.norm(s.mid, l.FFNNorm)
	da, dnorm := p.mem.floats(n*c.FFN), p.states()
	l.Down.backward(p.pool, n, p.activations(s), dx, da, g.Down)
	p.pool.SwiGLUBackward(n, c.FFN, s.gateUp, da)
	l.GateUp.backward(p.pool, n, x, s.gateUp, dnorm, g.GateUp)
	p.pool.RMSNormBackward(n, h, s.mid, l.FFNNorm, rstd, dnorm, dx, g.FFNNorm)

	do, dqkv := p.mem.floats(n*q), p.mem.floats(n*width)
	l.Out.backward(p.pool, n, s.attn, dx, do, g.Out)
	p.pool.Run(len(p.runs)*c.KVHeads, func(task, worker int) {
		r := p.runs[task/c.KVHeads]
		p.attn.backward(p.tree, r, task%c.KVHeads, s.qkv, do, dqkv, dcontext[task], p.scratch[worker])
	})
	p.pool.Run(2*c.KVHeads, func(task, _ int) { // the keys, then the values
		for i, r := range p.runs {
			d := dcontext[i*c.KVHeads+task%c.KVHeads]
			d = d[task/c.KVHeads*len(d)/2:]
			p.attn.scatter(p.tree, p.tree.Context[r.first], d, dqkv, q+task*c.HeadDim)
		}
	})
	p.pool.RoPE(n, c.Heads+c.KVHeads, c.HeadDim, dqkv, width, p.cos, p.sin, -1)
	if l.QNorm != nil {
		dq, dk := p.mem.floats(q), p.mem.floats(kv)
		for i := range n {
			raw, d := s.raw[i*width:], dqkv[i*width:]
			clear(dq)
			clear(dk)
			kernel.RMSNormBackward(c.Heads, c.HeadDim, raw[:q], l.QNorm, s.qRstd[i*c.Heads:], d[:q], dq, g.QNorm)
			kernel.RMSNormBackward(c.KVHeads, c.HeadDim, raw[q:q+kv], l.KNorm, s.kRstd[i*c.KVHeads:], d[q:q+kv], dk,
				g.KNorm)
			copy(d, dq)
			copy(d[q:], dk)
		}
	}
	if g.QKVBias != nil {
		p.pool.ColSum(n, width, dqkv, width, true, g.QKVBias)
	}
	x, rstd = p.norm(s.in, l.AttnNorm)
	l.QKV.backward(p.pool, n, x, dqkv, dnorm, g.QKV)
	p.pool.RMSNormBackward(n, h, s.in, l.AttnNorm, rstd, dnorm, dx, g.AttnNorm)
}

// contexts returns zeros for the gradients that [attention.backward] writes for each run
// and key head. All layers use the same memory.
func (p *pass) contexts() [][]float32 {
	d := make([][]float32, len(p.runs)*p.net.Config.KVHeads)
	for i := range d {
		d[i] = p.mem.zeros(2 * p.runs[i/p.net.Config.KVHeads].before * p.attn.dim)
	}
	return d
}
