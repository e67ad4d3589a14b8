package decoder

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// critic implements [model.Critic]: the policy's network, and a head of one output whose
// weights and bias are parameters of their own.
type critic struct {
	pool       *kernel.Pool
	net, grads *Network // views of the parameters that follow
	params     *model.Params
	gradients  *model.Params
	optimizer  *model.AdamW
	mem        arena
}

// headWeight and headBias are the names of the critic's own parameters.
const headWeight, headBias = "value_head.weight", "value_head.bias"

func newCritic(policy *Network, pool *kernel.Pool, o model.AdamWOptions) *critic {
	form := append([]model.Tensor{}, policy.Params.Tensors()...)
	form = append(form, model.Tensor{Name: headWeight, Shape: []int{1, policy.Config.Hidden}}, model.Tensor{Name: headBias, Shape: []int{1}})
	params := model.NewParams(form)
	copy(params.Flat, policy.Params.Flat)
	c := &critic{pool: pool, params: params, gradients: params.Zeros(), optimizer: model.NewAdamW(params, o)}
	c.net, c.grads = view(policy.Config, params), view(policy.Config, c.gradients)
	return c
}

// head splits parameters into the weights (hidden) and the bias (1) of the value head.
func (c *critic) head(p *model.Params) (weight, bias []float32) {
	n := len(p.Flat) - 1
	return p.Flat[n-c.net.Config.Hidden : n], p.Flat[n:]
}

// values runs a batch forward and returns the value of each prediction's state.
func (c *critic) values(batch *model.Batch, backward bool) (*packed, *pass, []float32, error) {
	b, err := pack(batch, c.net.Config.Vocab)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("critic: %w", err)
	}
	p := newPass(c.net, c.pool, &c.mem, b.tree, backward)
	p.forward()
	w, bias := c.head(c.params)
	out := make([]float32, len(b.places))
	for i, at := range b.places {
		sum := float64(bias[0])
		for j, x := range p.final[at*len(w) : (at+1)*len(w)] {
			sum += float64(x) * float64(w[j])
		}
		out[i] = float32(sum)
	}
	return b, p, out, nil
}

// Values implements [model.Critic].
func (c *critic) Values(batch *model.Batch) (*model.ValueMatrix, error) {
	b, _, v, err := c.values(batch, false)
	if err != nil {
		return nil, err
	}
	return &model.ValueMatrix{B: b.b, T: b.t, Values: b.spread(v), Mask: b.mask()}, nil
}

// Accumulate implements [model.Critic].
func (c *critic) Accumulate(batch *model.Batch, objective model.ValueObjective) (float64, error) {
	b, p, v, err := c.values(batch, true)
	if err != nil {
		return 0, err
	}
	m := &model.ValueMatrix{B: b.b, T: b.t, Values: b.spread(v), Mask: b.mask(), DValues: make([]float64, b.b*b.t)}
	loss, err := objective(m)
	if err != nil {
		return 0, err
	}
	w, _ := c.head(c.params)
	dw, dbias := c.head(c.gradients)
	dfinal := c.mem.zeros(len(p.final))
	for i, d := range b.collect(m.DValues) {
		at := b.places[i] * len(w)
		dbias[0] += d
		for j := range w {
			dw[j] += d * p.final[at+j]
			dfinal[at+j] += d * w[j]
		}
	}
	p.backward(dfinal, c.grads)
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
	return s.Restore(c.params, c.optimizer, Size{*c.net.Config})
}
