package model

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Scorer computes log-probabilities and entropies of given completions: those
// of a reference policy, a teacher, or the policy itself. It is the learner's
// graph without the way back, with the same bits.
type Scorer struct {
	pass   pass
	tokens TokenMatrix
}

// NewScorer returns a scorer under p's weights, which it reads at every pass
// and never writes. Temperature divides the logits, as in sampling.
func NewScorer(p *Params, temperature float64, on Device) (*Scorer, error) {
	if err := checkTemperature(temperature); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	if err := backendOf(on).place(p); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	build := func(c capacity) (*graph, error) {
		return newGraph(on, p, c, false, func(b *builder, t trunk) *G.Node { return b.logProbs(t, temperature) })
	}
	return &Scorer{pass: pass{vocab: p.Vocab, build: build}}, nil
}

// Score runs the batch forward. The matrix is the scorer's and holds until the
// next call; its DLogProbs and DEntropy are nil.
func (s *Scorer) Score(batch *Batch) (*TokenMatrix, error) {
	if err := s.pass.run(batch); err != nil {
		return nil, err
	}
	x, err := s.pass.graph.output()
	if err != nil {
		return nil, err
	}
	s.tokens.read(&s.pass.packed, x)
	return &s.tokens, nil
}

// Close frees the graph's machine.
func (s *Scorer) Close() error { return s.pass.close() }
