package tinylm

import (
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"time"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// fusedOp is a Gorgonia operation with our own arithmetic. It owns its output: Do fills the same
// tensor at every run, so a step allocates no matrices.
//
// Gorgonia merges nodes of equal hash, and two layers of the same shape would hash alike; so each
// op has a name, unique in the graph.
type fusedOp struct {
	name  string
	in    []hm.Type
	out   hm.Type
	shape tensor.Shape
	// run computes the output from the inputs' values.
	run func(in []G.Value) (G.Value, error)
	// diff returns the gradient node of each input (nil where wrt is false);
	// nil for gradient ops, which are not differentiated again.
	diff func(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error)
	wrt  []bool
	// watch, if set, measures the time of run.
	watch *stopwatch
}

// stopwatch adds up the time of a graph's operations; without a clock it does
// nothing.
type stopwatch struct {
	now        func() time.Time
	runs, busy time.Duration // of whole runs of the graph, and of the arithmetic in them
}

// start returns a function that adds the time since to d.
func (w *stopwatch) start(d *time.Duration) func() {
	if w == nil || w.now == nil {
		return func() {}
	}
	began := w.now()
	return func() { *d += w.now().Sub(began) }
}

var (
	_ G.Op   = (*fusedOp)(nil)
	_ G.SDOp = (*fusedOp)(nil)
)

func (o *fusedOp) Arity() int                                     { return len(o.in) }
func (o *fusedOp) InferShape(...G.DimSizer) (tensor.Shape, error) { return o.shape, nil }
func (o *fusedOp) ReturnsPtr() bool                               { return true }
func (o *fusedOp) CallsExtern() bool                              { return false }
func (o *fusedOp) OverwritesInput() int                           { return -1 }
func (o *fusedOp) WriteHash(h hash.Hash)                          { fmt.Fprint(h, o.name) }
func (o *fusedOp) String() string                                 { return o.name }
func (o *fusedOp) DiffWRT(int) []bool                             { return o.wrt }

// Do implements gorgonia.Op.
func (o *fusedOp) Do(in ...G.Value) (G.Value, error) {
	if o.watch != nil {
		defer o.watch.start(&o.watch.busy)()
	}
	out, err := o.run(in)
	if err != nil {
		return out, opError{err}
	}
	return out, nil
}

func (o *fusedOp) Type() hm.Type {
	return hm.NewFnType(slices.Concat(o.in, []hm.Type{o.out})...)
}

func (o *fusedOp) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *fusedOp) SymDiff(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error) {
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

func typeOfDims(n int) hm.Type {
	if n == 1 {
		return vectorT
	}
	return matrixT
}

// apply adds op to the graph. The builder keeps the first failure and then ignores further calls,
// so that a network can be built without checks.
func (b *builder) apply(op *fusedOp, inputs ...*G.Node) *G.Node {
	n, err := G.ApplyOp(op, inputs...)
	if err != nil {
		b.err = fmt.Errorf("%s: %w", op.name, err)
	}
	return n
}

// input of an operation: a node, its type, and whether it has a gradient.
type input struct {
	node *G.Node
	of   hm.Type
	diff bool
}

// fuse adds an operation of the given output to the graph. Its gradient is one operation too, which
// returns the gradient of the first input; the gradients of the others are filled at the same time,
// and their nodes depend on it to run after it.
func (b *builder) fuse(name string, f Op, err error, shape tensor.Shape, inputs ...input) *G.Node {
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("%s: %w", name, err)
	}
	if b.err != nil {
		return nil
	}
	op := &fusedOp{name: name, out: matrixT, shape: shape, run: f.Forward}
	var nodes G.Nodes
	for _, in := range inputs {
		nodes, op.in, op.wrt = append(nodes, in.node), append(op.in, in.of), append(op.wrt, in.diff)
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		grads, err := f.AllocateGrads()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		main, err := G.ApplyOp(&fusedOp{
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
			n, err := G.ApplyOp(&fusedOp{
				name: fmt.Sprintf("%sGrad%d", name, i+1), in: []hm.Type{matrixT},
				out: typeOfDims(g.Dims()), shape: g.Shape(),
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

// loss ends a network in a scalar. evaluate reads the values of x, returns the cost and writes its
// gradient with respect to x into d, which is kept for the backward pass. Entries of x that no
// token uses are left as they are in d; no op reads them.
func (b *builder) loss(name string, x *G.Node, evaluate func(x, d []float32) (float64, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	shape := x.Shape()
	c, err := b.ops.Loss(shape)
	if err != nil {
		b.err = err
		return nil
	}
	value := G.NewF32(0)
	op := &fusedOp{
		name: name, in: []hm.Type{matrixT}, out: scalarT, wrt: []bool{true},
		run: func(vals []G.Value) (G.Value, error) {
			x, err := c.Read(vals[0])
			if err != nil {
				return nil, err
			}
			loss, err := evaluate(x, c.HostGrad())
			if err != nil {
				return nil, err
			}
			*value = G.F32(float32(loss))
			return value, nil
		},
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		n, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: []hm.Type{matrixT, scalarT, scalarT}, out: matrixT, shape: shape,
			// The graph's cost is the loss itself, so the incoming gradient is 1; a graph that
			// scales its cost would pass another.
			run: func(vals []G.Value) (G.Value, error) {
				rescale(c.HostGrad(), vals[2].Data().(float32))
				return c.Grad()
			},
		}, ins[0], output, grad)
		return G.Nodes{n}, err
	}
	return b.apply(op, x)
}

// cpuLoss is the CPU's: host and device share the memory.
type cpuLoss struct{ d *buffer }

func (c cpu) Loss(shape tensor.Shape) (LossIO, error) { return cpuLoss{newBuffer(shape...)}, nil }

func (c cpuLoss) Read(x G.Value) ([]float32, error) { return floats(x), nil }
func (c cpuLoss) HostGrad() []float32               { return c.d.data }
func (c cpuLoss) Grad() (G.Value, error)            { return c.d.t, nil }

func rescale(x []float32, scale float32) {
	if scale != 1 {
		for i := range x {
			x[i] *= scale
		}
	}
}
