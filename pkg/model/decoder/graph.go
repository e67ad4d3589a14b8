package decoder

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
)

// graph is a decoder as a Gorgonia graph over one tree:
//
//	embed -> block x layers -> headLogProb -> policyLoss
//
// or, for a critic, valueHead -> valueLoss. A graph is built for each batch, in a few
// milliseconds. Operations add the gradients of weights to the learner's own memory, which
// the gradient nodes show: they are sums over batches.
type graph struct {
	ops Ops
	*fused.Builder
	net     *Network
	learns  bool    // the graph will be differentiated
	top     *G.Node // the residual stream after the last layer, (tokens, hidden)
	weights G.Nodes // the trainable parameters
}

// newGraph builds the layers over a tree on a device. With grads, the graph will be differentiated.
func newGraph(on Backend, net, grads *Network, t *Tree, checkpointing bool) (*graph, error) {
	ops, err := on.NewTreeOps(net, grads, t, checkpointing)
	if err != nil {
		return nil, err
	}
	g := &graph{ops: ops, Builder: fused.NewBuilder(), net: net, learns: grads != nil}
	stream := tensor.Shape{len(t.Tokens), net.Config.Hidden}
	g.top = g.Fuse("embed", ops.Embed(), nil, stream, g.weight("embed", net.Embed, net.Config.Vocab, net.Config.Hidden))
	for i := range net.Layers {
		name, in := fmt.Sprint("block", i), []fused.Input{fused.Matrix(g.top)}
		if all := net.Layers[i].All; len(all) > 0 {
			in = append(in, g.trainable(name, all, len(all)))
		}
		g.top = g.Fuse(name, ops.Block(i), nil, stream, in...)
	}
	return g, nil
}

// graphOf lays out a batch and builds the layers over it.
func graphOf(on Backend, net, grads *Network, batch *model.Batch, checkpointing bool) (*packed, *graph, error) {
	b, err := pack(batch, net.Config.Vocab)
	if err != nil {
		return nil, nil, err
	}
	g, err := newGraph(on, net, grads, b.tree, checkpointing)
	return b, g, err
}

// weight is an input of parameters outside the layers, which LoRA freezes.
func (g *graph) weight(op string, x []float32, shape ...int) fused.Input {
	if g.net.LoRA == nil {
		return g.trainable(op, x, shape...)
	}
	if x == nil { // only packed: the operation has it
		x, shape = make([]float32, 1), []int{1, 1}
	}
	return of(g.Input(op+".weight", g.ops.Weight(x, shape...))).Constant()
}

// trainable is an input of trainable parameters.
func (g *graph) trainable(op string, x []float32, shape ...int) fused.Input {
	n := g.Input(op+".weight", g.ops.Weight(x, shape...))
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

// logProbs adds headLogProb: see [Ops.LogProbs].
func (g *graph) logProbs(places, targets []int, kept []*model.Kept, temperature float64) *G.Node {
	c := g.net.Config
	return g.Fuse("headLogProb", g.ops.LogProbs(places, targets, kept, temperature), nil, tensor.Shape{2, len(places)},
		fused.Matrix(g.top), g.weight("norm", g.net.Norm, c.Hidden), g.weight("head", g.net.Head.W, c.Vocab, c.Hidden))
}

// values adds valueHead: see [Ops.Values].
func (g *graph) values(places []int, head, grads ValueHead) *G.Node {
	h := g.net.Config.Hidden
	return g.Fuse("valueHead", g.ops.Values(places, head, grads), nil, tensor.Shape{1, len(places)},
		fused.Matrix(g.top), g.weight("norm", g.net.Norm, h), g.trainable("value", head.W, h),
		g.trainable("bias", head.Bias, 1))
}

// run runs the graph up to out, and backward from there if it has gradients.
func (g *graph) run(out *G.Node) error {
	var wrt G.Nodes
	if g.learns {
		wrt = g.weights
	}
	compiled, err := g.Compile(out, wrt, g.ops.VMOptions()...)
	if err != nil {
		return fmt.Errorf("build the graph: %w", err)
	}
	defer compiled.Close()
	return compiled.Run()
}
