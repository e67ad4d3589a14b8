package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// backend is what a device has to offer to this package.
type backend interface {
	// arithmetic prepares the operations of one graph over weights of p's form.
	arithmetic(p *Weights, c capacity) (arithmetic, error)
	// place makes the device the home of p's numbers: see [Weights.Pull].
	place(p *model.Params) error
	// decoder samples under p's weights.
	decoder(p *Weights) decoder
}

// arithmetic makes the operations of one graph: where their numbers live, and
// what computes them.
type arithmetic interface {
	// machine are Gorgonia's options for a graph of such values.
	machine() []G.VMOpt
	// weight is the i-th tensor of p, in place.
	weight(p *Weights, i int) *tensor.Dense
	// load brings the batch of the next run.
	load(p *packed) error

	table(rows, in, out int) (fused, error)
	gru(s gruSize) (fused, error)
	lastState(capStates, width, rowCap int) (fused, error)
	head(capRows, hidden, vocab int, inv float32) (fused, error)
	valueHead(capRows, hidden int) (fused, error)
	cost(shape tensor.Shape) (cost, error)

	// numbers returns an output on the host.
	numbers(v G.Value) ([]float32, error)
	// accumulate adds gradients, in the order of Weights.Tensors, to sum.
	accumulate(grads []G.Value, sum *model.Params) error
	// close frees what the operations took.
	close()
}

func backendOf(on model.Device) backend {
	switch d := on.(type) {
	case nil:
		return cpu{}
	case *kernel.Pool:
		return cpu{d}
	case backend:
		return d
	}
	panic(fmt.Sprintf("model: %T is no device", on))
}

// cpu computes by pkg/model/kernel, on the slices of the weights themselves.
type cpu struct{ pool *kernel.Pool }

func (c cpu) arithmetic(*Weights, capacity) (arithmetic, error) { return c, nil }
func (c cpu) place(*model.Params) error                         { return nil }
func (c cpu) machine() []G.VMOpt                                { return nil }
func (c cpu) load(*packed) error                                { return nil }
func (c cpu) numbers(v G.Value) ([]float32, error)              { return floats(v), nil }
func (c cpu) close()                                            {}

func (c cpu) weight(p *Weights, i int) *tensor.Dense {
	t := p.Tensors()[i]
	return tensor.New(tensor.WithShape(t.Shape...), tensor.WithBacking(t.Data))
}

func (c cpu) accumulate(grads []G.Value, sum *model.Params) error {
	for i, t := range sum.Tensors() {
		kernel.Axpy(1, floats(grads[i]), t.Data)
	}
	return nil
}

// GPU is a device that [OpenGPU] opened.
type GPU interface {
	model.Device
	// Name is the card's, e.g. "NVIDIA H200".
	Name() string
	// Precision is that of matrix products: float32, tf32 or bf16.
	Precision() string
	// String describes card, precision and libraries in one line.
	String() string
	// Memory says how much of the card's memory is in use.
	Memory() GPUMemory
}

// GPUMemory is in bytes. InUse and Requests do not grow from step to step once
// the largest batch has been seen.
type GPUMemory struct {
	InUse    int // given out to models
	Requests int // made of the driver, counted
	Free     int // on the card, whoever has the rest
}
