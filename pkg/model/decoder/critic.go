package decoder

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// critic implements [model.Critic]: the policy's network, and a head of one output whose
// weights and bias are parameters of their own. Under LoRA it has adapters of its own to
// the frozen weights, which it shares with the policy. A reward model's head has no bias.
type critic struct {
	pool          *kernel.Pool
	checkpointing bool
	net, grads    *Network // views of the parameters that follow
	params        *model.Params
	gradients     *model.Params
	optimizer     *model.AdamW
	mem           *arena
}

// headWeight and headBias are the names of the critic's own parameters.
const headWeight, headBias = "value_head.weight", "value_head.bias"

func newCritic(policy *Network, pool *kernel.Pool, mem *arena, o model.AdamWOptions, checkpointing bool) *critic {
	form := append([]model.Tensor{}, policy.Params.Tensors()...)
	form = append(form, model.Tensor{Name: headWeight, Shape: []int{1, policy.Config.Hidden}}, model.Tensor{Name: headBias, Shape: []int{1}})
	params := model.NewParams(form)
	copy(params.Flat, policy.Params.Flat)
	return trainCritic(policy.with(params), params, pool, mem, o, checkpointing)
}

// trainCritic returns a critic that trains params: those of net, then those of the head.
func trainCritic(net *Network, params *model.Params, pool *kernel.Pool, mem *arena, o model.AdamWOptions, checkpointing bool) *critic {
	c := &critic{pool: pool, mem: mem, checkpointing: checkpointing, net: net, params: params, gradients: params.Zeros(),
		optimizer: model.NewAdamW(params, o)}
	c.optimizer.Pool = pool
	c.grads = net.gradients(c.gradients)
	return c
}

// head splits parameters into the weights (hidden) and the bias (1) of the value head. The bias of a
// reward model is a zero that is no parameter.
func (c *critic) head(p *model.Params) (weight, bias []float32) {
	h := c.net.Config.Hidden
	switch n := len(p.Flat); {
	case c.net.Config.Score:
		return p.Flat[n-h:], make([]float32, 1)
	default:
		return p.Flat[n-1-h : n-1], p.Flat[n-1:]
	}
}

// values adds the network and valueHead to a graph over a batch.
func (c *critic) values(batch *model.Batch, grads *Network) (*packed, *graph, *G.Node, error) {
	b, err := pack(batch, c.net.Config.Vocab)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("critic: %w", err)
	}
	c.mem.reset()
	g := newGraph(newPass(c.net, c.pool, c.mem, b.tree, grads != nil), grads, c.checkpointing)
	h, op := c.net.Config.Hidden, &valueOp{graph: g, places: b.places}
	op.w, op.bias = c.head(c.params)
	if grads != nil {
		op.dw, op.dbias = c.head(c.gradients)
	}
	return b, g, g.Fuse("valueHead", op, nil, tensor.Shape{1, len(b.places)}, fused.Matrix(g.top),
		g.weight("norm", c.net.norm, h), g.trainable("value", op.w, h), g.trainable("bias", op.bias, 1)), nil
}

// Values implements [model.Critic].
func (c *critic) Values(batch *model.Batch) (*model.ValueMatrix, error) {
	b, g, v, err := c.values(batch, nil)
	if err != nil {
		return nil, err
	}
	if err := g.run(v); err != nil {
		return nil, err
	}
	return b.values(fused.Floats(v.Value())), nil
}

// Accumulate implements [model.Critic].
func (c *critic) Accumulate(batch *model.Batch, objective model.ValueObjective) (loss float64, err error) {
	b, g, v, err := c.values(batch, c.grads)
	if err != nil {
		return 0, err
	}
	out := g.loss("valueLoss", v, func(x, d []float32) (float64, error) {
		m := b.values(x)
		m.DValues = make([]float64, b.b*b.t)
		if loss, err = objective(m); err != nil {
			return 0, err
		}
		b.collect(m.DValues, d)
		return loss, nil
	})
	if err := g.run(out); err != nil {
		return 0, err
	}
	return loss, nil
}

// valueOp is valueHead: the value of the state at each place, (1, places). Inputs: the
// residual stream; the weights of the last RMSNorm; those of the head, (hidden); its
// bias, (1).
type valueOp struct {
	*graph
	places      []int
	w, bias     []float32
	dw, dbias   []float32
	mark        []int
	final, rstd []float32 // the last RMSNorm
}

func (o *valueOp) Forward(in []G.Value) (G.Value, error) {
	o.mark = o.mem.mark()
	o.final, o.rstd = o.norm(fused.Floats(in[0]), o.net.norm)
	out := fused.NewBuffer(1, len(o.places))
	for i, at := range o.places {
		sum := float64(o.bias[0])
		for j, x := range o.final[at*len(o.w) : (at+1)*len(o.w)] {
			sum += float64(x) * float64(o.w[j])
		}
		out.Data[i] = float32(sum)
	}
	return out.T, nil
}

func (o *valueOp) AllocateGrads() ([]*tensor.Dense, error) {
	h := len(o.w)
	return []*tensor.Dense{o.stream(o.dx), gradient(o.grads.norm, h), fused.Dense(o.dw, h), fused.Dense(o.dbias, 1)}, nil
}

func (o *valueOp) Backward(vals []G.Value) error {
	dfinal := o.states()
	clear(dfinal)
	for i, d := range fused.Floats(vals[5]) {
		at := o.places[i] * len(o.w)
		o.dbias[0] += d
		for j := range o.w {
			o.dw[j] += d * o.final[at+j]
			dfinal[at+j] += d * o.w[j]
		}
	}
	o.normBackward(fused.Floats(vals[0]), o.rstd, dfinal)
	o.mem.back(o.mark)
	return nil
}

func (c *critic) ZeroGrads()   { c.gradients.Zero() }
func (c *critic) Close() error { return nil }

// Step implements [model.Critic].
func (c *critic) Step(lr, maxNorm float64) (norm float64, err error) {
	return c.optimizer.Step(c.params, c.gradients, lr, maxNorm)
}

// State implements [model.Critic].
func (c *critic) State() *model.CriticState {
	return &model.CriticState{Params: c.params, M: c.optimizer.M, V: c.optimizer.V, Updates: c.optimizer.T}
}

// Restore implements [model.Critic].
func (c *critic) Restore(s *model.CriticState) error {
	return s.Restore(c.params, c.optimizer, c.net.size())
}
