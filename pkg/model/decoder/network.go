// Package decoder is a decoder-only transformer of the Llama, Qwen, OLMo and Gemma families:
// RMSNorm, rotary positions, grouped-query attention, with windows or without, and a gated
// feed-forward network. It reads trees of token
// segments: what several sequences share (a system prompt, a prompt) is computed once,
// forward and backward.
package decoder

import (
	"slices"

	"grpo/pkg/elementary"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// Network holds the parameters of a decoder: model.Params with Hugging Face's names, and
// views of them. Matrices are row-major, [out, in]. Under LoRA the parameters are those
// of the adapters, and the weights are frozen.
type Network struct {
	Config *hf.Config
	Params *model.Params
	LoRA   *hf.LoRA      // nil without
	Frozen *model.Params // under LoRA, the weights; nil if they are packed, as on the CPU
	Embed  []float32     // (vocabulary, hidden); nil if only the head holds it
	Layers []Layer
	Norm   []float32   // (hidden)
	Head   Projection  // the embedding where the two are tied
	BF16   bool        // the precision of its matmuls, except attention
	Ropes  [][]float64 // see [hf.Config.Ropes]
}

// Layer holds the parameters of a block. The query, key and value projections are one
// matrix, as are the gate and up projections.
type Layer struct {
	All          []float32  // the trainable ones, next to each other
	AttnNorm     []float32  // (hidden), or nil
	QKV          Projection // hidden to q + 2 kv
	QKVBias      []float32  // (q + 2 kv), or nil
	QNorm, KNorm []float32  // (head dim), or of all heads (q) and (kv), or nil
	Out          Projection // q to hidden
	OutNorm      []float32  // (hidden), or nil
	FFNNorm      []float32  // (hidden), or nil
	GateUp       Projection // hidden to 2 ffn
	Down         Projection // ffn to hidden
	DownNorm     []float32  // (hidden), or nil
	Window       int        // tokens that a token sees, itself included; 0 for all before it
	Rope         int        // which of the network's Ropes rotates queries and keys; -1 for none
}

// vector is the field of a role, for the roles whose tensors are vectors; nil for the others.
func (l *Layer) vector(r hf.Role) *[]float32 {
	return map[hf.Role]*[]float32{hf.AttnNorm: &l.AttnNorm, hf.QKVBias: &l.QKVBias, hf.QNorm: &l.QNorm,
		hf.KNorm: &l.KNorm, hf.OutNorm: &l.OutNorm, hf.FFNNorm: &l.FFNNorm, hf.DownNorm: &l.DownNorm}[r]
}

// matrix is the field of a role whose tensors are matrices.
func (l *Layer) matrix(r hf.Role) *Projection {
	return map[hf.Role]*Projection{hf.QKV: &l.QKV, hf.Out: &l.Out, hf.GateUp: &l.GateUp, hf.Down: &l.Down}[r]
}

func (l *Layer) matrices() []*Projection { return []*Projection{&l.QKV, &l.Out, &l.GateUp, &l.Down} }

// NewNetwork returns a network of parameters that are all zero.
func NewNetwork(c *hf.Config) *Network {
	names, shapes := c.Shapes()
	form := make([]model.Tensor, len(names))
	for i, name := range names {
		form[i] = model.Tensor{Name: name, Shape: shapes[name]}
	}
	return view(c, model.NewParams(form))
}

// view is the network of parameters in the order of [hf.Config.Shapes].
func view(c *hf.Config, params *model.Params) *Network {
	rest := params.Flat
	take := func(size int) []float32 {
		x := rest[:size:size]
		rest = rest[size:]
		return x
	}
	n := build(c, take, func(in, out int) Projection { return Projection{In: in, Out: out, W: take(in * out)} })
	n.Params = params
	layers := params.Flat[len(n.Embed) : len(params.Flat)-len(rest)-len(n.Norm)]
	if !c.Tied {
		layers = layers[:len(layers)-len(n.Head.W)]
	}
	size := len(layers) / c.Layers
	for i := range n.Layers {
		n.Layers[i].All = layers[i*size : (i+1)*size]
	}
	return n
}

// build makes a network of tensors and of matrices that it takes in the order of
// [hf.Config.Shapes].
func build(c *hf.Config, take func(size int) []float32, matrix func(in, out int) Projection) *Network {
	n := &Network{Config: c, Layers: make([]Layer, c.Layers), Ropes: c.Ropes()}
	h := c.Hidden
	n.Embed = take(c.Vocab * h)
	shapes := roles(c)
	for i := range n.Layers {
		n.Layers[i].Rope, n.Layers[i].Window = c.RopeOf(i), c.WindowOf(i)
		for _, p := range shapes {
			if v := n.Layers[i].vector(p.Role); v != nil {
				*v = take(p.Shape[0])
			} else {
				*n.Layers[i].matrix(p.Role) = matrix(p.Shape[1], p.Shape[0])
			}
		}
	}
	n.Norm, n.Head = take(h), Projection{In: h, Out: c.Vocab, W: n.Embed}
	if !c.Tied {
		n.Head = matrix(h, c.Vocab)
	}
	return n
}

// roles are the matrices and vectors of a layer: [hf.Config.Block] with the parts of a role joined.
func roles(c *hf.Config) (out []hf.Part) {
	for _, p := range c.Block() {
		if k := len(out) - 1; k >= 0 && out[k].Role == p.Role {
			out[k].Shape = slices.Clone(out[k].Shape)
			out[k].Shape[0] += p.Shape[0]
		} else {
			out = append(out, p)
		}
	}
	return out
}

// useBF16 makes every matmul with a weight matrix round its operands to bf16. The weights
// themselves stay float32.
func (n *Network) useBF16() {
	n.BF16, n.Head.bf16 = true, true
	for i := range n.Layers {
		for _, m := range n.Layers[i].matrices() {
			m.bf16 = true
		}
	}
}

// Load reads the weights of a checkpoint.
func Load(c *hf.Checkpoint) (*Network, error) { return load(c.Config, c.ReadInto) }

func load(c *hf.Config, read func(name string, out []float32) error) (*Network, error) {
	n := NewNetwork(c)
	for _, t := range n.Params.Tensors() {
		if err := read(t.Name, t.Data); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// embed writes the embedding of a token to x, (hidden).
func (n *Network) embed(id int, x []float32) {
	if n.Embed != nil {
		copy(x, n.Embed[id*len(x):(id+1)*len(x)])
	} else {
		n.Head.row(id, x)
	}
	if n.Config.ScaledEmbed {
		scale(n.Config.EmbedScale(), x)
	}
}

// Rotations fills the cosines and sines of positions, half a head's size each, for one of Ropes.
func (n *Network) Rotations(rope int, positions []int, cos, sin []float32) {
	freqs := n.Ropes[rope]
	half := len(freqs)
	for i, p := range positions {
		for j, f := range freqs {
			s, c := elementary.Sincos(float64(float32(p) * float32(f)))
			cos[i*half+j], sin[i*half+j] = float32(c), float32(s)
		}
	}
}
