package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// cpu computes with pkg/model/kernel, on the slices of the weights themselves.
type cpu struct{ pool *kernel.Pool }

func (c cpu) NewOps(*Weights, Capacity) (Ops, error)  { return c, nil }
func (c cpu) Place(*model.Params) error               { return nil }
func (c cpu) VMOptions() []G.VMOpt                    { return nil }
func (c cpu) Load(*Packed) error                      { return nil }
func (c cpu) Read(v G.Value) ([]float32, error)       { return fused.Floats(v), nil }
func (c cpu) Loss(shape tensor.Shape) (LossIO, error) { return fused.HostLoss(shape), nil }
func (c cpu) Close()                                  {}

func (c cpu) Weight(p *Weights, i int) *tensor.Dense {
	t := p.Tensors()[i]
	return fused.Dense(t.Data, t.Shape...)
}

func (c cpu) AccumulateGrads(grads []G.Value, sum *model.Params) error {
	for i, t := range sum.Tensors() {
		kernel.Axpy(1, fused.Floats(grads[i]), t.Data)
	}
	return nil
}

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
