package fused

import (
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Op is the arithmetic of one operation of a graph, forward and backward.
type Op interface {
	// Forward computes the output from the values of the inputs. It is valid until the next
	// Forward.
	Forward(in []G.Value) (G.Value, error)
	// AllocateGrads allocates the gradients of the inputs and returns them, nil for inputs without
	// one. If it is never called, Forward keeps no data for a backward pass.
	AllocateGrads() ([]*tensor.Dense, error)
	// Backward fills these gradients. vals are the inputs, then the output of the
	// last Forward, then the gradient of the output.
	Backward(vals []G.Value) error
}

// operation is a Gorgonia operation with our own arithmetic. It owns its output: Do fills the same
// tensor at every run, so a step allocates no matrices.
//
// Gorgonia merges nodes of equal hash, and two layers of the same shape would hash alike; so each
// operation has a name, unique in the graph.
type operation struct {
	name  string
	in    []hm.Type
	out   hm.Type
	shape tensor.Shape
	// run computes the output from the inputs' values.
	run func(in []G.Value) (G.Value, error)
	// diff returns the gradient node of each input (nil where wrt is false);
	// nil for gradient operations, which are not differentiated again.
	diff func(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error)
	wrt  []bool
	// watch, if set, measures the time of run.
	watch *Stopwatch
}

var (
	_ G.Op   = (*operation)(nil)
	_ G.SDOp = (*operation)(nil)
)

func (o *operation) Arity() int                                     { return len(o.in) }
func (o *operation) InferShape(...G.DimSizer) (tensor.Shape, error) { return o.shape, nil }
func (o *operation) ReturnsPtr() bool                               { return true }
func (o *operation) CallsExtern() bool                              { return false }
func (o *operation) OverwritesInput() int                           { return -1 }
func (o *operation) WriteHash(h hash.Hash)                          { fmt.Fprint(h, o.name) }
func (o *operation) String() string                                 { return o.name }
func (o *operation) DiffWRT(int) []bool                             { return o.wrt }

// Do implements gorgonia.Op.
func (o *operation) Do(in ...G.Value) (G.Value, error) {
	if o.watch != nil {
		defer o.watch.Start(&o.watch.Busy)()
	}
	out, err := o.run(in)
	if err != nil {
		return out, opError{err}
	}
	return out, nil
}

func (o *operation) Type() hm.Type {
	return hm.NewFnType(slices.Concat(o.in, []hm.Type{o.out})...)
}

func (o *operation) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *operation) SymDiff(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error) {
	if o.diff == nil {
		return nil, fmt.Errorf("%s has no second derivative", o.name)
	}
	return o.diff(inputs, output, grad)
}

// Types of the graph's values.
var (
	vectorT = G.TensorType{Dims: 1, Of: tensor.Float32}
	matrixT = G.TensorType{Dims: 2, Of: tensor.Float32}
	indexT  = G.TensorType{Dims: 1, Of: tensor.Int}
	scalarT = tensor.Float32
)

// apply adds op to the graph.
func (b *Builder) apply(op *operation, inputs ...*G.Node) *G.Node {
	n, err := G.ApplyOp(op, inputs...)
	if err != nil {
		b.Err = fmt.Errorf("%s: %w", op.name, err)
	}
	return n
}

// Fuse adds an operation, a matrix of the given shape, to the graph; err is that of making f. Its
// gradient is one operation too, which returns the gradient of the first input; the gradients of the
// others are filled at the same time, and their nodes depend on it to run after it.
func (b *Builder) Fuse(name string, f Op, err error, shape tensor.Shape, inputs ...Input) *G.Node {
	if err != nil && b.Err == nil {
		b.Err = fmt.Errorf("%s: %w", name, err)
	}
	if b.Err != nil {
		return nil
	}
	op := &operation{name: name, out: matrixT, shape: shape, run: f.Forward}
	var nodes G.Nodes
	for _, in := range inputs {
		nodes, op.in, op.wrt = append(nodes, in.node), append(op.in, in.of), append(op.wrt, in.diff)
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		grads, err := f.AllocateGrads()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		main, err := G.ApplyOp(&operation{
			name: name + "Grad", in: slices.Concat(op.in, []hm.Type{matrixT, matrixT}),
			out: matrixT, shape: grads[0].Shape(),
			run: func(vals []G.Value) (G.Value, error) { return grads[0], f.Backward(vals) },
		}, slices.Concat(ins, G.Nodes{output, grad})...)
		if err != nil {
			return nil, err
		}
		out := G.Nodes{main}
		for i, g := range grads[1:] {
			if g == nil {
				out = append(out, nil)
				continue
			}
			n, err := G.ApplyOp(&operation{
				name: fmt.Sprintf("%sGrad%d", name, i+1), in: []hm.Type{matrixT},
				out: G.TensorType{Dims: g.Dims(), Of: tensor.Float32}, shape: g.Shape(),
				run: func([]G.Value) (G.Value, error) { return g, nil },
			}, main)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	}
	return b.apply(op, nodes...)
}
