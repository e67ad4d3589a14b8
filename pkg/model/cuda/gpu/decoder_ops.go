//go:build withcuda && linux

package gpu

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/fused"
)

var _ decoder.Backend = (*device)(nil)

// decoderOps implements [decoder.Ops]. Its memory is the arena's.
type decoderOps struct {
	*pass
	checkpointing bool
	dx            cuda.Pointer    // the gradient of the residual stream
	spare         [2]cuda.Pointer // without a backward pass, outputs of layers in turn
}

func (g *device) NewTreeOps(net, grads *decoder.Network, t *decoder.Tree, checkpointing bool) (decoder.Ops, error) {
	o := &decoderOps{checkpointing: checkpointing}
	return o, g.dev.Do(func() error {
		n, err := g.newNetwork(net)
		if err != nil {
			return err
		}
		n.mem.Reset()
		o.pass = n.newPass(t, grads != nil)
		if grads == nil { // a layer's input is not read again
			o.spare = [2]cuda.Pointer{o.states(), o.states()}
			return nil
		}
		o.dx = o.states()
		o.grads, err = g.gradients(grads)
		return err
	})
}

// gradients are the gradients of a network, in the memory of the device.
func (g *device) gradients(grads *decoder.Network) (*network, error) {
	if err := g.Place(grads.Params); err != nil {
		return nil, err
	}
	s := g.storageOf(grads.Params)
	s.synced = false
	return &network{Network: grads, g: g, stores: []*storage{s}}, nil
}

func (o *decoderOps) VMOptions() []G.VMOpt { return []G.VMOpt{G.WithEngine(o.g.engine)} }

// tensor is memory of the device as a value; nil for 0.
func (o *decoderOps) tensor(at cuda.Pointer, shape ...int) *tensor.Dense {
	if at == 0 {
		return nil
	}
	return o.g.engine.Tensor(at, shape...)
}

// Weight is zeros for numbers that are not the network's: the bias of a reward model.
func (o *decoderOps) Weight(x []float32, shape ...int) *tensor.Dense {
	at := o.atIfParameter(x)
	if at == 0 {
		_ = o.g.do(func() { at = o.mem.zeros(len(x)) })
	}
	return o.tensor(at, shape...)
}

func (o *decoderOps) Do(f func()) error         { return o.g.do(f) }
func (o *decoderOps) At(v G.Value) cuda.Pointer { return at(v) }
func (o *decoderOps) Grad() cuda.Pointer        { return o.dx }

// GradientOf is the gradient of a weight as a value; nil if that is frozen.
func (o *decoderOps) GradientOf(x []float32, shape ...int) *tensor.Dense {
	return o.tensor(o.grads.at(x), shape...)
}

func (o *decoderOps) Stream(x cuda.Pointer) *tensor.Dense { return o.tensor(x, o.n, o.Config.Hidden) }

func (o *decoderOps) Embed() fused.Op { return &embedOp{o} }

// embedOp is [decoder.Ops.Embed].
type embedOp struct{ *decoderOps }

func (o *embedOp) Forward([]G.Value) (G.Value, error) {
	var x cuda.Pointer
	err := o.g.do(func() {
		x = o.states()
		o.g.gather(o.n, o.Config.Hidden, o.ids, o.at(o.Network.Embed), x)
	})
	return o.Stream(x), err
}

func (o *embedOp) AllocateGrads() ([]*tensor.Dense, error) {
	return []*tensor.Dense{o.GradientOf(o.grads.Network.Embed, o.Config.Vocab, o.Config.Hidden)}, nil
}

// Backward leaves the padding token out, as transformers does.
func (o *embedOp) Backward([]G.Value) error {
	return o.g.do(func() {
		l := o.lists(o.tree.Tokens, o.Config.Pad)
		o.sumRows(l, o.Config.Hidden, o.dx, o.grads.at(o.grads.Network.Embed))
	})
}

// lists are the lists of [kernels.SumRows] on the device.
type lists struct {
	count                int
	targets, from, order cuda.Pointer
}

// lists groups equal indexes: see [kernels.Lists].
func (n *network) lists(index []int32, skip int32) lists {
	targets, from, order := kernels.Lists(index, skip)
	return lists{len(targets), upload(n.mem, targets), upload(n.mem, from), upload(n.mem, order)}
}

// sumRows adds rows of x to those of out, both (?, width).
func (n *network) sumRows(l lists, width int, x, out cuda.Pointer) {
	n.g.launchDecoder(n.g.card.Columns(kernels.SumRows, l.count, width), cuda.I(l.count), cuda.I(width), cuda.P(l.targets),
		cuda.P(l.from), cuda.P(l.order), cuda.P(x), cuda.I(width), cuda.P(out), cuda.I(width), cuda.I(1))
}

func (o *decoderOps) Block(i int) fused.Op {
	op := &decoder.BlockOp[cuda.Pointer]{M: o, Net: o.Network, Index: i, Checkpointing: o.checkpointing}
	if o.grads == nil {
		op.Out = &o.spare[i%2]
	} else {
		op.Grads = o.grads.Network
	}
	return op
}

// Read downloads an output.
func (o *decoderOps) Read(v G.Value) ([]float32, error) {
	n := v.Shape().TotalSize()
	err := o.g.dev.Do(func() error {
		if err := grow(o.g, &o.g.decoders.x, n); err != nil {
			return err
		}
		if err := cuda.FetchAt(o.g.dev, o.g.decoders.x[:n], at(v)); err != nil {
			return err
		}
		return o.g.dev.Sync()
	})
	if err != nil {
		return nil, err
	}
	return o.g.decoders.x[:n], nil
}

// grow makes page-locked memory at least n elements long.
func grow[T any](g *device, s *[]T, n int) error {
	if len(*s) >= n {
		return nil
	}
	if err := g.dev.Sync(); err != nil { // no copy may still use it
		return err
	}
	cuda.FreePinned(g.dev, *s)
	var err error
	*s, err = cuda.Pinned[T](g.dev, n+n/4)
	return err
}

// decoderLoss implements [fused.LossIO].
type decoderLoss struct {
	*decoderOps
	d     []float32
	shape tensor.Shape
}

func (o *decoderOps) Loss(shape tensor.Shape) (fused.LossIO, error) {
	n := shape.TotalSize()
	if err := o.g.dev.Do(func() error { return grow(o.g, &o.g.decoders.d, n) }); err != nil {
		return nil, err
	}
	return &decoderLoss{o, o.g.decoders.d[:n], shape}, nil
}

func (l *decoderLoss) HostGrad() []float32 { return l.d }

func (l *decoderLoss) Grad() (G.Value, error) {
	var d cuda.Pointer
	err := l.g.do(func() { d = upload(l.mem, l.d) })
	return l.tensor(d, l.shape...), err
}
