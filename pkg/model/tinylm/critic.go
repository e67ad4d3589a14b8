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
	model.CriticTraining
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
	c := &Critic{CriticTraining: model.NewCriticTraining(w.Params, o, w.Spec)}
	if err := place(on, w.Params, c.Gradients); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	values := func(b *builder, t backbone) *G.Node { return b.valueHead(t.top, t.weight, t.bias, t.active) }
	c.forward = pass{vocab: w.Vocab, build: func(k Capacity) (*graph, error) {
		return newGraph(on, w, k, false, values)
	}}
	c.backward = pass{vocab: w.Vocab, build: func(k Capacity) (*graph, error) {
		return newGraph(on, w, k, true, func(b *builder, t backbone) *G.Node {
			return b.Loss("valueLoss", values(b, t), b.ops, c.evaluate)
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
	return c.loss, c.backward.graph.addGrads(c.Gradients)
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

// Close frees the graphs and the gradients.
func (c *Critic) Close() error {
	c.Gradients.Release()
	return errors.Join(c.forward.close(), c.backward.close())
}
