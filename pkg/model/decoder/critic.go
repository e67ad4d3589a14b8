package decoder

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// critic implements [model.Critic]: the policy's network, and a head of one output whose
// weights and bias are parameters of their own. Under LoRA it has adapters of its own to
// the frozen weights, which it shares with the policy. A reward model's head has no bias.
type critic struct {
	on            Backend
	checkpointing bool
	net, grads    *Network // views of the parameters that follow
	model.CriticTraining
}

// headWeight and headBias are the names of the critic's own parameters.
const headWeight, headBias = "value_head.weight", "value_head.bias"

// newCritic returns a critic with a copy of the policy's parameters, which must be on the host.
func newCritic(policy *Network, on Backend, o model.AdamWOptions, checkpointing bool) *critic {
	form := append([]model.Tensor{}, policy.Params.Tensors()...)
	form = append(form, model.Tensor{Name: headWeight, Shape: []int{1, policy.Config.Hidden}},
		model.Tensor{Name: headBias, Shape: []int{1}})
	params := model.NewParams(form)
	copy(params.Flat, policy.Params.Flat)
	return trainCritic(policy.with(params), params, on, o, checkpointing)
}

// trainCritic returns a critic that trains params: those of net, then those of the head.
func trainCritic(net *Network, params *model.Params, on Backend, o model.AdamWOptions, checkpointing bool) *critic {
	c := &critic{on: on, checkpointing: checkpointing, net: net,
		CriticTraining: model.NewCriticTraining(params, o, net.size())}
	if host, ok := on.(*cpu); ok {
		c.Optimizer.Pool = host.pool
	}
	c.grads = net.gradients(c.Gradients)
	return c
}

// head is the value head in parameters, or in gradients.
func (c *critic) head(p *model.Params) ValueHead {
	h, n := c.net.Config.Hidden, len(p.Flat)
	if c.net.Config.Score {
		return ValueHead{p.Flat[n-h:], make([]float32, 1)}
	}
	return ValueHead{p.Flat[n-1-h : n-1], p.Flat[n-1:]}
}

// values adds the network and valueHead to a graph over a batch.
func (c *critic) values(batch *model.Batch, grads *Network) (*packed, *graph, *G.Node, error) {
	b, g, err := graphOf(c.on, c.net, grads, batch, c.checkpointing)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("critic: %w", err)
	}
	var d ValueHead
	if grads != nil {
		d = c.head(c.Gradients)
	}
	return b, g, g.values(b.places, c.head(c.Params), d), nil
}

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

func (c *critic) Accumulate(batch *model.Batch, objective model.ValueObjective) (loss float64, err error) {
	b, g, v, err := c.values(batch, c.grads)
	if err != nil {
		return 0, err
	}
	out := g.Loss("valueLoss", v, g.ops, func(x, d []float32) (float64, error) {
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

func (c *critic) Close() error { return nil }

// NewRewardModel returns a reward model with a copy of the policy's network and a head of zeros, as
// a critic whose head has no bias: the value of the state after the last token is the reward. Its
// parameters are those of [hf.Folder.Reward]'s network. The policy must not have adapters.
func (p *Policy) NewRewardModel(o model.AdamWOptions, checkpointing bool) model.Critic {
	c := *p.net.Config
	c.Score, c.Tied = true, true
	net := NewNetwork(&c)
	at := map[string][]float32{}
	for _, t := range p.net.Params.Tensors() {
		at[t.Name] = t.Data
	}
	for _, t := range net.Params.Tensors() {
		copy(t.Data, at[t.Name]) // but for the head's, which the policy does not have
	}
	if p.net.BF16 {
		net.useBF16()
	}
	return trainCritic(net, net.Params, p.on, o, checkpointing)
}

// OpenRewardModel reads a reward model, whose weights do not change: a Hugging Face folder of a
// network for sequence classification with one label.
func OpenRewardModel(path string, on *kernel.Pool) (model.Critic, error) {
	c, err := hf.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if !c.Config.Score {
		return nil, fmt.Errorf("open reward model %s: it is a language model, which has no %s (train a reward model with "+
			"\"grpo reward-model\")", path, hf.ScoreWeight)
	}
	net, err := Load(c)
	if err != nil {
		return nil, err
	}
	return &critic{on: newCPU(on), net: net, CriticTraining: model.CriticTraining{Params: net.Params}}, nil
}
