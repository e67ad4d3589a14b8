// Package model is the policy: TinyLM, a small recurrent language model
// (embedding, GRU layers, linear head), as a Gorgonia graph for learning and as
// a plain loop for sampling, with AdamW and checkpoints.
//
// The graph is few, fused nodes. For each of the two segments of a batch, the
// prompts (once for a group) and the completions:
//
//	linear(embedding, W_ih)  -> embed -> gru -> linear -> gru ...
//	                                      |
//	prompts' last states: lastState ------+--> the completions' first states
//	completions' top states -> headLogProb -> policyLoss
//
// Gorgonia builds the graph, differentiates through it and adds the gradients
// of weights that are used twice; the arithmetic of every node is in kernel/,
// and what a loss is, is pkg/rl's business ([Objective]).
package model

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// Learner computes gradients of a TinyLM. The graph is built for a capacity,
// not for a batch: lengths are inputs, so batches of any shape within it reuse
// the graph, and a larger one builds it anew.
type Learner struct {
	Params *Params
	// Grads accumulates over calls of Accumulate until ZeroGrads.
	Grads *Params

	pool        *kernel.Pool
	temperature float64
	capacity    capacity
	graph       *graph

	packed    packed
	objective Objective
	tokens    TokenMatrix
	loss      float64
}

// capacity is the size of a graph: sequences, inputs and steps of each segment.
type capacity struct {
	prompts, promptInputs, promptSteps int
	rows, rowInputs, rowSteps          int
}

func (c capacity) holds(d capacity) bool {
	return d.prompts <= c.prompts && d.promptInputs <= c.promptInputs && d.promptSteps <= c.promptSteps &&
		d.rows <= c.rows && d.rowInputs <= c.rowInputs && d.rowSteps <= c.rowSteps
}

// grow returns a capacity that holds both, with an eighth of room where it
// had to grow, so that batches that creep up don't build a graph each time.
func (c capacity) grow(d capacity) capacity {
	up := func(have, need int) int {
		if need <= have {
			return have
		}
		return need + need/8 + 1
	}
	return capacity{
		up(c.prompts, d.prompts), up(c.promptInputs, d.promptInputs), up(c.promptSteps, d.promptSteps),
		up(c.rows, d.rows), up(c.rowInputs, d.rowInputs), up(c.rowSteps, d.rowSteps),
	}
}

// NewLearner returns a learner of p's weights, which it reads at every pass and
// never writes. Temperature divides the logits, as in sampling.
func NewLearner(p *Params, temperature float64, pool *kernel.Pool) (*Learner, error) {
	if !(temperature > 0) {
		return nil, fmt.Errorf("new learner: temperature %v must be above 0", temperature)
	}
	g, err := NewParams(p.Spec)
	if err != nil {
		return nil, err
	}
	return &Learner{Params: p, Grads: g, pool: pool, temperature: temperature}, nil
}

// ZeroGrads forgets the accumulated gradients.
func (l *Learner) ZeroGrads() { clear(l.Grads.Flat) }

// Close frees the graph's machine.
func (l *Learner) Close() error {
	if l.graph == nil {
		return nil
	}
	return l.graph.vm.Close()
}

// Accumulate runs the batch forward, asks the objective for the loss and its
// gradient, runs backward and adds the weights' gradients to Grads. It returns
// the loss.
func (l *Learner) Accumulate(batch *Batch, objective Objective) (float64, error) {
	if err := l.packed.pack(batch, l.Params.Vocab); err != nil {
		return 0, err
	}
	need := l.packed.capacity()
	if l.graph == nil || !l.capacity.holds(need) {
		if err := l.rebuild(l.capacity.grow(need)); err != nil {
			return 0, err
		}
	}
	l.objective = objective
	l.graph.in.fill(&l.packed)
	l.graph.vm.Reset()
	if err := l.graph.vm.RunAll(); err != nil {
		return 0, fmt.Errorf("run the graph: %w", err)
	}
	for i, t := range l.Grads.Tensors() {
		kernel.Axpy(1, floats(l.graph.grads[i].Value()), t.Data)
	}
	return l.loss, nil
}

func (p *packed) capacity() capacity {
	n, in, steps := sizes(p.prompt.active)
	rows, rin, rsteps := sizes(p.completion.active)
	return capacity{n, in, steps, rows, max(rin, 1), max(rsteps, 1)}
}

func (l *Learner) rebuild(c capacity) error {
	if err := l.Close(); err != nil {
		return err
	}
	g, err := newGraph(l, c)
	if err != nil {
		return fmt.Errorf("build the graph: %w", err)
	}
	l.graph, l.capacity = g, c
	return nil
}

// inputs are the integer inputs of the graph; their slices are the tensors'.
type inputs struct {
	promptIDs, promptActive          []int
	rowIDs, rowActive, start, target []int
}

func (in *inputs) fill(p *packed) {
	set := func(to, from []int) {
		clear(to[copy(to, from):])
	}
	set(in.promptIDs, p.prompt.ids)
	set(in.promptActive, p.prompt.active)
	set(in.rowIDs, p.completion.ids)
	set(in.rowActive, p.completion.active)
	set(in.start, p.start)
	set(in.target, p.targets)
}

// graph is a compiled Gorgonia graph with its inputs and gradient nodes.
type graph struct {
	vm    G.VM
	in    inputs
	grads G.Nodes // in the order of Params.Tensors
}

// builder adds nodes to a graph and remembers the first failure.
type builder struct {
	g    *G.ExprGraph
	pool *kernel.Pool
	err  error
}

// input is a node whose value is the given slice, read at every run.
func (b *builder) input(name string, of tensor.Dtype, backing any, shape ...int) *G.Node {
	n := G.NewTensor(b.g, of, len(shape), G.WithShape(shape...), G.WithName(name))
	if err := G.Let(n, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))); err != nil && b.err == nil {
		b.err = fmt.Errorf("bind %s: %w", name, err)
	}
	return n
}

func (b *builder) weights(p *Params) G.Nodes {
	var nodes G.Nodes
	for _, t := range p.Tensors() {
		nodes = append(nodes, b.input(t.Name, tensor.Float32, t.Data, t.Shape...))
	}
	return nodes
}

func (b *builder) index(name string, n int, to *[]int) *G.Node {
	*to = make([]int, n)
	return b.input(name, tensor.Int, *to, n)
}

// newGraph lays the network out; see the package comment for its shape.
func newGraph(l *Learner, c capacity) (*graph, error) {
	b := &builder{g: G.NewGraph(), pool: l.pool}
	out := &graph{}
	w := b.weights(l.Params)
	promptIDs := b.index("prompt.ids", c.promptInputs, &out.in.promptIDs)
	promptActive := b.index("prompt.active", c.promptSteps+1, &out.in.promptActive)
	rowIDs := b.index("completion.ids", c.rowInputs, &out.in.rowIDs)
	rowActive := b.index("completion.active", c.rowSteps+1, &out.in.rowActive)
	start := b.index("completion.start", c.rows, &out.in.start)
	targets := b.index("completion.targets", c.rows+c.rowInputs, &out.in.target)

	type layer struct{ wih, whh, bih, bhh *G.Node }
	layers := make([]layer, l.Params.Layers)
	for i := range layers {
		layers[i] = layer{w[1+4*i], w[2+4*i], w[3+4*i], w[4+4*i]}
	}
	table := b.linear("table", w[0], layers[0].wih, nil, l.Params.Vocab)
	promptX := b.embed("prompt.embed", table, promptIDs, promptActive, c.promptInputs)
	rowX := b.embed("completion.embed", table, rowIDs, rowActive, c.rowInputs)
	var promptH, rowH *G.Node
	for i, w := range layers {
		name := func(op string) string { return fmt.Sprintf("%s%d", op, i) }
		if i > 0 {
			promptX = b.linear(name("prompt.linear"), promptH, w.wih, promptActive, c.promptInputs)
			rowX = b.linear(name("completion.linear"), rowH, w.wih, rowActive, c.rowInputs)
		}
		promptH = b.gru(name("prompt.gru"), promptX, nil, w.whh, w.bih, w.bhh, promptActive, c.prompts, c.promptInputs)
		first := b.lastState(name("lastState"), promptH, start, promptActive, rowActive, c.rows)
		rowH = b.gru(name("completion.gru"), rowX, first, w.whh, w.bih, w.bhh, rowActive, c.rows, c.rowInputs)
	}
	logp := b.head(rowH, w[len(w)-2], w[len(w)-1], targets, rowActive, l.temperature)
	loss := b.policyLoss(logp, l)
	if b.err != nil {
		return nil, b.err
	}
	var err error
	if out.grads, err = G.Grad(loss, w...); err != nil {
		return nil, fmt.Errorf("differentiate: %w", err)
	}
	out.vm = G.NewTapeMachine(b.g)
	return out, nil
}
