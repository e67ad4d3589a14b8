package decoder

import (
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// pass runs a network over a tree. All slices are (tokens, ...), tokens in the order of
// the tree.
type pass struct {
	net      *Network
	pool     *kernel.Pool
	mem      *arena
	tree     *tree
	attn     attention
	cos, sin []float32 // (tokens, dim/2)
	layers   []saved
	x        []float32 // the residual stream after the last layer, (tokens, hidden)
	final    []float32 // its RMSNorm
	rstd     []float32
	runs     []run
	scratch  []*scratch  // of each worker
	dcontext [][]float32 // of each run and key head: see [attention.backward]
	keep     bool        // what backward needs
}

// saved is what the backward pass needs of a layer.
type saved struct {
	in, mid             []float32 // the residual stream before attention and before the feed-forward layer
	inNorm, midNorm     []float32 // their RMSNorms
	inRstd, midRstd     []float32
	qkv                 []float32 // (tokens, q + 2 kv), after the rotation
	raw                 []float32 // the same before q/k norms and rotation; only with q/k norms
	qRstd, kRstd        []float32 // (tokens, heads)
	attn                []float32 // (tokens, q)
	gateUp, activations []float32 // (tokens, 2 ffn), (tokens, ffn)
}

// newPass prepares a pass over a tree; backward says that its backward will be called.
// It resets mem, whose memory holds all of the pass.
func newPass(net *Network, pool *kernel.Pool, mem *arena, t *tree, backward bool) *pass {
	c, n := net.Config, len(t.tokens)
	mem.reset()
	p := &pass{net: net, pool: pool, mem: mem, tree: t, keep: backward, attn: attention{c.Heads, c.KVHeads, c.HeadDim}}
	half := c.HeadDim / 2
	p.cos, p.sin = mem.floats(n*half), mem.floats(n*half)
	net.rotations(t.positions, p.cos, p.sin)
	p.runs = t.runs()
	for range pool.Threads() {
		p.scratch = append(p.scratch, newScratch(t, p.runs, c.HeadDim, backward, mem))
	}
	return p
}

// forward computes the residual stream of every token and keeps what backward needs.
func (p *pass) forward() {
	c, n := p.net.Config, len(p.tree.tokens)
	h := c.Hidden
	p.x = p.mem.floats(n * h)
	for i, id := range p.tree.tokens {
		copy(p.x[i*h:(i+1)*h], p.net.embed[int(id)*h:(int(id)+1)*h])
	}
	p.layers = make([]saved, c.Layers)
	for i := range p.layers {
		p.layers[i] = p.block(&p.net.layers[i])
	}
	p.final, p.rstd = p.mem.floats(n*h), p.mem.floats(n)
	p.pool.RMSNorm(n, h, p.x, p.net.norm, c.NormEps, p.final, p.rstd)
}

// block adds a layer's attention and feed-forward outputs to the residual stream.
func (p *pass) block(l *layer) saved {
	c, n := p.net.Config, len(p.tree.tokens)
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	width := q + 2*kv
	s := saved{in: p.x, qkv: p.mem.floats(n * width)}
	out := p.mem.floats(n * h)
	mark := *p.mem
	s.inNorm, s.inRstd = p.mem.floats(n*h), p.mem.floats(n)
	p.pool.RMSNorm(n, h, s.in, l.attnNorm, c.NormEps, s.inNorm, s.inRstd)
	l.qkv.forward(p.pool, n, s.inNorm, false, s.qkv)
	if l.qNorm != nil {
		s.raw = p.mem.floats(n * width)
		s.qRstd, s.kRstd = p.mem.floats(n*c.Heads), p.mem.floats(n*c.KVHeads)
	}
	l.project(c, n, s.qkv, &s, s.raw)
	p.pool.RoPE(n, c.Heads+c.KVHeads, c.HeadDim, s.qkv, width, p.cos, p.sin, 1) // keys follow the queries
	s.attn = p.mem.floats(n * q)
	p.pool.Run(len(p.runs)*c.KVHeads, func(task, worker int) {
		p.attn.forward(p.tree, p.runs[task/c.KVHeads], task%c.KVHeads, s.qkv, s.attn, p.scratch[worker])
	})
	s.mid = p.mem.copyOf(s.in)
	l.out.forward(p.pool, n, s.attn, true, s.mid)

	s.midNorm, s.midRstd = p.mem.floats(n*h), p.mem.floats(n)
	p.pool.RMSNorm(n, h, s.mid, l.ffnNorm, c.NormEps, s.midNorm, s.midRstd)
	s.gateUp, s.activations = p.mem.floats(n*2*c.FFN), p.mem.floats(n*c.FFN)
	l.gateUp.forward(p.pool, n, s.midNorm, false, s.gateUp)
	p.pool.SwiGLU(n, c.FFN, s.gateUp, s.activations)
	copy(out, s.mid)
	l.down.forward(p.pool, n, s.activations, true, out)
	p.x = out
	if !p.keep {
		p.mem.back(mark)
		return saved{qkv: s.qkv}
	}
	return s
}

// project adds the biases to n rows of queries, keys and values, and normalises queries
// and keys, where the network does so. With raw it keeps the rows before that, and their
// norms in s.
func (l *layer) project(c *hf.Config, n int, qkv []float32, s *saved, raw []float32) {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	width := q + 2*kv
	if l.qkvBias != nil {
		kernel.AddBias(n, width, qkv, width, l.qkvBias)
	}
	if l.qNorm == nil {
		return
	}
	copy(raw, qkv[:min(len(raw), len(qkv))])
	for i := range n {
		row := qkv[i*width:]
		var qRstd, kRstd []float32
		if s != nil {
			qRstd, kRstd = s.qRstd[i*c.Heads:], s.kRstd[i*c.KVHeads:]
		}
		kernel.RMSNorm(c.Heads, c.HeadDim, row[:q], l.qNorm, c.NormEps, row[:q], qRstd)
		kernel.RMSNorm(c.KVHeads, c.HeadDim, row[q:q+kv], l.kNorm, c.NormEps, row[q:q+kv], kRstd)
	}
}

// backward adds the gradients of all parameters to g, from dfinal, the gradient of
// p.final, (tokens, hidden). It overwrites what forward kept.
func (p *pass) backward(dfinal []float32, g *Network) {
	c, n := p.net.Config, len(p.tree.tokens)
	h := c.Hidden
	dx := p.mem.zeros(n * h)
	p.dcontext = make([][]float32, len(p.runs)*c.KVHeads)
	for i := range p.dcontext {
		p.dcontext[i] = p.mem.zeros(2 * p.runs[i/c.KVHeads].before * c.HeadDim)
	}
	p.pool.RMSNormBackward(n, h, p.x, p.net.norm, p.rstd, dfinal, dx, g.norm)
	for i := c.Layers - 1; i >= 0; i-- {
		mark := *p.mem
		p.blockBackward(&p.net.layers[i], &g.layers[i], &p.layers[i], dx)
		p.mem.back(mark)
	}
	for i, id := range p.tree.tokens {
		if id == c.Pad { // transformers: an embedding learns nothing from its padding token
			continue
		}
		row := g.embed[int(id)*h : (int(id)+1)*h]
		for j, d := range dx[i*h : (i+1)*h] {
			row[j] += d
		}
	}
}

// blockBackward replaces dx, the gradient of a layer's output, by that of its input.
func (p *pass) blockBackward(l, g *layer, s *saved, dx []float32) {
	c, n := p.net.Config, len(p.tree.tokens)
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	width := q + 2*kv

	da, dnorm := p.mem.floats(n*c.FFN), p.mem.floats(n*h)
	l.down.backward(p.pool, n, s.activations, dx, da, g.down)
	p.pool.SwiGLUBackward(n, c.FFN, s.gateUp, da)
	l.gateUp.backward(p.pool, n, s.midNorm, s.gateUp, dnorm, g.gateUp)
	p.pool.RMSNormBackward(n, h, s.mid, l.ffnNorm, s.midRstd, dnorm, dx, g.ffnNorm)

	do, dqkv := p.mem.floats(n*q), p.mem.floats(n*width)
	l.out.backward(p.pool, n, s.attn, dx, do, g.out)
	p.pool.Run(len(p.runs)*c.KVHeads, func(task, worker int) {
		r := p.runs[task/c.KVHeads]
		p.attn.backward(p.tree, r, task%c.KVHeads, s.qkv, do, dqkv, p.dcontext[task], p.scratch[worker])
	})
	p.pool.Run(2*c.KVHeads, func(task, _ int) { // the keys, then the values
		for i, r := range p.runs {
			d := p.dcontext[i*c.KVHeads+task%c.KVHeads]
			d = d[task/c.KVHeads*len(d)/2:]
			p.attn.scatter(p.tree, p.tree.context[r.first], d, dqkv, q+task*c.HeadDim)
		}
	})
	p.pool.RoPE(n, c.Heads+c.KVHeads, c.HeadDim, dqkv, width, p.cos, p.sin, -1)
	if l.qNorm != nil {
		for i := range n {
			raw, d := s.raw[i*width:], dqkv[i*width:]
			dq, dk := p.mem.zeros(q), p.mem.zeros(kv)
			kernel.RMSNormBackward(c.Heads, c.HeadDim, raw[:q], l.qNorm, s.qRstd[i*c.Heads:], d[:q], dq, g.qNorm)
			kernel.RMSNormBackward(c.KVHeads, c.HeadDim, raw[q:q+kv], l.kNorm, s.kRstd[i*c.KVHeads:], d[q:q+kv], dk,
				g.kNorm)
			copy(d, dq)
			copy(d[q:], dk)
		}
	}
	if l.qkvBias != nil {
		p.pool.ColSum(n, width, dqkv, width, true, g.qkvBias)
	}
	l.qkv.backward(p.pool, n, s.inNorm, dqkv, dnorm, g.qkv)
	p.pool.RMSNormBackward(n, h, s.in, l.attnNorm, s.inRstd, dnorm, dx, g.attnNorm)
}
