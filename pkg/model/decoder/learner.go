package decoder

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// learner implements [model.Learner].
type learner struct {
	net         *Network
	pool        *kernel.Pool
	temperature float64
	grads       *Network
	mem         arena
}

// Accumulate implements [model.Learner].
func (l *learner) Accumulate(batch *model.Batch, objective model.Objective) (loss float64, err error) {
	b, err := pack(batch, l.net.Config.Vocab)
	if err != nil {
		return 0, fmt.Errorf("learn: %w", err)
	}
	p := newPass(l.net, l.pool, &l.mem, b.tree, true)
	p.forward()
	dfinal := l.mem.zeros(len(p.final))
	p.logProbs(b.places, b.targets, l.temperature, func(logp, entropy []float32) (dlogp, dentropy []float32) {
		m := b.matrix(logp, entropy)
		m.DLogProbs, m.DEntropy = make([]float64, len(m.Mask)), make([]float64, len(m.Mask))
		loss, err = objective(m)
		return b.collect(m.DLogProbs), b.collect(m.DEntropy)
	}, dfinal, l.grads)
	if err != nil {
		return 0, err
	}
	p.backward(dfinal, l.grads)
	return loss, nil
}

func (l *learner) Grads() *model.Params { return l.grads.Params }
func (l *learner) ZeroGrads()           { l.grads.Params.Zero() }
func (l *learner) Close() error         { return nil }

// scorer implements [model.Scorer].
type scorer struct {
	net         *Network
	pool        *kernel.Pool
	temperature float64
	mem         arena
}

// Score implements [model.Scorer].
func (s *scorer) Score(batch *model.Batch) (*model.TokenMatrix, error) {
	b, err := pack(batch, s.net.Config.Vocab)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	p := newPass(s.net, s.pool, &s.mem, b.tree, false)
	p.forward()
	return b.matrix(p.logProbs(b.places, b.targets, s.temperature, nil, nil, nil)), nil
}

func (s *scorer) Close() error { return nil }
