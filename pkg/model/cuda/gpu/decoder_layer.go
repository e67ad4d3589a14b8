//go:build withcuda && linux

package gpu

import (
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
)

// rows is the part of a [decoder.Machine] that is the same for the tokens of a tree and for the last
// tokens of completions: everything but attention.
type rows struct {
	*network
	n        int
	rotation []rotation // of each of the network's Ropes
}

// rotation holds the cosines and sines of positions, (rows, dim/2).
type rotation struct{ cos, sin cuda.Pointer }

// newRotations allocates the rotations of the rows.
func (r *rows) newRotations() {
	for range r.Ropes {
		r.rotation = append(r.rotation, rotation{r.Matrix(r.Config.HeadDim / 2), r.Matrix(r.Config.HeadDim / 2)})
	}
}

// pass runs the layers of a network over a tree. All matrices are (tokens, ...), tokens in the order
// of the tree.
type pass struct {
	rows
	grads *network // nil without a backward pass
	tree  *decoder.Tree
	ids   cuda.Pointer // of the tokens

	tiles                                              *kernels.Tiles
	tile, low, seenAt, seen, task, taskAt, seenBy, sum cuda.Pointer // of tiles; sum: see attendBackward
}

// taskTiles bounds the tiles of queries of a task: see [kernels.TilesOf].
const taskTiles = 32

// newPass uploads a tree; backward says that the backward methods will be called.
func (n *network) newPass(t *decoder.Tree, backward bool) *pass {
	p := &pass{rows: rows{network: n, n: len(t.Tokens)}, tree: t, ids: upload(n.mem, t.Tokens)}
	positions, longest := make([]int32, len(t.Positions)), 0
	for i, at := range t.Positions {
		positions[i], longest = int32(at), max(longest, at+1)
	}
	half := n.Config.HeadDim / 2
	p.newRotations()
	lengths := make([]int, len(t.Segments))
	for s, segment := range t.Segments {
		lengths[s] = len(segment.Tokens)
	}
	p.tiles = kernels.TilesOf(t.Start, lengths, t.Context, n.plan.Tile, taskTiles)
	p.tile, p.low = upload(n.mem, p.tiles.Tile), upload(n.mem, p.tiles.Low)
	p.seenAt, p.seen = upload(n.mem, p.tiles.SeenAt), upload(n.mem, p.tiles.Seen)
	if backward {
		p.task, p.taskAt, p.seenBy = upload(n.mem, p.tiles.Task), upload(n.mem, p.tiles.TaskAt), upload(n.mem, p.tiles.SeenBy)
		p.sum = n.mem.floats(n.plan.Parts(p.tiles.Tasks()))
	}
	defer n.mem.Back(n.mem.Mark())
	at := upload(n.mem, positions)
	for i, table := range n.rotations(longest) {
		n.g.gather(p.n, half, at, table.cos, p.rotation[i].cos)
		n.g.gather(p.n, half, at, table.sin, p.rotation[i].sin)
	}
	return p
}

// rotations are the rotations of the positions up to a length, for each of the network's Ropes.
func (n *network) rotations(length int) (tables []rotation) {
	positions, size := make([]int, length), length*n.Config.HeadDim/2
	for i := range positions {
		positions[i] = i
	}
	for i := range n.Ropes {
		c, s := make([]float32, size), make([]float32, size)
		n.Rotations(i, positions, c, s)
		tables = append(tables, rotation{upload(n.mem, c), upload(n.mem, s)})
	}
	return tables
}

func (r *rows) Matrix(width int) cuda.Pointer { return r.mem.floats(r.n * width) }
func (r *rows) Mark() []int                   { return r.mem.Mark() }
func (r *rows) Back(mark []int)               { r.mem.Back(mark) }

func (r *rows) Copy(to, from cuda.Pointer) {
	if to != from {
		_ = r.g.dev.Copy(to, from, 4*r.n*r.Config.Hidden)
	}
}

func (r *rows) Add(to, from cuda.Pointer) { r.g.axpy(r.n*r.Config.Hidden, from, to) }

func (r *rows) Norm(x cuda.Pointer, w []float32, y cuda.Pointer) {
	h := r.Config.Hidden
	r.normHeads(r.n, 1, h, x, h, w, y, h)
}

func (r *rows) Project(m *decoder.Projection, x cuda.Pointer, accumulate bool, y cuda.Pointer) {
	r.project(m, r.n, x, accumulate, y)
}

func (r *rows) Gate(gateUp, y cuda.Pointer) {
	ffn := r.Config.FFN
	r.g.launchDecoder(r.g.card.Columns(kernels.SwiGLU, r.n, ffn), cuda.I(r.n), cuda.I(ffn), cuda.P(gateUp), cuda.P(y))
}

// states is memory for a matrix like the residual stream.
func (p *pass) states() cuda.Pointer { return p.Matrix(p.Config.Hidden) }

// norm is the RMSNorm of states, with the weights w.
func (p *pass) norm(x cuda.Pointer, w []float32) cuda.Pointer {
	y := p.states()
	p.Norm(x, w, y)
	return y
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
		cuda.F(float32(n.Config.NormEps)), cuda.P(dy), cuda.I(lddy), cuda.P(dx), cuda.I(lddx), flag(accumulate),
		cuda.I(parts.Tile), cuda.P(room))
	if dw != nil {
		n.g.launch(sum, cuda.I(sum.Tiles), cuda.I(width), cuda.P(room), cuda.P(grads.at(dw)), cuda.I(1))
	}
}

// Keep allocates the rows before q/k norms, and the logarithms of attention's sums.
func (p *pass) Keep(l *decoder.Layer, s *decoder.Saved[cuda.Pointer]) {
	if l.QNorm != nil && p.grads != nil {
		s.Raw = p.Matrix(p.row())
	}
	s.Stats = p.Matrix(p.Config.Heads)
}

func (r *rows) FinishQKV(l *decoder.Layer, s *decoder.Saved[cuda.Pointer]) {
	g, width := r.g, r.row()
	if l.QKVBias != nil {
		g.launchDecoder(g.card.Columns(kernels.AddRows, r.n, width), cuda.I(r.n), cuda.I(width), cuda.P(s.QKV), cuda.I(width),
			cuda.P(r.at(l.QKVBias)))
	}
	if l.QNorm != nil {
		if s.Raw != 0 {
			_ = g.dev.Copy(s.Raw, s.QKV, 4*r.n*width)
		}
		k := s.QKV.Add(r.heads())
		r.normHeads(r.n, r.heads()/len(l.QNorm), len(l.QNorm), s.QKV, width, l.QNorm, s.QKV, width)
		r.normHeads(r.n, r.keys()/len(l.KNorm), len(l.KNorm), k, width, l.KNorm, k, width)
	}
	r.rotate(l, s.QKV, 1)
}

func (p *pass) Attend(_ int, s *decoder.Saved[cuda.Pointer]) {
	p.g.launchOf(p.attention, p.plan.Forward(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.seenAt),
		cuda.P(p.seen), cuda.F(p.Config.AttentionScale()), cuda.P(s.QKV), cuda.P(s.Attn), cuda.P(s.Stats))
}

// rotate rotates queries and the keys, which follow them, or with sign -1 their gradients.
func (r *rows) rotate(l *decoder.Layer, qkv cuda.Pointer, sign float32) {
	if l.Rope < 0 {
		return
	}
	c, x := r.Config, r.rotation[l.Rope]
	r.g.launchDecoder(r.g.card.RoPE(r.n, c.Heads+c.KVHeads, c.HeadDim), cuda.I(r.n), cuda.I(c.Heads+c.KVHeads),
		cuda.I(c.HeadDim), cuda.P(qkv), cuda.I(r.row()), cuda.P(x.cos), cuda.P(x.sin), cuda.F(sign))
}

func (p *pass) NormBackward(x cuda.Pointer, w []float32, dy cuda.Pointer, accumulate bool, dx cuda.Pointer,
	dw []float32) {
	h := p.Config.Hidden
	p.normBackward(p.n, 1, h, x, w, h, dy, h, accumulate, dx, h, p.grads, dw)
}

func (p *pass) ProjectBackward(m, g *decoder.Projection, x, dy, dx cuda.Pointer) {
	p.projectBackward(m, g, p.grads, p.n, x, dy, dx)
}

func (p *pass) GateBackward(gateUp, dy cuda.Pointer) {
	ffn := p.Config.FFN
	p.g.launchDecoder(p.g.card.Columns(kernels.SwiGLUBackward, p.n, ffn), cuda.I(p.n), cuda.I(ffn), cuda.P(gateUp),
		cuda.P(dy))
}

func (p *pass) FinishQKVBackward(l, g *decoder.Layer, s *decoder.Saved[cuda.Pointer], dqkv cuda.Pointer) {
	n, w, q := p.n, p.row(), p.heads()
	p.rotate(l, dqkv, -1)
	if l.QNorm != nil {
		k, dk := s.Raw.Add(q), dqkv.Add(q)
		ofQ, ofK := len(l.QNorm), len(l.KNorm)
		p.normBackward(n, q/ofQ, ofQ, s.Raw, l.QNorm, w, dqkv, w, false, dqkv, w, p.grads, g.QNorm)
		p.normBackward(n, p.keys()/ofK, ofK, k, l.KNorm, w, dk, w, false, dk, w, p.grads, g.KNorm)
	}
	if g.QKVBias != nil {
		p.g.colSum(n, w, dqkv, 0, true, p.grads.at(g.QKVBias))
	}
}

func (p *pass) AttendBackward(_ int, s *decoder.Saved[cuda.Pointer], do, dqkv cuda.Pointer) {
	g, scale := p.g, cuda.F(p.Config.AttentionScale())
	delta := p.Matrix(p.Config.Heads)
	g.launchOf(p.attention, p.plan.Delta(p.n), cuda.I(p.n), cuda.P(s.Attn), cuda.P(do), cuda.P(delta))
	g.launchOf(p.attention, p.plan.BackwardQ(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.seenAt),
		cuda.P(p.seen), scale, cuda.P(s.QKV), cuda.P(do), cuda.P(s.Stats), cuda.P(delta), cuda.P(dqkv))
	g.launchOf(p.attention, p.plan.BackwardKV(p.tiles.Tasks()), cuda.P(p.tile), cuda.P(p.low), cuda.P(p.task),
		cuda.P(p.seenBy), scale, cuda.P(s.QKV), cuda.P(do), cuda.P(s.Stats), cuda.P(delta), cuda.P(p.sum))
	g.launchOf(p.attention, p.plan.SumKV(p.tiles.Count()), cuda.P(p.tile), cuda.P(p.taskAt), cuda.P(p.sum), cuda.P(dqkv))
}
