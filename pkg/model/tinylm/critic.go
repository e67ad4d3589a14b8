package tinylm

import (
	"errors"
	"fmt"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
)

// Critic implements [model.Critic]: the policy's network below the head, a head of one output, and
// its own optimizer.
type Critic struct {
	optimizer *model.AdamW
	weights   *Weights
	grads     *model.Params

	forward   pass // Values
	backward  pass // Accumulate; separate, since its batches are smaller and keep much more
	objective model.ValueObjective
	values    model.ValueMatrix // of Values
	learned   model.ValueMatrix // of Accumulate
	loss      float64
}

// NewCritic returns a critic that starts with a copy of the policy's backbone
// and a head of zeros, so that every value is 0 before the first update.
func NewCritic(policy *Weights, o model.AdamWOptions, on model.Device) (*Critic, error) {
	if err := policy.check(); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	w := newWeights(policy.Spec, 1)
	if err := policy.Pull(); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	copy(w.Flat[:w.backboneParameters()], policy.Flat)
	c := &Critic{optimizer: model.NewAdamW(w.Params, o), weights: w, grads: w.Zeros()}
	if err := place(on, w.Params, c.grads); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	values := func(b *builder, t backbone) *G.Node { return b.valueHead(t.top, t.weight, t.bias, t.active) }
	c.forward = pass{vocab: w.Vocab, build: func(k Capacity) (*graph, error) {
		return newGraph(on, w, k, false, values)
	}}
	c.backward = pass{vocab: w.Vocab, build: func(k Capacity) (*graph, error) {
		return newGraph(on, w, k, true, func(b *builder, t backbone) *G.Node {
			return b.loss("valueLoss", values(b, t), c.evaluate)
		})
	}}
	return c, nil
}

// Values implements [model.Critic]. The matrix is valid until the next call of Values, so PPO's old
// values need no copy.
func (c *Critic) Values(batch *model.Batch) (*model.ValueMatrix, error) {
	if err := c.forward.run(batch); err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	x, err := c.forward.graph.output()
	if err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	c.forward.packed.readValues(&c.values, x)
	return &c.values, nil
}

// Accumulate implements [model.Critic]. The values that the objective sees have
// the bits of [Critic.Values] under the same weights.
func (c *Critic) Accumulate(batch *model.Batch, objective model.ValueObjective) (float64, error) {
	c.objective = objective
	if err := c.backward.run(batch); err != nil {
		return 0, fmt.Errorf("critic: %w", err)
	}
	return c.loss, c.backward.graph.addGrads(c.grads)
}

// evaluate is the loss node's arithmetic: v and d are (1, states), packed.
func (c *Critic) evaluate(v, d []float32) (float64, error) {
	m, p := &c.learned, &c.backward.packed
	p.readValues(m, v)
	m.DValues = zeroed(m.DValues, m.B*m.T)
	loss, err := c.objective(m)
	if err != nil {
		return 0, err
	}
	c.loss = loss
	p.fromRows(d, m.DValues)
	return loss, nil
}

// Grads are the accumulated gradients.
func (c *Critic) Grads() *model.Params { return c.grads }

// ZeroGrads implements [model.Critic].
func (c *Critic) ZeroGrads() { c.grads.Zero() }

// Step implements [model.Critic]: see [model.AdamW.Step].
func (c *Critic) Step(lr, maxNorm float64) (norm float64, err error) {
	return c.optimizer.Step(c.weights.Params, c.grads, lr, maxNorm)
}

// Close frees the graphs and the gradients.
func (c *Critic) Close() error {
	c.grads.Release()
	return errors.Join(c.forward.close(), c.backward.close())
}

// State implements [model.Critic]. It shares the critic's memory: encode it
// before the next Step.
func (c *Critic) State() *model.CriticState {
	return &model.CriticState{Params: c.weights.Params, M: c.optimizer.M, V: c.optimizer.V, Updates: c.optimizer.T}
}

// Restore implements [model.Critic]. The critic then continues with the same bits. The optimizer's
// coefficients come from the configuration.
func (c *Critic) Restore(s *model.CriticState) error {
	return s.Restore(c.weights.Params, c.optimizer, c.weights.Spec)
}
