// Package fused builds Gorgonia graphs of few operations that have their own arithmetic, forward and
// backward. Gorgonia builds the graph, differentiates through it and runs it; standard operations
// would be slow and allocate at each run.
package fused

import (
	"fmt"
	"time"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Builder adds nodes to a graph. It keeps the first failure in Err and then ignores further calls,
// so that a network can be built without checks.
type Builder struct {
	Err error

	g *G.ExprGraph
}

// NewBuilder returns a builder of an empty graph.
func NewBuilder() *Builder { return &Builder{g: G.NewGraph()} }

// Input is a node whose value is read at every run. It is not copied.
func (b *Builder) Input(name string, v *tensor.Dense) *G.Node {
	n := G.NewTensor(b.g, v.Dtype(), v.Dims(), G.WithShape(v.Shape()...), G.WithName(name))
	if err := G.Let(n, v); err != nil && b.Err == nil {
		b.Err = fmt.Errorf("bind %s: %w", name, err)
	}
	return n
}

// Input of an operation: a node, its type, and whether it has a gradient.
type Input struct {
	node *G.Node
	of   hm.Type
	diff bool
}

// Matrix is an input of two dimensions with a gradient.
func Matrix(n *G.Node) Input { return Input{n, matrixT, true} }

// Vector is an input of one dimension with a gradient.
func Vector(n *G.Node) Input { return Input{n, vectorT, true} }

// Constant is an input without a gradient.
func (in Input) Constant() Input {
	in.diff = false
	return in
}

// Index is a vector of integers. It has no gradient.
func Index(n *G.Node) Input { return Input{n, indexT, false} }

// Graph is a compiled graph.
type Graph struct {
	Out   *G.Node // the last node of the forward pass
	Grads G.Nodes // the gradients of Out; nil without a backward pass

	vm    G.VM
	nodes G.Nodes
}

// Compile finishes the graph of b. With wrt it computes the gradients of out, a scalar, with respect
// to these nodes, too.
func (b *Builder) Compile(out *G.Node, wrt G.Nodes, options ...G.VMOpt) (*Graph, error) {
	if b.Err != nil {
		return nil, b.Err
	}
	g := &Graph{Out: out}
	if wrt != nil {
		var err error
		if g.Grads, err = G.Grad(out, wrt...); err != nil {
			return nil, fmt.Errorf("differentiate: %w", err)
		}
	}
	g.vm, g.nodes = G.NewTapeMachine(b.g, options...), b.g.AllNodes()
	return g, nil
}

// Run computes all nodes. Errors of operations are returned unchanged.
func (g *Graph) Run() error {
	g.vm.Reset()
	if err := g.vm.RunAll(); err != nil {
		return runError(err)
	}
	return nil
}

// Watch adds the time of the operations' arithmetic to w.Busy.
func (g *Graph) Watch(w *Stopwatch) {
	for _, n := range g.nodes {
		if op, ok := n.Op().(*operation); ok {
			op.watch = w
		}
	}
}

// Close frees the graph's machine.
func (g *Graph) Close() error { return g.vm.Close() }

// opError is the error of one of our operations in Gorgonia's machine.
type opError struct{ error }

// runError unwraps the error of one of our operations, to which Gorgonia's machine adds a program
// counter and a dump of an instruction. The machine's own errors keep them.
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

// Stopwatch adds up the time of a graph's operations; without a clock it does nothing.
type Stopwatch struct {
	Now        func() time.Time
	Runs, Busy time.Duration // of whole runs of the graph, and of the arithmetic in them
}

// Start returns a function that adds the time since to d.
func (w *Stopwatch) Start(d *time.Duration) func() {
	if w == nil || w.Now == nil {
		return func() {}
	}
	began := w.Now()
	return func() { *d += w.Now().Sub(began) }
}
