//go:build withcuda && linux

package gpu

import (
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
)

// pass runs the layers of a network over a tree. All matrices are (tokens, ...), tokens in the order
// of the tree. It computes what pkg/model/decoder/pass.go does on the CPU.
type pass struct {
	*network
	tree     *decoder.Tree
	tokens   int
	ids      cuda.Pointer // of the tokens
	cos, sin cuda.Pointer // (tokens, dim/2)

	tiles                                              *kernels.Tiles
	tile, low, seenAt, seen, task, taskAt, seenBy, sum cuda.Pointer // of tiles; sum: see attendBackward
}

// taskTiles bounds the tiles of queries of a task: see [kernels.TilesOf].
const taskTiles = 32

// newPass uploads a tree; backward says that the backward methods will be called.
func (n *network) newPass(t *decoder.Tree, backward bool) *pass {
	p := &pass{network: n, tree: t, tokens: len(t.Tokens), ids: upload(n.mem, t.Tokens)}
	positions, longest := make([]int32, len(t.Positions)), 0
	for i, at := range t.Positions {
		positions[i], longest = int32(at), max(longest, at+1)
	}
	half := n.Config.HeadDim / 2
	p.cos, p.sin = n.mem.floats(p.tokens*half), n.mem.floats(p.tokens*half)
	lengths := make([]int, len(t.Segments))
	for s, segment := range t.Segments {
		lengths[s] = len(segment.Tokens)
	}
	p.tiles = kernels.TilesOf(t.Start, lengths, t.Context, n.plan.Tile, taskTiles)
	p.tile, p.low, p.seenAt, p.seen = upload(n.mem, p.tiles.Tile), upload(n.mem, p.tiles.Low), upload(n.mem, p.tiles.SeenAt), upload(n.mem, p.tiles.Seen)
	if backward {
		p.task, p.taskAt, p.seenBy = upload(n.mem, p.tiles.Task), upload(n.mem, p.tiles.TaskAt), upload(n.mem, p.tiles.SeenBy)
		p.sum = n.mem.floats(n.plan.Parts(p.tiles.Tasks()))
	}
	defer n.mem.Back(n.mem.Mark())
	cos, sin := n.rotations(longest)
	at := upload(n.mem, positions)
	n.g.gather(p.tokens, half, at, cos, p.cos)
	n.g.gather(p.tokens, half, at, sin, p.sin)
	return p
}

// rotations are the cosines and sines of the positions up to a length, (length, dim/2).
func (n *network) rotations(length int) (cos, sin cuda.Pointer) {
	positions, size := make([]int, length), length*n.Config.HeadDim/2
	for i := range positions {
		positions[i] = i
	}
	c, s := make([]float32, size), make([]float32, size)
	n.Rotations(positions, c, s)
	return upload(n.mem, c), upload(n.mem, s)
}

// states is memory for a matrix like the residual stream.
func (p *pass) states() cuda.Pointer { return p.mem.floats(p.tokens * p.Config.Hidden) }

func (p *pass) copyStates(to, from cuda.Pointer) {
	_ = p.g.dev.Copy(to, from, 4*p.tokens*p.Config.Hidden)
}

// norm is the RMSNorm of states, with the weights w.
func (p *pass) norm(x cuda.Pointer, w []float32) cuda.Pointer {
	y := p.states()
	p.normRows(p.tokens, x, w, y)
	return y
}

// normRows is the RMSNorm of rows of states.
func (n *network) normRows(rows int, x cuda.Pointer, w []float32, y cuda.Pointer) {
	h := n.Config.Hidden
	n.normHeads(rows, 1, h, x, h, w, y, h)
}

// normHeads is the RMSNorm of vectors: each row has per of them.
func (n *network) normHeads(rows, per, width int, x cuda.Pointer, ldx int, w []float32, y cuda.Pointer, ldy int) {
	n.g.launchDecoder(n.g.card.Norm(rows*per, width), cuda.I(rows*per), cuda.I(per), cuda.I(width), cuda.P(x), cuda.I(ldx),
		cuda.P(n.at(w)), cuda.F(float32(n.Config.NormEps)), cuda.P(y), cuda.I(ldy))
}

// normBackward is the backward pass of normHeads. It adds the gradient of w to dw, a part of grads'
// numbers, if that is not nil.
func (n *network) normBackward(rows, per, width int, x cuda.Pointer, w []float32, ldx int, dy cuda.Pointer, lddy int,
	accumulate bool, dx cuda.Pointer, lddx int, grads *network, dw []float32) {
	defer n.mem.Back(n.mem.Mark())
	parts, sum := n.g.card.NormBackward(rows*per, width)
	var room cuda.Pointer
	if dw != nil {
		room = n.mem.floats(parts.Tiles * width)
	}
	n.g.launchDecoder(parts, cuda.I(rows*per), cuda.I(per), cuda.I(width), cuda.P(x), cuda.I(ldx), cuda.P(n.at(w)),
		cuda.F(float32(n.Config.NormEps)), cuda.P(dy), cuda.I(lddy), cuda.P(dx), cuda.I(lddx), flag(accumulate), cuda.I(parts.Tile),
		cuda.P(room))
	if dw != nil {
		n.g.launch(sum, cuda.I(sum.Tiles), cuda.I(width), cuda.P(room), cuda.P(grads.at(dw)), cuda.I(1))
	}
}

// saved is what the backward pass needs of a layer; as on the CPU, norms and the output of SwiGLU are
// computed again.
type saved struct {
	in, mid cuda.Pointer // the residual stream before attention and before the feed-forward layer
	qkv     cuda.Pointer // (tokens, q + 2 kv), after the rotation
	raw     cuda.Pointer // the same before q/k norms and rotation; only with q/k norms
	lse     cuda.Pointer // (tokens, heads), of attention's softmax
	attn    cuda.Pointer // (tokens, q)
	gateUp  cuda.Pointer // (tokens, 2 ffn)
}

// block adds a layer's attention and feed-forward outputs to the residual stream in and writes the
// sum to out. With out = 0 it only computes what it returns, for the backward pass.
func (p *pass) block(l *decoder.Layer, in, out cuda.Pointer) saved {
	c, n := p.Config, p.tokens
	s := saved{in: in, qkv: p.mem.floats(n * p.row())}
	if l.QNorm != nil {
		s.raw = p.mem.floats(n * p.row())
	}
	s.lse, s.attn = p.mem.floats(n*c.Heads), p.mem.floats(n*p.heads())
	s.mid, s.gateUp = p.states(), p.mem.floats(n*2*c.FFN)
	defer p.mem.Back(p.mem.Mark())

	p.project(&l.QKV, n, p.norm(in, l.AttnNorm), false, s.qkv)
	p.finishQKV(l, n, s.qkv, s.raw, p.cos, p.sin)
	p.g.launchOf(p.attention, p.plan.Forward(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.seenAt), cuda.P(p.seen),
		cuda.F(p.scale()), cuda.P(s.qkv), cuda.P(s.attn), cuda.P(s.lse))
	p.copyStates(s.mid, in)
	p.project(&l.Out, n, s.attn, true, s.mid)

	p.project(&l.GateUp, n, p.norm(s.mid, l.FFNNorm), false, s.gateUp)
	if out != 0 {
		p.copyStates(out, s.mid)
		p.project(&l.Down, n, p.activations(n, s.gateUp), true, out)
	}
	return s
}

// finishQKV adds the biases to n rows of queries, keys and values, normalises queries and keys where
// the network does so, and rotates them. With raw it keeps the rows before the norms there.
func (n *network) finishQKV(l *decoder.Layer, rows int, qkv, raw, cos, sin cuda.Pointer) {
	c, g, width := n.Config, n.g, n.row()
	if l.QKVBias != nil {
		g.launchDecoder(g.card.Columns(kernels.AddRows, rows, width), cuda.I(rows), cuda.I(width), cuda.P(qkv), cuda.I(width),
			cuda.P(n.at(l.QKVBias)))
	}
	if l.QNorm != nil {
		if raw != 0 {
			_ = g.dev.Copy(raw, qkv, 4*rows*width)
		}
		k := qkv.Add(n.heads())
		n.normHeads(rows, c.Heads, c.HeadDim, qkv, width, l.QNorm, qkv, width)
		n.normHeads(rows, c.KVHeads, c.HeadDim, k, width, l.KNorm, k, width)
	}
	n.rotate(rows, qkv, cos, sin, 1)
}

// rotate rotates queries and keys, which follow them, or with sign -1 their gradients.
func (n *network) rotate(rows int, qkv, cos, sin cuda.Pointer, sign float32) {
	c := n.Config
	n.g.launchDecoder(n.g.card.RoPE(rows, c.Heads+c.KVHeads, c.HeadDim), cuda.I(rows), cuda.I(c.Heads+c.KVHeads), cuda.I(c.HeadDim),
		cuda.P(qkv), cuda.I(n.row()), cuda.P(cos), cuda.P(sin), cuda.F(sign))
}

// activations are the inputs of a layer's last matrix.
func (n *network) activations(rows int, gateUp cuda.Pointer) cuda.Pointer {
	ffn := n.Config.FFN
	a := n.mem.floats(rows * ffn)
	n.g.launchDecoder(n.g.card.Columns(kernels.SwiGLU, rows, ffn), cuda.I(rows), cuda.I(ffn), cuda.P(gateUp), cuda.P(a))
	return a
}

// blockBackward replaces dx, the gradient of a layer's output, by that of its input, and adds the
// gradients of its weights to d, whose numbers grads has. It overwrites what s has.
func (p *pass) blockBackward(l, d *decoder.Layer, grads *network, s *saved, dx cuda.Pointer) {
	defer p.mem.Back(p.mem.Mark())
	c, n, h := p.Config, p.tokens, p.Config.Hidden

	x, da, dnorm := p.norm(s.mid, l.FFNNorm), p.mem.floats(n*c.FFN), p.states()
	p.projectBackward(&l.Down, &d.Down, grads, n, p.activations(n, s.gateUp), dx, da)
	p.g.launchDecoder(p.g.card.Columns(kernels.SwiGLUBackward, n, c.FFN), cuda.I(n), cuda.I(c.FFN), cuda.P(s.gateUp), cuda.P(da))
	p.projectBackward(&l.GateUp, &d.GateUp, grads, n, x, s.gateUp, dnorm)
	p.normBackward(n, 1, h, s.mid, l.FFNNorm, h, dnorm, h, true, dx, h, grads, d.FFNNorm)

	do, dqkv, q := p.mem.floats(n*p.heads()), p.mem.floats(n*p.row()), p.heads()
	p.projectBackward(&l.Out, &d.Out, grads, n, s.attn, dx, do)
	p.attendBackward(s, do, dqkv)
	p.rotate(n, dqkv, p.cos, p.sin, -1)
	if l.QNorm != nil {
		w := p.row()
		p.normBackward(n, c.Heads, c.HeadDim, s.raw, l.QNorm, w, dqkv, w, false, dqkv, w, grads, d.QNorm)
		p.normBackward(n, c.KVHeads, c.HeadDim, s.raw.Add(q), l.KNorm, w, dqkv.Add(q), w, false, dqkv.Add(q), w, grads, d.KNorm)
	}
	if d.QKVBias != nil {
		p.addColSum(n, p.row(), dqkv, 0, grads.at(d.QKVBias))
	}
	x = p.norm(s.in, l.AttnNorm)
	p.projectBackward(&l.QKV, &d.QKV, grads, n, x, dqkv, dnorm)
	p.normBackward(n, 1, h, s.in, l.AttnNorm, h, dnorm, h, true, dx, h, grads, d.AttnNorm)
}

// attendBackward writes the gradients of queries, keys and values to dqkv, from do, that of the
// outputs of attention.
func (p *pass) attendBackward(s *saved, do, dqkv cuda.Pointer) {
	g, scale := p.g, cuda.F(p.scale())
	delta := p.mem.floats(p.tokens * p.Config.Heads)
	g.launchOf(p.attention, p.plan.Delta(p.tokens), cuda.I(p.tokens), cuda.P(s.attn), cuda.P(do), cuda.P(delta))
	g.launchOf(p.attention, p.plan.BackwardQ(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.seenAt), cuda.P(p.seen), scale,
		cuda.P(s.qkv), cuda.P(do), cuda.P(s.lse), cuda.P(delta), cuda.P(dqkv))
	g.launchOf(p.attention, p.plan.BackwardKV(p.tiles.Tasks()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.task), cuda.P(p.seenBy), scale,
		cuda.P(s.qkv), cuda.P(do), cuda.P(s.lse), cuda.P(delta), cuda.P(p.sum))
	g.launchOf(p.attention, p.plan.SumKV(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.taskAt), cuda.P(p.sum), cuda.P(dqkv))
}

// addColSum adds Σ weight[i]·x[i] over the rows of x (rows×width) to out; weight 0 counts as 1.
func (n *network) addColSum(rows, width int, x, weight, out cuda.Pointer) {
	if err := n.g.colSum(rows, width, x, weight, true, out); err != nil {
		_ = n.g.dev.Fail(err)
	}
}
