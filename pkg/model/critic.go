package model

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Critic estimates the value of the state before each completion token, for
// PPO: a network of its own, of the policy's form below the head, with a head
// of one output. A separate network is what TRL, OpenRLHF and verl train: its
// loss does not pull at the policy's weights, and it has its own learning rate.
//
// It begins with the policy's trunk and a head of zeros, so that every value is
// 0 before the first update.
type Critic struct {
	// Optimizer makes the updates. It begins with the default experiment's
	// coefficients (betas 0.9 and 0.95, eps 1e-8, no decay); a caller with others
	// sets them before the first Step.
	Optimizer *AdamW

	params, grads *Params
	forward       pass // Values
	backward      pass // Accumulate; apart, since its batches are smaller and keep much more
	objective     ValueObjective
	seen, judged  ValueMatrix // of Values, of Accumulate
	loss          float64
}

// NewCritic returns a critic that begins with a copy of policy's trunk.
func NewCritic(policy *Params, on Device) (*Critic, error) {
	if err := policy.check(); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	p := newParams(policy.Spec, 1)
	if err := policy.Pull(); err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	copy(p.Flat[:p.trunkParameters()], policy.Flat)
	m := p.zeros()
	c := &Critic{
		Optimizer: &AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, M: m, V: m.Clone()},
		params:    p, grads: p.zeros(),
	}
	for _, x := range []*Params{c.params, c.grads} {
		if err := backendOf(on).place(x); err != nil {
			return nil, fmt.Errorf("new critic: %w", err)
		}
	}
	values := func(b *builder, t trunk) *G.Node { return b.valueHead(t.top, t.weight, t.bias, t.active) }
	c.forward = pass{vocab: p.Vocab, build: func(k capacity) (*graph, error) {
		return newGraph(on, p, k, false, values)
	}}
	c.backward = pass{vocab: p.Vocab, build: func(k capacity) (*graph, error) {
		return newGraph(on, p, k, true, func(b *builder, t trunk) *G.Node {
			return b.loss("valueLoss", values(b, t), c.evaluate)
		})
	}}
	return c, nil
}

// Values runs the batch forward. The matrix is the critic's and holds until the
// next call of Values, through any number of Accumulate and Step: the old
// values of PPO's clipped loss need no copy. Its DValues is nil.
func (c *Critic) Values(batch *Batch) (*ValueMatrix, error) {
	if err := c.forward.run(batch); err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	x, err := c.forward.graph.output()
	if err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	c.seen.read(&c.forward.packed, x)
	return &c.seen, nil
}

// Accumulate runs the batch forward, asks the objective for the loss and its
// gradient, runs backward and adds the weights' gradients to those of the calls
// since the last ZeroGrads. It returns the loss. The values that the objective
// sees have the bits of [Critic.Values] under the same weights.
func (c *Critic) Accumulate(batch *Batch, objective ValueObjective) (float64, error) {
	c.objective = objective
	if err := c.backward.run(batch); err != nil {
		return 0, fmt.Errorf("critic: %w", err)
	}
	return c.loss, c.backward.graph.addGrads(c.grads)
}

// evaluate is the loss node's arithmetic: v and d are (1, states).
func (c *Critic) evaluate(v, d []float32) (float64, error) {
	m, p := &c.judged, &c.backward.packed
	m.read(p, v)
	m.DValues = zeroed(m.DValues, m.B*m.T)
	loss, err := c.objective(m)
	if err != nil {
		return 0, err
	}
	c.loss = loss
	p.each(func(row, rank int, places []int) {
		for t, at := range places {
			d[at+rank] = float32(m.DValues[row*m.T+t])
		}
	})
	return loss, nil
}

// ZeroGrads forgets the accumulated gradients.
func (c *Critic) ZeroGrads() { c.grads.zero() }

// Step makes one update of the critic's weights with the accumulated gradient
// and returns its norm before clipping: see [AdamW.Step].
func (c *Critic) Step(lr, maxNorm float64) (norm float64, err error) {
	return c.Optimizer.Step(c.params, c.grads, lr, maxNorm)
}

// Parameters counts the critic's trainable numbers.
func (c *Critic) Parameters() int { return len(c.params.Flat) }

// Finite is [Params.Finite] of the critic's weights.
func (c *Critic) Finite() (string, bool) { return c.params.Finite() }

// Hash is [Params.Hash] of the critic's weights.
func (c *Critic) Hash() string { return c.params.Hash() }

// Close frees the graphs and the gradients.
func (c *Critic) Close() error {
	c.grads.leave()
	err := c.forward.close()
	if e := c.backward.close(); err == nil {
		err = e
	}
	return err
}

// CriticState is a critic's weights, and its moments with their number of
// updates, on the way into a checkpoint or out of one.
type CriticState struct {
	params  *Params
	m, v    *Params // nil without moments
	updates int
}

// State returns what a checkpoint keeps of the critic. It shares the critic's
// memory: encode it before the next Step.
func (c *Critic) State() *CriticState {
	return &CriticState{params: c.params, m: c.Optimizer.M, v: c.Optimizer.V, updates: c.Optimizer.T}
}

// Restore copies weights, moments and the number of updates out of a
// checkpoint, after which the critic goes on with the same bits. The optimizer's
// coefficients are not in a checkpoint: they are the configuration's.
func (c *Critic) Restore(s *CriticState) error {
	switch {
	case s.params.Spec != c.params.Spec:
		return fmt.Errorf("restore critic: the checkpoint's has the trunk of a %v, this one that of a %v", s.params.Spec, c.params.Spec)
	case s.m == nil:
		return fmt.Errorf("restore critic: the checkpoint holds its weights without moments: it can't go on from there with the same bits")
	}
	c.Optimizer.T = s.updates
	for _, x := range []struct{ to, from *Params }{{c.params, s.params}, {c.Optimizer.M, s.m}, {c.Optimizer.V, s.v}} {
		if err := x.to.Set(x.from); err != nil {
			return fmt.Errorf("restore critic: %w", err)
		}
	}
	return nil
}
