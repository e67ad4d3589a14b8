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

// Targets are the names of the modules that adapters can target: all linear layers.
func Targets() []string {
	var out []string
	for _, m := range new(Config).Modules() {
		out = append(out, m.Name)
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
	var out, b []AdapterTensor
	modules := c.Modules()
	for i := range c.Layers {
		for target, m := range modules {
			if slices.Contains(l.Targets, m.Name) {
				path := fmt.Sprintf("model.layers.%d.%s", i, m.path)
				t := AdapterTensor{Weight: path + ".weight", Layer: i, Target: target}
				t.Name, t.Shape = "base_model.model."+path+".lora_A.weight", []int{l.Rank, m.In}
				out = append(out, t)
				t.Name, t.Shape, t.B = "base_model.model."+path+".lora_B.weight", []int{m.Out, l.Rank}, true
				b = append(b, t)
			}
			if target+1 == len(modules) || modules[target+1].Role != m.Role { // the end of a matrix
				out, b = append(out, b...), nil
			}
		}
	}
	return out
}
