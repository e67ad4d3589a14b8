package decoder

import (
	"fmt"

	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// Backend is a [model.Device] that computes decoders. The CPU's is in this package; others are
// separate packages that implement Backend and [Ops]. It runs one graph or sampler at a time.
type Backend interface {
	// Check returns an error that names the part of a network that the backend lacks, if there is one.
	Check(c *hf.Config) error
	// Place stores p's numbers on the device: see [model.Params.Store].
	Place(p *model.Params) error
	// NewTreeOps makes the operations of a graph of net over a tree. They are valid until the next
	// call. With grads the graph will be differentiated: operations add the gradients of weights to
	// grads. With checkpointing only the input of each layer is kept for the backward pass.
	NewTreeOps(net, grads *Network, t *Tree, checkpointing bool) (Ops, error)
	// NewSampler returns a sampler that ends a completion at the tokens of end.
	NewSampler(net *Network, end []int) model.Sampler
}

// backendOf returns the backend of a device.
func backendOf(on model.Device) Backend {
	switch d := on.(type) {
	case *kernel.Pool:
		return newCPU(d)
	case Backend:
		return d
	}
	panic(fmt.Sprintf("decoder: a %T computes no decoder", on))
}

// Ops makes the operations of a graph over one tree. All values are row-major float32 matrices on
// the device, (tokens, ...) with the tokens in the order of the tree. H is the hidden size, V the
// vocabulary. The gradient of the residual stream is one matrix that every operation replaces in
// turn.
type Ops interface {
	fused.Memory
	// Weight is x, a part of the network's parameters, as a value. It is not a copy.
	Weight(x []float32, shape ...int) *tensor.Dense
	// Embed looks tokens up. Input: the embedding, (V, H). Output: (tokens, H).
	Embed() fused.Op
	// Block is layer i. Inputs: the residual stream, (tokens, H); [Layer.All]. Output: (tokens, H).
	Block(i int) fused.Op
	// LogProbs is the last RMSNorm, the head and the softmax of logits / temperature, at places of
	// the tree. Inputs: the residual stream; the norm's weights (H); the head, (V, H). Output:
	// (2, places), the log-probabilities of targets and the entropies in nats. Each distribution is over
	// the tokens of kept, if that is not nil; only the CPU can restrict it.
	LogProbs(places, targets []int, kept []*model.Kept, temperature float64) fused.Op
	// Values is the last RMSNorm and a head of one output. Inputs: the residual stream; the norm's
	// weights (H); the head's, (H); its bias, (1). Output: (1, places).
	Values(places []int, head, grads ValueHead) fused.Op
}

// ValueHead holds the weights (hidden) and the bias (1) of a value head, or their gradients. The bias
// of a reward model is a zero that is no parameter.
type ValueHead struct{ W, Bias []float32 }
