// Package decoder is a decoder-only transformer of the Llama and Qwen families: RMSNorm,
// rotary positions, grouped-query attention and SwiGLU. It reads trees of token
// segments: what several sequences share (a system prompt, a prompt) is computed once,
// forward and backward.
package decoder

import (
	"math"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// Network holds the parameters of a decoder: model.Params with Hugging Face's names, and
// views of them. Matrices are row-major, [out, in].
type Network struct {
	Config *hf.Config
	Params *model.Params
	embed  []float32 // (vocabulary, hidden)
	layers []layer
	norm   []float32 // (hidden)
	head   []float32 // (vocabulary, hidden); the embedding where the two are tied
	freqs  []float64
}

// layer holds the parameters of a block. The query, key and value projections are one
// matrix, as are the gate and up projections.
type layer struct {
	attnNorm     []float32 // (hidden)
	qkv          []float32 // (q + 2 kv, hidden)
	qkvBias      []float32 // (q + 2 kv), or nil
	qNorm, kNorm []float32 // (head dim), or nil
	out          []float32 // (hidden, q)
	ffnNorm      []float32 // (hidden)
	gateUp       []float32 // (2 ffn, hidden)
	down         []float32 // (hidden, ffn)
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
	n := &Network{Config: c, Params: params, layers: make([]layer, c.Layers), freqs: c.Frequencies()}
	rest := params.Flat
	take := func(size int) []float32 {
		x := rest[:size:size]
		rest = rest[size:]
		return x
	}
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	n.embed = take(c.Vocab * h)
	for i := range n.layers {
		l := &n.layers[i]
		l.attnNorm, l.qkv = take(h), take((q+2*kv)*h)
		if c.QKVBias {
			l.qkvBias = take(q + 2*kv)
		}
		if c.QKNorm {
			l.qNorm, l.kNorm = take(c.HeadDim), take(c.HeadDim)
		}
		l.out, l.ffnNorm = take(h*q), take(h)
		l.gateUp, l.down = take(2*c.FFN*h), take(h*c.FFN)
	}
	n.norm, n.head = take(h), n.embed
	if !c.Tied {
		n.head = take(c.Vocab * h)
	}
	return n
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

// linear is y = x·Wᵀ for rows of x: x is (rows, in), w (out, in), y (rows, out).
func linear(p *kernel.Pool, rows, in, out int, x, w []float32, accumulate bool, y []float32) {
	p.Gemm(false, true, rows, out, in, x, in, w, in, accumulate, y, out)
}

// linearBackward adds to dw the gradient of [linear]'s weights and writes that of its
// input to dx, or adds it; nil is left out.
func linearBackward(p *kernel.Pool, rows, in, out int, x, w, dy []float32, accumulate bool, dx, dw []float32) {
	if dw != nil {
		p.Gemm(true, false, out, in, rows, dy, out, x, in, true, dw, in)
	}
	if dx != nil {
		p.Gemm(false, false, rows, in, out, dy, out, w, in, accumulate, dx, in)
	}
}
