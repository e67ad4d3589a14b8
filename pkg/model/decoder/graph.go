package decoder

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/fused"
)

// graph is a decoder as a Gorgonia graph over one tree:
//
//	embed -> block x layers -> headLogProb -> policyLoss
//
// or, for a critic, valueHead -> valueLoss. A graph is built for each batch, in a few
// milliseconds. Operations add the gradients of weights to the learner's own memory, which
// the gradient nodes show: they are sums over batches. The gradient of the residual
// stream is one matrix that every layer replaces in turn.
type graph struct {
	*pass
	*fused.Builder
	grads         *Network // nil without a backward pass
	checkpointing bool     // keep only the input of each layer for the backward pass
	top           *G.Node  // the residual stream after the last layer, (tokens, hidden)
	weights       G.Nodes  // the trainable parameters
	dx            []float32
	dcontext      [][]float32 // of [pass.contexts]
}

// newGraph adds the layers to a graph. With grads, the graph will be differentiated.
func newGraph(p *pass, grads *Network, checkpointing bool) *graph {
	g := &graph{pass: p, Builder: fused.NewBuilder(), grads: grads, checkpointing: checkpointing}
	n, h := len(p.tree.tokens), p.net.Config.Hidden
	if grads != nil {
		g.dx, g.dcontext = p.states(), p.contexts()
	}
	g.top = g.Fuse("embed", &embedOp{g}, nil, tensor.Shape{n, h}, g.weight("embed", p.net.embed, p.net.Config.Vocab, h))
	var spare [2][]float32
	if grads == nil { // a layer's input is not read again
		spare = [2][]float32{p.states(), p.states()}
	}
	for i := range p.net.layers {
		name, l := fmt.Sprint("block", i), &p.net.layers[i]
		op := &blockOp{graph: g, layer: l, out: spare[i%2]}
		if grads != nil {
			op.grads = &grads.layers[i]
		}
		in := []fused.Input{fused.Matrix(g.top)}
		if len(l.all) > 0 {
			in = append(in, g.trainable(name, l.all, len(l.all)))
		}
		g.top = g.Fuse(name, op, nil, tensor.Shape{n, h}, in...)
	}
	return g
}

// weight is an input of parameters outside the layers, which LoRA freezes.
func (g *graph) weight(op string, x []float32, shape ...int) fused.Input {
	if g.net.lora == nil {
		return g.trainable(op, x, shape...)
	}
	return of(g.Input(op+".weight", fused.Dense(x, shape...))).Constant()
}

// trainable is an input of trainable parameters.
func (g *graph) trainable(op string, x []float32, shape ...int) fused.Input {
	n := g.Input(op+".weight", fused.Dense(x, shape...))
	g.weights = append(g.weights, n)
	return of(n)
}

// of is a node as an input of an operation.
func of(n *G.Node) fused.Input {
	if n.Dims() == 1 {
		return fused.Vector(n)
	}
	return fused.Matrix(n)
}

// gradient shows the gradient of an input; nil if that is frozen.
func gradient(x []float32, shape ...int) *tensor.Dense {
	if x == nil {
		return nil
	}
	return fused.Dense(x, shape...)
}

// stream is a matrix like the residual stream as a tensor.
func (g *graph) stream(x []float32) *tensor.Dense {
	return fused.Dense(x, len(g.tree.tokens), g.net.Config.Hidden)
}

// loss ends the graph in a scalar: see [fused.Builder.Loss].
func (g *graph) loss(name string, x *G.Node, evaluate func(x, d []float32) (float64, error)) *G.Node {
	if g.Err != nil {
		return nil
	}
	return g.Loss(name, x, fused.HostLoss(x.Shape()), nil, evaluate)
}

// run runs the graph up to out, and backward from there if it has gradients.
func (g *graph) run(out *G.Node) error {
	var wrt G.Nodes
	if g.grads != nil {
		wrt = g.weights
	}
	compiled, err := g.Compile(out, wrt)
	if err != nil {
		return fmt.Errorf("build the graph: %w", err)
	}
	defer compiled.Close()
	return compiled.Run()
}

// embedOp looks tokens up. Input: the embedding, (vocabulary, hidden).
type embedOp struct{ *graph }

func (o *embedOp) Forward([]G.Value) (G.Value, error) { return o.stream(o.embed()), nil }

func (o *embedOp) AllocateGrads() ([]*tensor.Dense, error) {
	c := o.net.Config
	return []*tensor.Dense{gradient(o.grads.embed, c.Vocab, c.Hidden)}, nil
}

func (o *embedOp) Backward([]G.Value) error {
	o.embedBackward(o.dx, o.grads.embed)
	return nil
}

// blockOp is a layer. Inputs: the residual stream; all parameters of the layer.
type blockOp struct {
	*graph
	layer, grads *layer
	saved        saved
	out          []float32
	mark         []int // of the memory before the layer
}

func (o *blockOp) Forward(in []G.Value) (G.Value, error) {
	if o.out == nil { // the next layer's input
		o.out = o.states()
	}
	o.mark = o.mem.mark()
	o.saved = o.block(o.layer, fused.Floats(in[0]), o.out)
	if o.grads == nil || o.checkpointing {
		o.mem.back(o.mark)
	}
	return o.stream(o.out), nil
}

func (o *blockOp) AllocateGrads() ([]*tensor.Dense, error) {
	return []*tensor.Dense{o.stream(o.dx), fused.Dense(o.grads.all, len(o.grads.all))}, nil
}

func (o *blockOp) Backward(vals []G.Value) error {
	if o.checkpointing {
		o.saved = o.block(o.layer, fused.Floats(vals[0]), nil)
	}
	o.blockBackward(o.layer, o.grads, &o.saved, o.dcontext, o.dx)
	o.mem.back(o.mark)
	return nil
}
