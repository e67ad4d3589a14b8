package hf

import (
	"fmt"
	"strings"
)

// Role is what tensors of a block are used for. Tensors of one role are next to each other, so that
// they are one matrix or one vector.
type Role int

// The roles, with the shape of the matrix or vector.
const (
	AttnNorm Role = iota // (hidden)
	QKV                  // (q + 2 kv, hidden)
	QKVBias              // (q + 2 kv)
	QNorm                // (head dim), or (q)
	KNorm                // (head dim), or (kv)
	Out                  // (hidden, q)
	OutNorm              // (hidden)
	FFNNorm              // (hidden)
	GateUp               // (2 ffn, hidden)
	Down                 // (hidden, ffn)
	DownNorm             // (hidden)
)

// Part is a tensor of a block.
type Part struct {
	Role
	Name  string // within the block, as Hugging Face names it: "self_attn.q_proj.weight"
	GGUF  string // the same in a GGUF file: "attn_q.weight"
	Shape []int  // matrices are row-major, [out, in]
}

// Block lists the tensors of a block in the order of the forward pass. It is the one description of
// a layer: the network's parameters, LoRA's targets and the names in files follow from it.
func (c *Config) Block() (parts []Part) {
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add := func(r Role, name, gguf, kind string, shape ...int) {
		parts = append(parts, Part{r, name + kind, gguf + kind, shape})
	}
	heads := []struct {
		name string
		out  int
	}{{"q", q}, {"k", kv}, {"v", kv}}
	before, after := c.Norms != NormAfter, c.Norms != NormBefore
	if before {
		add(AttnNorm, "input_layernorm", "attn_norm", ".weight", h)
	}
	for _, p := range heads {
		add(QKV, "self_attn."+p.name+"_proj", "attn_"+p.name, ".weight", p.out, h)
	}
	for _, p := range heads {
		if c.QKVBias {
			add(QKVBias, "self_attn."+p.name+"_proj", "attn_"+p.name, ".bias", p.out)
		}
	}
	if c.QKNorm {
		ofQ, ofK := c.HeadDim, c.HeadDim
		if c.WholeQKNorm {
			ofQ, ofK = q, kv
		}
		add(QNorm, "self_attn.q_norm", "attn_q_norm", ".weight", ofQ)
		add(KNorm, "self_attn.k_norm", "attn_k_norm", ".weight", ofK)
	}
	add(Out, "self_attn.o_proj", "attn_output", ".weight", h, q)
	if after {
		add(OutNorm, "post_attention_layernorm", "post_attention_norm", ".weight", h)
	}
	switch {
	case before && after:
		add(FFNNorm, "pre_feedforward_layernorm", "ffn_norm", ".weight", h)
	case before:
		add(FFNNorm, "post_attention_layernorm", "ffn_norm", ".weight", h) // after attention, not of its output
	}
	add(GateUp, "mlp.gate_proj", "ffn_gate", ".weight", c.FFN, h)
	add(GateUp, "mlp.up_proj", "ffn_up", ".weight", c.FFN, h)
	add(Down, "mlp.down_proj", "ffn_down", ".weight", h, c.FFN)
	if after {
		add(DownNorm, "post_feedforward_layernorm", "post_ffw_norm", ".weight", h)
	}
	return parts
}

// Tensor is a tensor of a network, by its names in a Hugging Face folder and in a GGUF file.
type Tensor struct {
	Name, GGUF string
	Shape      []int
}

// The embedding and the head, which are one tensor in a tied network.
const embedWeight, headWeight = "model.embed_tokens.weight", "lm_head.weight"

// Tensors lists the tensors of a network in the order of the forward pass.
func (c *Config) Tensors() []Tensor {
	out := []Tensor{{embedWeight, "token_embd.weight", []int{c.Vocab, c.Hidden}}}
	block := c.Block()
	for i := range c.Layers {
		for _, p := range block {
			out = append(out, Tensor{fmt.Sprintf("model.layers.%d.%s", i, p.Name), fmt.Sprintf("blk.%d.%s", i, p.GGUF), p.Shape})
		}
	}
	out = append(out, Tensor{"model.norm.weight", "output_norm.weight", []int{c.Hidden}})
	if !c.Tied {
		out = append(out, Tensor{headWeight, "output.weight", []int{c.Vocab, c.Hidden}})
	}
	if c.Score {
		out = append(out, Tensor{ScoreWeight, ScoreWeight, []int{1, c.Hidden}})
	}
	return out
}

// Shapes are the shapes of [Config.Tensors] by their Hugging Face names.
func (c *Config) Shapes() (names []string, shapes map[string][]int) {
	shapes = map[string][]int{}
	for _, t := range c.Tensors() {
		names = append(names, t.Name)
		shapes[t.Name] = t.Shape
	}
	return names, shapes
}

// Module is a linear layer of a block that an adapter can target.
type Module struct {
	Role
	Name    string // "q_proj"
	path    string // within its block: "self_attn.q_proj"
	In, Out int
}

// Modules are the linear layers of a block. Those of one role are next to each other and make one
// matrix.
func (c *Config) Modules() (out []Module) {
	for _, p := range c.Block() {
		if len(p.Shape) == 2 {
			at := strings.TrimSuffix(p.Name, ".weight")
			out = append(out, Module{p.Role, at[strings.Index(at, ".")+1:], at, p.Shape[1], p.Shape[0]})
		}
	}
	return out
}

// permuted says that a GGUF file holds the rows of a tensor in another order: its
// converter interleaves the two halves of each query and key head of some architectures.
func permuted(arch, name string) bool {
	a, err := byName(arch)
	return err == nil && a.permuted &&
		(strings.Contains(name, "self_attn.q_proj") || strings.Contains(name, "self_attn.k_proj"))
}

// unpermute restores the order of rows: row 2j+p of a head becomes row p*dim/2+j.
// x is [rows, width]; rows are heads of dim.
func unpermute(x []float32, rows, width, dim int) {
	head := make([]float32, dim*width)
	for h := 0; h < rows; h += dim {
		part := x[h*width : (h+dim)*width]
		copy(head, part)
		for j := range dim / 2 {
			for p := range 2 {
				copy(part[(p*dim/2+j)*width:(p*dim/2+j+1)*width], head[(2*j+p)*width:(2*j+p+1)*width])
			}
		}
	}
}
