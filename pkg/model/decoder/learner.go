package decoder

import (
	"fmt"

	"grpo/pkg/model"
)

// MicroBatchTokens is the default of train.micro_batch_tokens: enough for fast matmuls, and
// less than 2 GB of activations of a network of 135 million parameters.
const MicroBatchTokens = 2048

// learner implements [model.Learner].
type learner struct {
	net           *Network
	on            Backend
	temperature   float64
	checkpointing bool
	grads         *Network
}

func (l *learner) Accumulate(batch *model.Batch, objective model.Objective) (loss float64, err error) {
	b, g, err := graphOf(l.on, l.net, l.grads, batch, l.checkpointing)
	if err != nil {
		return 0, fmt.Errorf("learn: %w", err)
	}
	x := g.logProbs(b.places, b.targets, b.kept, l.temperature)
	out := g.Loss("policyLoss", x, g.ops, func(x, d []float32) (float64, error) {
		m := b.matrix(x)
		m.DLogProbs, m.DEntropy = make([]float64, len(m.Mask)), make([]float64, len(m.Mask))
		if loss, err = objective(m); err != nil {
			return 0, err
		}
		b.collect(m.DLogProbs, d)
		b.collect(m.DEntropy, d[len(d)/2:])
		return loss, nil
	})
	if err := g.run(out); err != nil {
		return 0, err
	}
	return loss, nil
}

func (l *learner) Grads() *model.Params { return l.grads.Params }
func (l *learner) Close() error         { return nil }

func (l *learner) ZeroGrads() {
	if c, ok := l.on.(*cpu); ok {
		c.pool.Clear(l.grads.Params.Flat)
		return
	}
	l.grads.Params.Zero()
}

// scorer implements [model.Scorer].
type scorer struct {
	net         *Network
	on          Backend
	temperature float64
}

func (s *scorer) Score(batch *model.Batch) (*model.TokenMatrix, error) {
	b, g, err := graphOf(s.on, s.net, nil, batch, false)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	out := g.logProbs(b.places, b.targets, b.kept, s.temperature)
	if err := g.run(out); err != nil {
		return nil, err
	}
	x, err := g.ops.Read(out.Value())
	if err != nil {
		return nil, err
	}
	return b.matrix(x), nil
}

func (s *scorer) Close() error { return nil }
