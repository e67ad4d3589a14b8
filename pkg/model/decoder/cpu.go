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
	spare         [2][]float32 // without a backward pass, outputs of layers in turn
}

func newCPUOps(p *pass, grads *Network, checkpointing bool) *cpuOps {
	o := &cpuOps{pass: p, grads: grads, checkpointing: checkpointing}
	if grads != nil {
		o.dx = p.states()
	} else { // a layer's input is not read again
		o.spare = [2][]float32{p.states(), p.states()}
	}
	return o
}

func (*cpuOps) VMOptions() []G.VMOpt { return nil }

func (*cpuOps) Weight(x []float32, shape ...int) *tensor.Dense { return fused.Dense(x, shape...) }

func (*cpuOps) Loss(shape tensor.Shape) (fused.LossIO, error) { return fused.HostLoss(shape), nil }

func (*cpuOps) Read(v G.Value) ([]float32, error) { return fused.Floats(v), nil }

func (o *cpuOps) Do(f func()) error                { f(); return nil }
func (o *cpuOps) At(v G.Value) []float32           { return fused.Floats(v) }
func (o *cpuOps) Grad() []float32                  { return o.dx }
func (o *cpuOps) Stream(x []float32) *tensor.Dense { return fused.Dense(x, o.n, o.net.Config.Hidden) }

func (o *cpuOps) GradientOf(x []float32, shape ...int) *tensor.Dense {
	if x == nil {
		return nil
	}
	return fused.Dense(x, shape...)
}

func (o *cpuOps) Embed() fused.Op { return &embedOp{o} }

// embedOp is [Ops.Embed].
type embedOp struct{ *cpuOps }

func (o *embedOp) Forward([]G.Value) (G.Value, error) { return o.Stream(o.embed()), nil }

func (o *embedOp) AllocateGrads() ([]*tensor.Dense, error) {
	c := o.net.Config
	return []*tensor.Dense{o.GradientOf(o.grads.Embed, c.Vocab, c.Hidden)}, nil
}

func (o *embedOp) Backward([]G.Value) error {
	o.embedBackward(o.dx, o.grads.Embed)
	return nil
}

func (o *cpuOps) Block(i int) fused.Op {
	op := &BlockOp[[]float32]{M: o, Net: o.net, Grads: o.grads, Index: i, Checkpointing: o.checkpointing}
	if o.grads == nil {
		op.Out = &o.spare[i%2]
	}
	return op
}

// normBackward begins the backward pass of the layers, from the gradient of the last
// RMSNorm of x.
func (o *cpuOps) normBackward(x, rstd, dfinal []float32) {
	clear(o.dx)
	o.pool.RMSNormBackward(len(o.tree.Tokens), o.net.Config.Hidden, x, o.net.Norm, rstd, dfinal, o.dx, o.grads.Norm)
}
