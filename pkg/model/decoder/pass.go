package decoder

import (
	"grpo/pkg/model/kernel"
)

// pass runs the layers of a network over a tree: the CPU's [TreeMachine], but for the gradients. All
// slices are (tokens, ...), tokens in the order of the tree.
type pass struct {
	cpuRows
	tree     *Tree
	runs     []run
	scratch  []*scratch  // of each worker
	dcontext [][]float32 // with backward: the gradients that [attention.backward] writes, see [pass.contexts]
}

// newPass prepares a pass over a tree; backward says that its backward methods will be
// called. All of its memory is from mem.
func newPass(net *Network, pool *kernel.Pool, mem *arena, t *Tree, backward bool) *pass {
	c, n := net.Config, len(t.Tokens)
	p := &pass{tree: t, runs: t.runs(),
		cpuRows: cpuRows{net: net, pool: pool, mem: mem, n: n, attn: attentionOf(c), backward: backward}}
	p.newRotations()
	p.place(t.Positions)
	for range pool.Threads() {
		p.scratch = append(p.scratch, p.attn.newScratch(t, p.runs, backward, mem))
	}
	if backward {
		p.rstd, p.dcontext = mem.floats(n), p.contexts()
	}
	return p
}

// states returns memory for a vector of the residual stream for each token.
func (p *pass) states() []float32 { return p.Matrix(p.net.Config.Hidden) }

// embed looks the tokens up.
func (p *pass) embed() []float32 {
	h, x := p.net.Config.Hidden, p.states()
	for i, id := range p.tree.Tokens {
		p.net.embed(int(id), x[i*h:(i+1)*h])
	}
	return x
}

// norm is the RMSNorm of x, with the weights w; rstd is as in [kernel.RMSNorm].
func (p *pass) norm(x, w []float32) (y, rstd []float32) {
	y, rstd = p.states(), p.mem.floats(p.n)
	defer p.mem.Back(p.mem.Mark())
	p.pool.RMSNorm(p.n, len(w), x, p.scales(w), p.net.Config.NormEps, y, rstd)
	return y, rstd
}

// Attend computes the runs of each key head in parallel.
func (p *pass) Attend(i int, s *Saved[[]float32]) {
	heads, a := p.attn.kvHeads, p.attn.in(&p.net.Layers[i])
	p.pool.Run(len(p.runs)*heads, func(task, worker int) {
		a.forward(p.tree, p.runs[task/heads], task%heads, s.QKV, s.Attn, p.scratch[worker])
	})
}

func (p *pass) AttendBackward(i int, s *Saved[[]float32], do, dqkv []float32) {
	heads, a := p.attn.kvHeads, p.attn.in(&p.net.Layers[i])
	p.pool.Run(len(p.runs)*heads, func(task, worker int) {
		r := p.runs[task/heads]
		a.backward(p.tree, r, task%heads, s.QKV, do, dqkv, p.dcontext[task], p.scratch[worker])
	})
	p.pool.Run(2*heads, func(task, _ int) { // the keys, then the values
		for i, r := range p.runs {
			d := p.dcontext[i*heads+task%heads]
			d = d[task/heads*len(d)/2:]
			p.attn.scatter(p.tree, p.tree.Context[r.first], d, dqkv, p.attn.q()+task*p.attn.dim)
		}
	})
}

// embedBackward adds dx to the gradient of the embedding.
func (p *pass) embedBackward(dx, dembed []float32) {
	h, scale := p.net.Config.Hidden, p.net.Config.EmbedScale()
	for i, id := range p.tree.Tokens {
		if id == p.net.Config.Pad { // transformers: an embedding learns nothing from its padding token
			continue
		}
		kernel.Axpy(scale, dx[i*h:(i+1)*h], dembed[int(id)*h:(int(id)+1)*h])
	}
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
