package decoder

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A block of the network, written once for every device, forward and backward, training and
// sampling. The steps are those of transformers' decoder layers: attention and a feed-forward network
// with a gate, each added to the residual stream. Their input is normalised, or what they return, or both.

// Machine computes the steps of a block for a number of rows: the tokens of a tree, or the last token
// of each completion. V is a row-major float32 matrix in the memory of a device, (rows, ...).
type Machine[V any] interface {
	// Matrix returns memory for rows of this width, of any value, until [Machine.Back].
	Matrix(width int) V
	Mark() []int
	Back(mark []int)
	// Copy copies states, (rows, hidden). It does nothing if both are the same. Add adds them.
	Copy(to, from V)
	Add(to, from V)
	// Norm is the RMSNorm y of states x with the weights w. y may be x.
	Norm(x V, w []float32, y V)
	// Project is y = x·Wᵀ, or adds it to y.
	Project(m *Projection, x V, accumulate bool, y V)
	// Keep allocates what s needs besides the matrices that every machine has.
	Keep(l *Layer, s *Saved[V])
	// FinishQKV adds biases to s.QKV, normalises queries and keys, and rotates them.
	FinishQKV(l *Layer, s *Saved[V])
	// Attend writes the attention of layer i to s.Attn, from s.QKV.
	Attend(i int, s *Saved[V])
	// Gate is SwiGLU: y = silu(gate)·up, (rows, ffn); with [hf.Config.GELU] GeGLU.
	Gate(gateUp, y V)
}

// BackwardMachine is a machine that differentiates. Gradients of weights are added to the layers of
// a network of gradients; frozen weights have none.
type BackwardMachine[V any] interface {
	Machine[V]
	// NormBackward writes the gradient of x to dx, or adds it, and adds that of w to dw. It belongs to the
	// last call of [Machine.Norm].
	NormBackward(x V, w []float32, dy V, accumulate bool, dx V, dw []float32)
	// ProjectBackward writes the gradient of x to dx, and adds that of the parameters to g.
	ProjectBackward(m, g *Projection, x, dy, dx V)
	// FinishQKVBackward replaces dqkv by the gradient of what [Machine.FinishQKV] got.
	FinishQKVBackward(l, g *Layer, s *Saved[V], dqkv V)
	// AttendBackward writes the gradient of s.QKV in layer i to dqkv, from do, that of s.Attn.
	AttendBackward(i int, s *Saved[V], do, dqkv V)
	// GateBackward replaces gateUp by its gradient.
	GateBackward(gateUp, dy V)
}

// Saved is what the backward pass needs of a block. RMSNorms, the output of the gate, and what
// is normalised before it is added to the residual stream are not in it: they cost little to compute again.
type Saved[V any] struct {
	In, Mid V // the residual stream before attention and before the feed-forward network
	QKV     V // (rows, q + 2 kv), after the rotation
	Raw     V // the same before q/k norms and rotation; only with q/k norms
	Stats   V // what the machine keeps of q/k norms or of attention's softmax
	Attn    V // (rows, q)
	GateUp  V // (rows, 2 ffn)
}

// NewSaved allocates what a block keeps. The block replaces in if mid is the same matrix.
func NewSaved[V any](m Machine[V], n *Network, in, mid V) *Saved[V] {
	a := attentionOf(n.Config)
	s := &Saved[V]{In: in, Mid: mid, QKV: m.Matrix(a.width()), Attn: m.Matrix(a.q()),
		GateUp: m.Matrix(2 * n.Config.FFN)}
	m.Keep(&n.Layers[0], s)
	return s
}

// Gates computes a block from s.In up to the input of its gate, which is all that the backward pass
// needs.
func Gates[V any](m Machine[V], n *Network, i int, s *Saved[V]) {
	defer m.Back(m.Mark())
	l, x := &n.Layers[i], m.Matrix(n.Config.Hidden)
	m.Project(&l.QKV, normed(m, s.In, l.AttnNorm, x), false, s.QKV)
	m.FinishQKV(l, s)
	m.Attend(i, s)
	add(m, n, &l.Out, s.Attn, l.OutNorm, s.In, s.Mid)
	m.Project(&l.GateUp, normed(m, s.Mid, l.FFNNorm, x), false, s.GateUp)
}

// normed is the RMSNorm of x in y; x itself if w is nil.
func normed[V any](m Machine[V], x V, w []float32, y V) V {
	if w == nil {
		return x
	}
	m.Norm(x, w, y)
	return y
}

// add writes in + norm(W·a) to out, or in + W·a if the norm's weights w are nil.
func add[V any](m Machine[V], n *Network, p *Projection, a V, w []float32, in, out V) {
	m.Copy(out, in)
	if w == nil {
		m.Project(p, a, true, out)
		return
	}
	defer m.Back(m.Mark())
	y := m.Matrix(n.Config.Hidden)
	m.Project(p, a, false, y)
	m.Norm(y, w, y)
	m.Add(out, y)
}

// Block computes a block from s.In and writes the residual stream after it to out.
func Block[V any](m Machine[V], n *Network, i int, s *Saved[V], out V) {
	Gates(m, n, i, s)
	defer m.Back(m.Mark())
	a, l := m.Matrix(n.Config.FFN), &n.Layers[i]
	m.Gate(s.GateUp, a)
	add(m, n, &l.Down, a, l.DownNorm, s.Mid, out)
}

// BlockBackward replaces dx, the gradient of a block's output, by that of its input, and adds the
// gradients of its weights to grads. It overwrites what s has.
func BlockBackward[V any](m BackwardMachine[V], n, grads *Network, i int, s *Saved[V], dx V) {
	defer m.Back(m.Mark())
	c, a, l, g := n.Config, attentionOf(n.Config), &n.Layers[i], &grads.Layers[i]
	x, dnorm := m.Matrix(c.Hidden), m.Matrix(c.Hidden)

	activations, da := m.Matrix(c.FFN), m.Matrix(c.FFN)
	m.Gate(s.GateUp, activations)
	addBackward(m, n, &l.Down, &g.Down, activations, l.DownNorm, g.DownNorm, dx, da)
	m.GateBackward(s.GateUp, da)
	m.ProjectBackward(&l.GateUp, &g.GateUp, normed(m, s.Mid, l.FFNNorm, x), s.GateUp, dnorm)
	normedBackward(m, s.Mid, l.FFNNorm, g.FFNNorm, dnorm, dx)

	do, dqkv := m.Matrix(a.q()), m.Matrix(a.width())
	addBackward(m, n, &l.Out, &g.Out, s.Attn, l.OutNorm, g.OutNorm, dx, do)
	m.AttendBackward(i, s, do, dqkv)
	m.FinishQKVBackward(l, g, s, dqkv)
	m.ProjectBackward(&l.QKV, &g.QKV, normed(m, s.In, l.AttnNorm, x), dqkv, dnorm)
	normedBackward(m, s.In, l.AttnNorm, g.AttnNorm, dnorm, dx)
}

// normedBackward adds the gradient of [normed]'s x to dx, and that of w to dw, from dy.
func normedBackward[V any](m BackwardMachine[V], x V, w, dw []float32, dy, dx V) {
	if w == nil {
		m.Add(dx, dy)
	} else {
		m.NormBackward(x, w, dy, true, dx, dw)
	}
}

// addBackward writes the gradient of [add]'s a to da, and adds those of the parameters to g and dw, from
// dout. The gradient of in is dout.
func addBackward[V any](m BackwardMachine[V], n *Network, p, g *Projection, a V, w, dw []float32, dout, da V) {
	if w == nil {
		m.ProjectBackward(p, g, a, dout, da)
		return
	}
	defer m.Back(m.Mark())
	y, d := m.Matrix(n.Config.Hidden), m.Matrix(n.Config.Hidden)
	m.Project(p, a, false, y)
	m.Norm(y, w, d) // for what the machine keeps of it
	m.NormBackward(y, w, dout, false, d, dw)
	m.ProjectBackward(p, g, a, d, da)
}

// TreeMachine is a machine for the tokens of a tree, as operations of a graph.
type TreeMachine[V any] interface {
	BackwardMachine[V]
	// Do calls f where the device is worked on.
	Do(f func()) error
	// At is a value of the graph as a matrix, and Stream is states as a value.
	At(v G.Value) V
	Stream(x V) *tensor.Dense
	// GradientOf is a part of the gradients as a value; nil if the weights are frozen.
	GradientOf(x []float32, shape ...int) *tensor.Dense
	// Grad is memory for the gradient of the residual stream.
	Grad() V
}

// BlockOp is [Ops.Block] for a machine.
type BlockOp[V any] struct {
	M             TreeMachine[V]
	Net, Grads    *Network // Grads is nil without a backward pass
	Index         int
	Checkpointing bool // keep the input only
	Out           *V   // nil for memory of its own, which the next layer reads

	saved *Saved[V]
	mark  []int // of the memory before the layer
}

func (o *BlockOp[V]) Forward(in []G.Value) (G.Value, error) {
	err := o.M.Do(func() {
		if o.Out == nil {
			out := o.M.Matrix(o.Net.Config.Hidden)
			o.Out = &out
		}
		o.mark = o.M.Mark()
		o.saved = NewSaved(o.M, o.Net, o.M.At(in[0]), o.M.Matrix(o.Net.Config.Hidden))
		Block(o.M, o.Net, o.Index, o.saved, *o.Out)
		if o.Grads == nil || o.Checkpointing {
			o.M.Back(o.mark)
		}
	})
	return o.M.Stream(*o.Out), err
}

func (o *BlockOp[V]) AllocateGrads() ([]*tensor.Dense, error) {
	all := o.Grads.Layers[o.Index].All
	return []*tensor.Dense{o.M.Stream(o.M.Grad()), o.M.GradientOf(all, len(all))}, nil
}

func (o *BlockOp[V]) Backward(vals []G.Value) error {
	return o.M.Do(func() {
		if o.Checkpointing {
			o.saved = NewSaved(o.M, o.Net, o.M.At(vals[0]), o.M.Matrix(o.Net.Config.Hidden))
			Gates(o.M, o.Net, o.Index, o.saved)
		}
		BlockBackward(o.M, o.Net, o.Grads, o.Index, o.saved, o.M.Grad())
		o.M.Back(o.mark)
	})
}
