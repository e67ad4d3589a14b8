package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// cpu computes with pkg/model/kernel, on the slices of the weights themselves.
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

// buffer is an output on the CPU: a tensor and its slice.
type buffer struct {
	t    *tensor.Dense
	data []float32
}

func newBuffer(shape ...int) *buffer {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	return &buffer{tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data)), data}
}

func floats(v G.Value) []float32 { return v.Data().([]float32) }
func ints(v G.Value) []int       { return v.Data().([]int) }

// A task runs all steps of a chunk of sequences. Sequences are independent, so tasks never wait,
// the states stay in the cache, and the chunk size does not change the bits.
const (
	maxChunk = 36 // of sequences: a multiple of the tiles' height
	minChunk = 12 // below this the tiles' overhead outweighs a second thread
)

// chunkSize cuts n sequences into chunks of equal size that divide evenly among the
// threads.
func chunkSize(n, threads int) int {
	chunks := (n + maxChunk - 1) / maxChunk
	if r := chunks % threads; r > 0 {
		chunks += threads - r
	}
	return min(max(minChunk, (n+chunks-1)/chunks), maxChunk)
}
