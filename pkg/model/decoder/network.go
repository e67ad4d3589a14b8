// Package decoder is a decoder-only transformer of the Llama and Qwen families: RMSNorm,
// rotary positions, grouped-query attention and SwiGLU. It reads trees of token
// segments: what several sequences share (a system prompt, a prompt) is computed once,
// forward and backward.
package decoder

import (
	"fmt"
	"math"

	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// Network holds the parameters of a decoder. Matrices are row-major, [out, in].
type Network struct {
	Config *hf.Config
	embed  []float32 // (vocabulary, hidden)
	layers []layer
	norm   []float32 // (hidden)
	head   []float32 // (vocabulary, hidden); the embedding where the two are tied
	named  map[string][]float32
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

// newNetwork allocates the parameters of a network, all zero.
func newNetwork(c *hf.Config) *Network {
	n := &Network{Config: c, layers: make([]layer, c.Layers), named: map[string][]float32{}, freqs: c.Frequencies()}
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	zeros := func(size int) []float32 { return make([]float32, size) }
	n.embed, n.norm = zeros(c.Vocab*h), zeros(h)
	n.head = n.embed
	if !c.Tied {
		n.head = zeros(c.Vocab * h)
		n.named["lm_head.weight"] = n.head
	}
	n.named["model.embed_tokens.weight"], n.named["model.norm.weight"] = n.embed, n.norm
	for i := range n.layers {
		l := &n.layers[i]
		p := fmt.Sprintf("model.layers.%d.", i)
		l.attnNorm, l.qkv, l.out = zeros(h), zeros((q+2*kv)*h), zeros(h*q)
		l.ffnNorm, l.gateUp, l.down = zeros(h), zeros(2*c.FFN*h), zeros(h*c.FFN)
		if c.QKVBias {
			l.qkvBias = zeros(q + 2*kv)
		}
		if c.QKNorm {
			l.qNorm, l.kNorm = zeros(c.HeadDim), zeros(c.HeadDim)
			n.named[p+"self_attn.q_norm.weight"], n.named[p+"self_attn.k_norm.weight"] = l.qNorm, l.kNorm
		}
		for _, part := range []struct {
			name     string
			from, to int
		}{{"q", 0, q}, {"k", q, q + kv}, {"v", q + kv, q + 2*kv}} {
			n.named[p+"self_attn."+part.name+"_proj.weight"] = l.qkv[part.from*h : part.to*h]
			if c.QKVBias {
				n.named[p+"self_attn."+part.name+"_proj.bias"] = l.qkvBias[part.from:part.to]
			}
		}
		n.named[p+"self_attn.o_proj.weight"] = l.out
		n.named[p+"input_layernorm.weight"], n.named[p+"post_attention_layernorm.weight"] = l.attnNorm, l.ffnNorm
		n.named[p+"mlp.gate_proj.weight"], n.named[p+"mlp.up_proj.weight"] = l.gateUp[:c.FFN*h], l.gateUp[c.FFN*h:]
		n.named[p+"mlp.down_proj.weight"] = l.down
	}
	return n
}

// Load reads the weights of a checkpoint.
func Load(c *hf.Checkpoint) (*Network, error) {
	n := newNetwork(c.Config)
	names, _ := c.Config.Shapes()
	for _, name := range names {
		x, err := c.Read(name)
		if err != nil {
			return nil, err
		}
		copy(n.named[name], x)
	}
	return n, nil
}

// Parameters is the number of parameters; tied weights count once.
func (n *Network) Parameters() int {
	total := 0
	for _, x := range n.named {
		total += len(x)
	}
	return total
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
