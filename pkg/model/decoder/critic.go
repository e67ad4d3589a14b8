package decoder

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
)

// critic implements [model.Critic]: the policy's network, and a head of one output whose
// weights and bias are parameters of their own. Under LoRA it has adapters of its own to
// the frozen weights, which it shares with the policy. A reward model's head has no bias.
type critic struct {
	on            Backend
	checkpointing bool
	net, grads    *Network // views of the parameters that follow
	params        *model.Params
	gradients     *model.Params
	optimizer     *model.AdamW
}

// headWeight and headBias are the names of the critic's own parameters.
const headWeight, headBias = "value_head.weight", "value_head.bias"

// newCritic returns a critic with a copy of the policy's parameters, which must be on the host.
func newCritic(policy *Network, on Backend, o model.AdamWOptions, checkpointing bool) *critic {
	form := append([]model.Tensor{}, policy.Params.Tensors()...)
	form = append(form, model.Tensor{Name: headWeight, Shape: []int{1, policy.Config.Hidden}}, model.Tensor{Name: headBias, Shape: []int{1}})
	params := model.NewParams(form)
	copy(params.Flat, policy.Params.Flat)
	return trainCritic(policy.with(params), params, on, o, checkpointing)
}

// trainCritic returns a critic that trains params: those of net, then those of the head.
func trainCritic(net *Network, params *model.Params, on Backend, o model.AdamWOptions, checkpointing bool) *critic {
	c := &critic{on: on, checkpointing: checkpointing, net: net, params: params, gradients: params.Zeros(),
		optimizer: model.NewAdamW(params, o)}
	if host, ok := on.(*cpu); ok {
		c.optimizer.Pool = host.pool
	}
	c.grads = net.gradients(c.gradients)
	return c
}

// head is the value head in parameters, or in gradients.
func (c *critic) head(p *model.Params) ValueHead {
	h := c.net.Config.Hidden
	switch n := len(p.Flat); {
	case c.net.Config.Score:
		return ValueHead{p.Flat[n-h:], make([]float32, 1)}
	default:
		return ValueHead{p.Flat[n-1-h : n-1], p.Flat[n-1:]}
	}
}

// values adds the network and valueHead to a graph over a batch.
func (c *critic) values(batch *model.Batch, grads *Network) (*packed, *graph, *G.Node, error) {
	b, err := pack(batch, c.net.Config.Vocab)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("critic: %w", err)
	}
	g, err := newGraph(c.on, c.net, grads, b.tree, c.checkpointing)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("critic: %w", err)
	}
	var d ValueHead
	if grads != nil {
		d = c.head(c.gradients)
	}
	return b, g, g.values(b.places, c.head(c.params), d), nil
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
	x, err := g.ops.Read(v.Value())
	if err != nil {
		return nil, err
	}
	return b.values(x), nil
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
