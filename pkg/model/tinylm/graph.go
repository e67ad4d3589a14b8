package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
)

func (c Capacity) holds(d Capacity) bool {
	return d.Prompts <= c.Prompts && d.PromptInputs <= c.PromptInputs && d.PromptSteps <= c.PromptSteps &&
		d.Rows <= c.Rows && d.RowInputs <= c.RowInputs && d.RowSteps <= c.RowSteps
}

// grow returns a capacity for both, with an eighth to spare where it had to grow, so that slowly
// growing batches do not rebuild the graph each time.
func (c Capacity) grow(d Capacity) Capacity {
	up := func(have, need int) int {
		if need <= have {
			return have
		}
		return need + need/8 + 1
	}
	return Capacity{
		up(c.Prompts, d.Prompts), up(c.PromptInputs, d.PromptInputs), up(c.PromptSteps, d.PromptSteps),
		up(c.Rows, d.Rows), up(c.RowInputs, d.RowInputs), up(c.RowSteps, d.RowSteps),
	}
}

func (p *Packed) capacity() Capacity {
	n, in, steps := p.Prompt.Sizes()
	rows, rin, rsteps := p.Completion.Sizes()
	return Capacity{n, in, steps, rows, max(rin, 1), max(rsteps, 1)}
}

// pass runs batches through a graph, and builds a larger one if a batch does not fit.
type pass struct {
	vocab int
	build func(c Capacity) (*graph, error)

	packed   Packed // the current batch
	watch    fused.Stopwatch
	capacity Capacity
	graph    *graph // nil before the first batch
}

// run lays the batch out and runs the graph over it.
func (p *pass) run(batch *model.Batch) error {
	if err := p.packed.pack(batch, p.vocab); err != nil {
		return err
	}
	need := p.packed.capacity()
	if p.graph == nil || !p.capacity.holds(need) {
		c := p.capacity.grow(need)
		if err := p.close(); err != nil {
			return err
		}
		g, err := p.build(c)
		if err != nil {
			return fmt.Errorf("build the graph: %w", err)
		}
		p.graph, p.capacity = g, c
		g.Watch(&p.watch)
	}
	p.graph.in.fill(&p.packed)
	defer p.watch.Start(&p.watch.Runs)()
	if err := p.graph.ops.Load(&p.packed); err != nil {
		return fmt.Errorf("run the graph: %w", err)
	}
	return p.graph.Run()
}

// close frees the graph's machine and memory; a later run builds another.
func (p *pass) close() error {
	if p.graph == nil {
		return nil
	}
	g := p.graph
	p.graph = nil
	g.ops.Close()
	return g.Close()
}

// inputs are the integer inputs of the graph; their slices are the tensors'.
type inputs struct {
	promptIDs, promptActive          []int
	rowIDs, rowActive, start, target []int
}

func (in *inputs) fill(p *Packed) {
	set := func(to, from []int) {
		clear(to[copy(to, from):])
	}
	set(in.promptIDs, p.Prompt.IDs)
	set(in.promptActive, p.Prompt.Active)
	set(in.rowIDs, p.Completion.IDs)
	set(in.rowActive, p.Completion.Active)
	set(in.start, p.Start)
	set(in.target, p.Targets)
}

// graph is a compiled Gorgonia graph with its inputs and outputs.
type graph struct {
	*fused.Graph // its gradients are in the order of Weights.Tensors
	ops          Ops
	in           inputs
}

// addGrads adds the gradients of the last run to sum.
func (g *graph) addGrads(sum *model.Params) error {
	vals := make([]G.Value, len(g.Grads))
	for i, n := range g.Grads {
		vals[i] = n.Value()
	}
	return g.ops.AccumulateGrads(vals, sum)
}

// output is the result of the last run, on the host.
func (g *graph) output() ([]float32, error) { return g.ops.Read(g.Out.Value()) }

// headFunc adds a head on top of the backbone and returns the last node.
type headFunc func(b *builder, t backbone) *G.Node

// builder adds TinyLM's operations to a graph.
type builder struct {
	*fused.Builder
	ops Ops
}

func (b *builder) weights(p *Weights) G.Nodes {
	var nodes G.Nodes
	for i, t := range p.Tensors() {
		nodes = append(nodes, b.Input(t.Name, b.ops.Weight(p, i)))
	}
	return nodes
}

func (b *builder) index(name string, n int, to *[]int) *G.Node {
	*to = make([]int, n)
	return b.Input(name, fused.Dense(*to, n))
}

// backbone has the nodes that all networks share and a head reads.
type backbone struct {
	top          *G.Node // states of the last layer over the completions, the first ones included
	weight, bias *G.Node // the head's
	active       *G.Node // how many completions are active at each step
	c            Capacity
	in           *inputs
}

// newGraph builds the network of p's form (see the package comment), with head on top of its
// backbone. With differentiate, head returns a cost, and the graph computes its gradients with
// respect to all weights; otherwise the graph is the forward pass alone and keeps no data for a
// backward pass.
func newGraph(on model.Device, p *Weights, c Capacity, differentiate bool, head headFunc) (*graph, error) {
	ops, err := backendOf(on).NewOps(p, c)
	if err != nil {
		return nil, err
	}
	out, err := layOut(ops, p, c, differentiate, head)
	if err != nil {
		ops.Close()
	}
	return out, err
}

func layOut(ops Ops, p *Weights, c Capacity, differentiate bool, head headFunc) (out *graph, err error) {
	b := &builder{Builder: fused.NewBuilder(), ops: ops}
	out = &graph{ops: ops}
	w := b.weights(p)
	last := head(b, b.backbone(p, w, c, &out.in))
	if !differentiate {
		w = nil
	}
	out.Graph, err = b.Compile(last, w, ops.VMOptions()...)
	return out, err
}

func (b *builder) backbone(p *Weights, w G.Nodes, c Capacity, in *inputs) backbone {
	promptIDs := b.index("prompt.ids", c.PromptInputs, &in.promptIDs)
	promptActive := b.index("prompt.active", c.PromptSteps+1, &in.promptActive)
	rowIDs := b.index("completion.ids", c.RowInputs, &in.rowIDs)
	rowActive := b.index("completion.active", c.RowSteps+1, &in.rowActive)
	start := b.index("completion.start", c.Rows, &in.start)

	type layer struct{ wih, whh, bih, bhh *G.Node }
	layers := make([]layer, p.Layers)
	for i := range layers {
		layers[i] = layer{w[1+4*i], w[2+4*i], w[3+4*i], w[4+4*i]}
	}
	table := b.table("table", w[0], layers[0].wih)
	promptX, rowX := source{x: table, ids: promptIDs}, source{x: table, ids: rowIDs}
	var promptH, rowH *G.Node
	for i, w := range layers {
		name := func(op string) string { return fmt.Sprintf("%s%d", op, i) }
		if i > 0 {
			promptX, rowX = source{x: promptH, wih: w.wih}, source{x: rowH, wih: w.wih}
		}
		promptH = b.gru(name("prompt.gru"), promptX, nil, w.whh, w.bih, w.bhh, promptActive, true,
			c.Prompts, c.PromptInputs)
		first := b.lastState(name("lastState"), promptH, start, promptActive, rowActive, c.Rows)
		rowH = b.gru(name("completion.gru"), rowX, first, w.whh, w.bih, w.bhh, rowActive, false, c.Rows, c.RowInputs)
	}
	return backbone{top: rowH, weight: w[len(w)-2], bias: w[len(w)-1], active: rowActive, c: c, in: in}
}

// logProbs is the policy's head: see [builder.head].
func (b *builder) logProbs(t backbone, temperature float64) *G.Node {
	targets := b.index("completion.targets", t.c.Rows+t.c.RowInputs, &t.in.target)
	return b.head(t.top, t.weight, t.bias, targets, t.active, temperature)
}
