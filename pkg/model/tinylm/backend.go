package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// Backend is a [model.Device] that computes TinyLM. The CPU's is in this package; others are
// separate packages that implement Backend and the interfaces that it returns. Layouts: see
// [Segment] and [Ops].
type Backend interface {
	// Place stores p's numbers on the device: see [model.Params.Store].
	Place(p *model.Params) error
	// NewOps prepares the operations of one graph of w's form and capacity c. The
	// weights have been placed.
	NewOps(w *Weights, c Capacity) (Ops, error)
	// NewDecoder prepares sampling under w, which it places if needed.
	NewDecoder(w *Weights) Decoder
}

// backendOf returns the backend of a device; nil is the CPU with one thread.
func backendOf(on model.Device) Backend {
	switch d := on.(type) {
	case nil:
		return cpu{}
	case *kernel.Pool:
		return cpu{pool: d}
	case Backend:
		return d
	}
	panic(fmt.Sprintf("tinylm: a %T computes no TinyLM", on))
}

// Ops makes the operations of one graph. Each method returns an operation that owns its output and
// its gradients.
//
// All values are row-major float32 matrices or vectors, but for the integer inputs (int): the ids,
// Active, Start and Targets of [Packed], which are always on the host. "States" are packed: see
// [Segment]. Values have the sizes of the capacity; rows that the batch does not use are undefined.
//
// H is the hidden size, V the vocabulary.
type Ops interface {
	fused.Memory
	// Weight is the i-th of w.Tensors, not a copy.
	Weight(w *Weights, i int) *tensor.Dense
	// Load sets the batch of the next run.
	Load(b *Packed) error

	// Table is embedding·W_ihᵀ. Inputs: embedding (rows, in), W_ih (out, in).
	// Output: (rows, out), that is (V, 3H).
	Table(rows, in, out int) (fused.Op, error)
	// GRU is a layer over a segment. Inputs: the source; ids with a table, else
	// W_ih (3H, H); W_hh (3H, H); b_ih (3H); b_hh (3H); Active; with HasInit the
	// initial states (Sequences, H). Output: states, (Sequences + Inputs, H).
	GRU(s GRUSize) (fused.Op, error)
	// LastState gathers rows. Inputs: states of the prompts (states, width), Start,
	// Active of the prompts, Active of the completions. Output: (rows, width).
	LastState(states, width, rows int) (fused.Op, error)
	// Head is the policy's; inv is 1/temperature. Inputs: states (states, H), W
	// (V, H), b (V), Targets, Active. Output: (2, states), row 0 log-probabilities
	// of the targets and row 1 entropies in nats, both packed.
	Head(states, hidden, vocab int, inv float32) (fused.Op, error)
	// ValueHead is the critic's. Inputs: states (states, H), w (1, H), b (1),
	// Active. Output: values, (1, states), packed.
	ValueHead(states, hidden int) (fused.Op, error)
	// AccumulateGrads adds gradients, in the order of sum.Tensors, to sum.
	AccumulateGrads(grads []G.Value, sum *model.Params) error
	// Close frees the memory of the operations.
	Close()
}

// Decoder is a device's part of a [Sampler].
type Decoder interface {
	// Refresh reads the weights again.
	Refresh()
	// Decode fills out, group completions of each prompt: those of prompt i are at
	// i·group to (i+1)·group. Tokens and LogProbs are empty, with a capacity of
	// opt.MaxTokens.
	Decode(out []model.Completion, prompts [][]int, group int, opt model.Sampling, draws model.Draws) error
	// Close frees the memory of the sampler.
	Close()
}

// Capacity is the size of a graph: sequences, inputs and steps of each segment.
type Capacity struct {
	Prompts, PromptInputs, PromptSteps int
	Rows, RowInputs, RowSteps          int // of the completions
}

// GRUSize is the size of a layer over one segment.
type GRUSize struct {
	Hidden    int
	Sequences int // capacity
	Inputs    int // capacity
	// Table means that the source is a table (SourceRows = V, 3H) indexed by ids: the embedding
	// times W_ih. Otherwise it is the states of the layer below, (SourceRows, H).
	Table      bool
	SourceRows int
	HasInit    bool // initial states are an input; else they are zeros
	Prompts    bool // over the prompts; else over the completions
}
