package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
)

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

func (p *packed) capacity() capacity {
	n, in, steps := sizes(p.prompt.active)
	rows, rin, rsteps := sizes(p.completion.active)
	return capacity{n, in, steps, rows, max(rin, 1), max(rsteps, 1)}
}

// pass runs batches through a graph of enough capacity: it keeps the one that
// it has, and builds a larger one where a batch does not fit.
type pass struct {
	vocab int
	build func(c capacity) (*graph, error)

	packed   packed // the batch at hand
	watch    stopwatch
	capacity capacity
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
		for _, n := range g.nodes {
			if op, ok := n.Op().(*fusedOp); ok {
				op.watch = &p.watch
			}
		}
	}
	p.graph.in.fill(&p.packed)
	defer p.watch.start(&p.watch.runs)()
	if err := p.graph.ops.load(&p.packed); err != nil {
		return fmt.Errorf("run the graph: %w", err)
	}
	p.graph.vm.Reset()
	if err := p.graph.vm.RunAll(); err != nil {
		return runError(err)
	}
	return nil
}

// opError is what an operation of ours reports to Gorgonia's machine.
type opError struct{ error }

// runError takes the error of one of our operations out of what Gorgonia's machine
// wraps around it: a program counter and a dump of an instruction. Errors of its
// own keep that.
func runError(err error) error {
	for e := err; e != nil; {
		switch x := e.(type) {
		case opError:
			return x.error
		case interface{ Err() error }:
			e = x.Err()
		case interface{ Unwrap() error }:
			e = x.Unwrap()
		default:
			e = nil
		}
	}
	return fmt.Errorf("run the graph: %w", err)
}

// close frees the graph's machine and memory; a later run builds another.
func (p *pass) close() error {
	if p.graph == nil {
		return nil
	}
	g := p.graph
	p.graph = nil
	g.ops.close()
	return g.vm.Close()
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

// graph is a compiled Gorgonia graph with its inputs and its ends.
type graph struct {
	vm    G.VM
	ops   arithmetic
	nodes G.Nodes
	in    inputs
	out   *G.Node // the last node of the way forward
	grads G.Nodes // in the order of Weights.Tensors; nil without a way back
}

// addGrads adds the gradients of the last run to sum.
func (g *graph) addGrads(sum *model.Params) error {
	vals := make([]G.Value, len(g.grads))
	for i, n := range g.grads {
		vals[i] = n.Value()
	}
	return g.ops.accumulate(vals, sum)
}

// output is what the last run ended in, on the host.
func (g *graph) output() ([]float32, error) { return g.ops.numbers(g.out.Value()) }

// builder adds nodes to a graph and remembers the first failure.
type builder struct {
	g   *G.ExprGraph
	ops arithmetic
	err error
}

// input is a node whose value is read at every run.
func (b *builder) input(name string, v *tensor.Dense) *G.Node {
	n := G.NewTensor(b.g, v.Dtype(), v.Dims(), G.WithShape(v.Shape()...), G.WithName(name))
	if err := G.Let(n, v); err != nil && b.err == nil {
		b.err = fmt.Errorf("bind %s: %w", name, err)
	}
	return n
}

func (b *builder) weights(p *Weights) G.Nodes {
	var nodes G.Nodes
	for i, t := range p.Tensors() {
		nodes = append(nodes, b.input(t.Name, b.ops.weight(p, i)))
	}
	return nodes
}

func (b *builder) index(name string, n int, to *[]int) *G.Node {
	*to = make([]int, n)
	return b.input(name, tensor.New(tensor.WithShape(n), tensor.WithBacking(*to)))
}

// backbone is what all networks share, up to the head: the nodes that a head reads.
type backbone struct {
	top          *G.Node // states of the last layer over the completions, the first ones included
	weight, bias *G.Node // the head's
	active       *G.Node // how many completions stand at each time
	c            capacity
	in           *inputs
}

// newGraph lays the network of p's form out (see the package comment), with
// head on top of its backbone. With differentiate, head returns a cost, and the
// graph holds its gradients with respect to all weights; without, the graph is
// the way forward alone and keeps nothing for a way back.
func newGraph(on model.Device, p *Weights, c capacity, differentiate bool, head func(b *builder, t backbone) *G.Node) (*graph, error) {
	ops, err := backendOf(on).arithmetic(p, c)
	if err != nil {
		return nil, err
	}
	out, err := layOut(ops, p, c, differentiate, head)
	if err != nil {
		ops.close()
	}
	return out, err
}

func layOut(ops arithmetic, p *Weights, c capacity, differentiate bool, head func(b *builder, t backbone) *G.Node) (*graph, error) {
	b := &builder{g: G.NewGraph(), ops: ops}
	out := &graph{ops: ops}
	w := b.weights(p)
	t := b.backbone(p, w, c, &out.in)
	if out.out = head(b, t); b.err != nil {
		return nil, b.err
	}
	if differentiate {
		var err error
		if out.grads, err = G.Grad(out.out, w...); err != nil {
			return nil, fmt.Errorf("differentiate: %w", err)
		}
	}
	out.vm, out.nodes = G.NewTapeMachine(b.g, ops.machine()...), b.g.AllNodes()
	return out, nil
}

func (b *builder) backbone(p *Weights, w G.Nodes, c capacity, in *inputs) backbone {
	promptIDs := b.index("prompt.ids", c.promptInputs, &in.promptIDs)
	promptActive := b.index("prompt.active", c.promptSteps+1, &in.promptActive)
	rowIDs := b.index("completion.ids", c.rowInputs, &in.rowIDs)
	rowActive := b.index("completion.active", c.rowSteps+1, &in.rowActive)
	start := b.index("completion.start", c.rows, &in.start)

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
		promptH = b.gru(name("prompt.gru"), promptX, nil, w.whh, w.bih, w.bhh, promptActive, true, c.prompts, c.promptInputs)
		first := b.lastState(name("lastState"), promptH, start, promptActive, rowActive, c.rows)
		rowH = b.gru(name("completion.gru"), rowX, first, w.whh, w.bih, w.bhh, rowActive, false, c.rows, c.rowInputs)
	}
	return backbone{top: rowH, weight: w[len(w)-2], bias: w[len(w)-1], active: rowActive, c: c, in: in}
}

// logProbs is the policy's head: see [builder.head].
func (b *builder) logProbs(t backbone, temperature float64) *G.Node {
	targets := b.index("completion.targets", t.c.rows+t.c.rowInputs, &t.in.target)
	return b.head(t.top, t.weight, t.bias, targets, t.active, temperature)
}
