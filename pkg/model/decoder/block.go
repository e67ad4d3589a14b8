package decoder

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A block of the network, written once for every device, forward and backward, training and
// sampling. The steps are those of transformers' LlamaDecoderLayer: a normalised input, attention
// and a feed-forward network with a gate, each added to the residual stream.

// Machine computes the steps of a block for a number of rows: the tokens of a tree, or the last token
// of each completion. V is a row-major float32 matrix in the memory of a device, (rows, ...).
type Machine[V any] interface {
	// Matrix returns memory for rows of this width, of any value, until [Machine.Back].
	Matrix(width int) V
	Mark() []int
	Back(mark []int)
	// Copy copies states, (rows, hidden). It does nothing if both are the same.
	Copy(to, from V)
	// Norm is the RMSNorm y of states x with the weights w.
	Norm(x V, w []float32, y V)
	// Project is y = x·Wᵀ, or adds it to y.
	Project(m *Projection, x V, accumulate bool, y V)
	// Keep allocates what s needs besides the matrices that every machine has.
	Keep(l *Layer, s *Saved[V])
	// FinishQKV adds biases to s.QKV, normalises queries and keys, and rotates them.
	FinishQKV(l *Layer, s *Saved[V])
	// Attend writes the attention of layer i to s.Attn, from s.QKV.
	Attend(i int, s *Saved[V])
	// Gate is SwiGLU: y = silu(gate)·up, (rows, ffn).
	Gate(gateUp, y V)
}

// BackwardMachine is a machine that differentiates. Gradients of weights are added to the layers of
// a network of gradients; frozen weights have none.
type BackwardMachine[V any] interface {
	Machine[V]
	// NormBackward adds the gradient of x to dx, and that of w to dw. It belongs to the last call of
	// [Machine.Norm].
	NormBackward(x V, w []float32, dy, dx V, dw []float32)
	// ProjectBackward writes the gradient of x to dx, and adds that of the parameters to g.
	ProjectBackward(m, g *Projection, x, dy, dx V)
	// FinishQKVBackward replaces dqkv by the gradient of what [Machine.FinishQKV] got.
	FinishQKVBackward(l, g *Layer, s *Saved[V], dqkv V)
	// AttendBackward writes the gradient of s.QKV to dqkv, from do, that of s.Attn.
	AttendBackward(s *Saved[V], do, dqkv V)
	// GateBackward replaces gateUp by its gradient.
	GateBackward(gateUp, dy V)
}

// Saved is what the backward pass needs of a block. RMSNorms and the output of the gate are not in
// it: they cost little to compute again.
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
	m.Norm(s.In, l.AttnNorm, x)
	m.Project(&l.QKV, x, false, s.QKV)
	m.FinishQKV(l, s)
	m.Attend(i, s)
	m.Copy(s.Mid, s.In)
	m.Project(&l.Out, s.Attn, true, s.Mid)
	m.Norm(s.Mid, l.FFNNorm, x)
	m.Project(&l.GateUp, x, false, s.GateUp)
}

// Block computes a block from s.In and writes the residual stream after it to out.
func Block[V any](m Machine[V], n *Network, i int, s *Saved[V], out V) {
	Gates(m, n, i, s)
	defer m.Back(m.Mark())
	a := m.Matrix(n.Config.FFN)
	m.Gate(s.GateUp, a)
	m.Copy(out, s.Mid)
	m.Project(&n.Layers[i].Down, a, true, out)
}

// BlockBackward replaces dx, the gradient of a block's output, by that of its input, and adds the
// gradients of its weights to grads. It overwrites what s has.
func BlockBackward[V any](m BackwardMachine[V], n, grads *Network, i int, s *Saved[V], dx V) {
	defer m.Back(m.Mark())
	c, a, l, g := n.Config, attentionOf(n.Config), &n.Layers[i], &grads.Layers[i]
	x, dnorm := m.Matrix(c.Hidden), m.Matrix(c.Hidden)

	activations, da := m.Matrix(c.FFN), m.Matrix(c.FFN)
	m.Gate(s.GateUp, activations)
	m.ProjectBackward(&l.Down, &g.Down, activations, dx, da)
	m.GateBackward(s.GateUp, da)
	m.Norm(s.Mid, l.FFNNorm, x)
	m.ProjectBackward(&l.GateUp, &g.GateUp, x, s.GateUp, dnorm)
	m.NormBackward(s.Mid, l.FFNNorm, dnorm, dx, g.FFNNorm)

	do, dqkv := m.Matrix(a.q()), m.Matrix(a.width())
	m.ProjectBackward(&l.Out, &g.Out, s.Attn, dx, do)
	m.AttendBackward(s, do, dqkv)
	m.FinishQKVBackward(l, g, s, dqkv)
	m.Norm(s.In, l.AttnNorm, x)
	m.ProjectBackward(&l.QKV, &g.QKV, x, dqkv, dnorm)
	m.NormBackward(s.In, l.AttnNorm, dnorm, dx, g.AttnNorm)
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
