package decoder

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// MicroBatchTokens is the default of train.micro_batch_tokens: enough for fast matmuls, and
// less than 2 GB of activations of a network of 135 million parameters.
const MicroBatchTokens = 2048

// learner implements [model.Learner].
type learner struct {
	net           *Network
	pool          *kernel.Pool
	temperature   float64
	checkpointing bool
	grads         *Network
	mem           *arena
}

// Accumulate implements [model.Learner].
func (l *learner) Accumulate(batch *model.Batch, objective model.Objective) (loss float64, err error) {
	b, err := pack(batch, l.net.Config.Vocab)
	if err != nil {
		return 0, fmt.Errorf("learn: %w", err)
	}
	l.mem.reset()
	g := newGraph(newPass(l.net, l.pool, l.mem, b.tree, true), l.grads, l.checkpointing)
	x := g.logProbs(b.places, b.targets, l.temperature)
	out := g.loss("policyLoss", x, func(x, d []float32) (float64, error) {
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
func (l *learner) ZeroGrads()           { l.pool.Clear(l.grads.Params.Flat) }
func (l *learner) Close() error         { return nil }

// scorer implements [model.Scorer].
type scorer struct {
	net         *Network
	pool        *kernel.Pool
	temperature float64
	mem         *arena
}

// Score implements [model.Scorer].
func (s *scorer) Score(batch *model.Batch) (*model.TokenMatrix, error) {
	b, err := pack(batch, s.net.Config.Vocab)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	s.mem.reset()
	g := newGraph(newPass(s.net, s.pool, s.mem, b.tree, false), nil, false)
	out := g.logProbs(b.places, b.targets, s.temperature)
	if err := g.run(out); err != nil {
		return nil, err
	}
	return b.matrix(fused.Floats(out.Value())), nil
}

func (s *scorer) Close() error { return nil }
