package hf

import (
	"fmt"
	"strings"
)

// Shapes returns the tensors of a network by their Hugging Face names, in the order of
// the forward pass. Matrices are row-major, [out, in].
func (c *Config) Shapes() (names []string, shapes map[string][]int) {
	shapes = map[string][]int{}
	add := func(name string, shape ...int) {
		names = append(names, name)
		shapes[name] = shape
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add("model.embed_tokens.weight", c.Vocab, c.Hidden)
	for i := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", c.Hidden)
		for _, proj := range []struct { // next to each other, so that they can be one matrix
			name string
			out  int
		}{{"q", q}, {"k", kv}, {"v", kv}} {
			add(p+"self_attn."+proj.name+"_proj.weight", proj.out, c.Hidden)
		}
		for _, proj := range []string{"q", "k", "v"} {
			if c.QKVBias {
				add(p+"self_attn."+proj+"_proj.bias", shapes[p+"self_attn."+proj+"_proj.weight"][0])
			}
		}
		if c.QKNorm {
			add(p+"self_attn.q_norm.weight", c.HeadDim)
			add(p+"self_attn.k_norm.weight", c.HeadDim)
		}
		add(p+"self_attn.o_proj.weight", c.Hidden, q)
		add(p+"post_attention_layernorm.weight", c.Hidden)
		add(p+"mlp.gate_proj.weight", c.FFN, c.Hidden)
		add(p+"mlp.up_proj.weight", c.FFN, c.Hidden)
		add(p+"mlp.down_proj.weight", c.Hidden, c.FFN)
	}
	add("model.norm.weight", c.Hidden)
	if !c.Tied {
		add("lm_head.weight", c.Vocab, c.Hidden)
	}
	if c.Score {
		add(ScoreWeight, 1, c.Hidden)
	}
	return names, shapes
}

// ggufPart maps the parts of Hugging Face names to those of GGUF files.
var ggufPart = strings.NewReplacer(
	"model.embed_tokens.", "token_embd.", "lm_head.", "output.", "model.norm.", "output_norm.", "model.layers.", "blk.",
	"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
	"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
	"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
)

// ggufName is the name in a GGUF file of a tensor with a Hugging Face name.
func ggufName(name string) string { return ggufPart.Replace(name) }

// permuted says that a GGUF file holds the rows of a tensor in another order: its
// converter interleaves the two halves of each query and key head of Llama networks.
func permuted(arch, name string) bool {
	return arch == "llama" && (strings.Contains(name, "self_attn.q_proj") || strings.Contains(name, "self_attn.k_proj"))
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
