package decoder

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// cpu is the [Backend] of the CPU.
type cpu struct {
	pool *kernel.Pool
	mem  *arena // of all that runs a network, one at a time
}

func newCPU(pool *kernel.Pool) *cpu { return &cpu{pool, new(arena)} }

// Place does nothing: the numbers are in Flat.
func (c *cpu) Place(*model.Params) error { return nil }

func (c *cpu) NewSampler(net *Network, end []int) model.Sampler {
	return newSampler(net, c.pool, c.mem, end)
}

func (c *cpu) NewTreeOps(net, grads *Network, t *Tree, checkpointing bool) (Ops, error) {
	c.mem.Reset()
	return newCPUOps(newPass(net, c.pool, c.mem, t, grads != nil), grads, checkpointing), nil
}

// cpuOps implements [Ops].
type cpuOps struct {
	*pass
	grads         *Network // nil without a backward pass
	checkpointing bool
	dx            []float32    // the gradient of the residual stream
	dcontext      [][]float32  // of [pass.contexts]
	spare         [2][]float32 // without a backward pass, outputs of layers in turn
}

func newCPUOps(p *pass, grads *Network, checkpointing bool) *cpuOps {
	o := &cpuOps{pass: p, grads: grads, checkpointing: checkpointing}
	if grads != nil {
		o.dx, o.dcontext = p.states(), p.contexts()
	} else { // a layer's input is not read again
		o.spare = [2][]float32{p.states(), p.states()}
	}
	return o
}

func (*cpuOps) VMOptions() []G.VMOpt { return nil }

func (*cpuOps) Weight(x []float32, shape ...int) *tensor.Dense { return fused.Dense(x, shape...) }

func (*cpuOps) Loss(shape tensor.Shape) (fused.LossIO, error) { return fused.HostLoss(shape), nil }

func (*cpuOps) Read(v G.Value) ([]float32, error) { return fused.Floats(v), nil }

// gradient shows the gradient of an input; nil if that is frozen.
func gradient(x []float32, shape ...int) *tensor.Dense {
	if x == nil {
		return nil
	}
	return fused.Dense(x, shape...)
}

// stream is a matrix like the residual stream as a tensor.
func (o *cpuOps) stream(x []float32) *tensor.Dense {
	return fused.Dense(x, len(o.tree.Tokens), o.net.Config.Hidden)
}

func (o *cpuOps) Embed() fused.Op { return &embedOp{o} }

// embedOp is [Ops.Embed].
type embedOp struct{ *cpuOps }

func (o *embedOp) Forward([]G.Value) (G.Value, error) { return o.stream(o.embed()), nil }

func (o *embedOp) AllocateGrads() ([]*tensor.Dense, error) {
	c := o.net.Config
	return []*tensor.Dense{gradient(o.grads.Embed, c.Vocab, c.Hidden)}, nil
}

func (o *embedOp) Backward([]G.Value) error {
	o.embedBackward(o.dx, o.grads.Embed)
	return nil
}

func (o *cpuOps) Block(i int) fused.Op {
	op := &blockOp{cpuOps: o, layer: &o.net.Layers[i], out: o.spare[i%2]}
	if o.grads != nil {
		op.g = &o.grads.Layers[i]
	}
	return op
}

// blockOp is [Ops.Block].
type blockOp struct {
	*cpuOps
	layer, g *Layer // g has the gradients
	saved    saved
	out      []float32
	mark     []int // of the memory before the layer
}

func (o *blockOp) Forward(in []G.Value) (G.Value, error) {
	if o.out == nil { // the next layer's input
		o.out = o.states()
	}
	o.mark = o.mem.Mark()
	o.saved = o.block(o.layer, fused.Floats(in[0]), o.out)
	if o.g == nil || o.checkpointing {
		o.mem.Back(o.mark)
	}
	return o.stream(o.out), nil
}

func (o *blockOp) AllocateGrads() ([]*tensor.Dense, error) {
	return []*tensor.Dense{o.stream(o.dx), fused.Dense(o.g.All, len(o.g.All))}, nil
}

func (o *blockOp) Backward(vals []G.Value) error {
	if o.checkpointing {
		o.saved = o.block(o.layer, fused.Floats(vals[0]), nil)
	}
	o.blockBackward(o.layer, o.g, &o.saved, o.dcontext, o.dx)
	o.mem.Back(o.mark)
	return nil
}

// normBackward begins the backward pass of the layers, from the gradient of the last
// RMSNorm of x.
func (o *cpuOps) normBackward(x, rstd, dfinal []float32) {
	clear(o.dx)
	o.pool.RMSNormBackward(len(o.tree.Tokens), o.net.Config.Hidden, x, o.net.Norm, rstd, dfinal, o.dx, o.grads.Norm)
}
