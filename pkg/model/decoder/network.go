// Package decoder is a decoder-only transformer of the Llama and Qwen families: RMSNorm,
// rotary positions, grouped-query attention and SwiGLU. It reads trees of token
// segments: what several sequences share (a system prompt, a prompt) is computed once,
// forward and backward.
package decoder

import (
	"math"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// Network holds the parameters of a decoder: model.Params with Hugging Face's names, and
// views of them. Matrices are row-major, [out, in]. Under LoRA the parameters are those
// of the adapters, and the weights are frozen.
type Network struct {
	Config *hf.Config
	Params *model.Params
	lora   *hf.LoRA  // nil without
	embed  []float32 // (vocabulary, hidden)
	layers []layer
	norm   []float32  // (hidden)
	head   projection // the embedding where the two are tied
	freqs  []float64
	bf16   bool // the precision of its matmuls, except attention
}

// layer holds the parameters of a block. The query, key and value projections are one
// matrix, as are the gate and up projections.
type layer struct {
	all          []float32  // the trainable ones, next to each other
	attnNorm     []float32  // (hidden)
	qkv          projection // hidden to q + 2 kv
	qkvBias      []float32  // (q + 2 kv), or nil
	qNorm, kNorm []float32  // (head dim), or nil
	out          projection // q to hidden
	ffnNorm      []float32  // (hidden)
	gateUp       projection // hidden to 2 ffn
	down         projection // ffn to hidden
}

// newNetwork returns a network of parameters that are all zero.
func newNetwork(c *hf.Config) *Network {
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
	n := build(c, take, func(in, out int) projection { return projection{in: in, out: out, w: take(in * out)} })
	n.Params = params
	layers := params.Flat[len(n.embed) : len(params.Flat)-len(rest)-len(n.norm)]
	if !c.Tied {
		layers = layers[:len(layers)-len(n.head.w)]
	}
	size := len(layers) / c.Layers
	for i := range n.layers {
		n.layers[i].all = layers[i*size : (i+1)*size]
	}
	return n
}

// build makes a network of tensors and of matrices that it takes in the order of
// [hf.Config.Shapes].
func build(c *hf.Config, take func(size int) []float32, matrix func(in, out int) projection) *Network {
	n := &Network{Config: c, layers: make([]layer, c.Layers), freqs: c.Frequencies()}
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	n.embed = take(c.Vocab * h)
	for i := range n.layers {
		l := &n.layers[i]
		l.attnNorm, l.qkv = take(h), matrix(h, q+2*kv)
		if c.QKVBias {
			l.qkvBias = take(q + 2*kv)
		}
		if c.QKNorm {
			l.qNorm, l.kNorm = take(c.HeadDim), take(c.HeadDim)
		}
		l.out, l.ffnNorm = matrix(q, h), take(h)
		l.gateUp, l.down = matrix(h, 2*c.FFN), matrix(c.FFN, h)
	}
	n.norm, n.head = take(h), projection{in: h, out: c.Vocab, w: n.embed}
	if !c.Tied {
		n.head = matrix(h, c.Vocab)
	}
	return n
}

// useBF16 makes every matmul with a weight matrix round its operands to bf16. The weights
// themselves stay float32.
func (n *Network) useBF16() {
	n.bf16, n.head.bf16 = true, true
	for i := range n.layers {
		l := &n.layers[i]
		for _, m := range []*projection{&l.qkv, &l.out, &l.gateUp, &l.down} {
			m.bf16 = true
		}
	}
}

// Load reads the weights of a checkpoint.
func Load(c *hf.Checkpoint) (*Network, error) {
	n := newNetwork(c.Config)
	for _, t := range n.Params.Tensors() {
		x, err := c.Read(t.Name)
		if err != nil {
			return nil, err
		}
		copy(t.Data, x)
	}
	return n, nil
}

// rotations fills the cosines and sines of positions, half a head's size each.
func (n *Network) rotations(positions []int, cos, sin []float32) {
	half := len(n.freqs)
	for i, p := range positions {
		for j, f := range n.freqs {
			s, c := math.Sincos(float64(float32(p) * float32(f)))
			cos[i*half+j], sin[i*half+j] = float32(c), float32(s)
		}
	}
}
