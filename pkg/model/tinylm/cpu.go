package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// cpu computes by pkg/model/kernel, on the slices of the weights themselves.
type cpu struct{ pool *kernel.Pool }

func (c cpu) NewOps(*Weights, Capacity) (Ops, error) { return c, nil }
func (c cpu) Place(*model.Params) error              { return nil }
func (c cpu) VMOptions() []G.VMOpt                   { return nil }
func (c cpu) Load(*Packed) error                     { return nil }
func (c cpu) Read(v G.Value) ([]float32, error)      { return floats(v), nil }
func (c cpu) Close()                                 {}

func (c cpu) Weight(p *Weights, i int) *tensor.Dense {
	t := p.Tensors()[i]
	return tensor.New(tensor.WithShape(t.Shape...), tensor.WithBacking(t.Data))
}

func (c cpu) AccumulateGrads(grads []G.Value, sum *model.Params) error {
	for i, t := range sum.Tensors() {
		kernel.Axpy(1, floats(grads[i]), t.Data)
	}
	return nil
}
