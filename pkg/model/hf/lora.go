package hf

import (
	"fmt"
	"math"
	"slices"
)

// LoRA is the form of low-rank adapters, in PEFT's terms: to the output of each target
// they add scale·B·A·x.
type LoRA struct {
	Rank      int
	Alpha     float64
	Targets   []string // of [Targets]
	UseRSLoRA bool
}

// Scale is alpha/rank, or alpha/√rank with rank-stabilised LoRA (Kalajdzievski, 2023).
func (l LoRA) Scale() float64 {
	if l.UseRSLoRA {
		return l.Alpha / math.Sqrt(float64(l.Rank))
	}
	return l.Alpha / float64(l.Rank)
}

// Module is a linear layer of a block that an adapter can target.
type Module struct {
	Name    string
	path    string // within its block
	In, Out int
}

// Modules are the linear layers of a block: the four matrices of the network, each with
// the modules whose rows it consists of.
func (c *Config) Modules() [4][]Module {
	h, q, kv, f := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, c.FFN
	attention := func(name string, in, out int) Module { return Module{name, "self_attn." + name, in, out} }
	mlp := func(name string, in, out int) Module { return Module{name, "mlp." + name, in, out} }
	return [4][]Module{
		{attention("q_proj", h, q), attention("k_proj", h, kv), attention("v_proj", h, kv)},
		{attention("o_proj", q, h)},
		{mlp("gate_proj", h, f), mlp("up_proj", h, f)},
		{mlp("down_proj", f, h)},
	}
}

// Targets are the names of the modules that adapters can target: all linear layers.
func Targets() []string {
	var out []string
	for _, matrix := range new(Config).Modules() {
		for _, m := range matrix {
			out = append(out, m.Name)
		}
	}
	return out
}

// AdapterTensor is one of the two matrices of a target.
type AdapterTensor struct {
	Name          string // as PEFT saves it
	Shape         []int  // A is (rank, in), B (out, rank)
	B             bool
	Weight        string // the tensor of the base that it adapts
	Layer, Target int    // Target is an index of [Targets]
}

// AdapterTensors lists the tensors of adapters in the order of the forward pass: for
// each matrix the A of its targets, then their B.
func (c *Config) AdapterTensors(l LoRA) []AdapterTensor {
	var out []AdapterTensor
	for i := range c.Layers {
		target := 0
		for _, matrix := range c.Modules() {
			var a, b []AdapterTensor
			for _, m := range matrix {
				if slices.Contains(l.Targets, m.Name) {
					path := fmt.Sprintf("model.layers.%d.%s", i, m.path)
					t := AdapterTensor{Weight: path + ".weight", Layer: i, Target: target}
					t.Name, t.Shape = "base_model.model."+path+".lora_A.weight", []int{l.Rank, m.In}
					a = append(a, t)
					t.Name, t.Shape, t.B = "base_model.model."+path+".lora_B.weight", []int{m.Out, l.Rank}, true
					b = append(b, t)
				}
				target++
			}
			out = append(append(out, a...), b...)
		}
	}
	return out
}
