package tinylm

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
)

// Scorer computes log-probabilities and entropies of given completions: those
// of a reference policy, a teacher, or the policy itself. It is the learner's
// graph without the backward pass, with the same bits.
type Scorer struct {
	pass   pass
	tokens model.TokenMatrix
}

// NewScorer returns a scorer under p's weights, which it reads at every pass
// and never writes. Temperature divides the logits, as in sampling.
func NewScorer(p *Weights, temperature float64, on model.Device) (*Scorer, error) {
	if err := checkTemperature(temperature); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	if err := backendOf(on).Place(p.Params); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	build := func(c Capacity) (*graph, error) {
		return newGraph(on, p, c, false, func(b *builder, t backbone) *G.Node { return b.logProbs(t, temperature) })
	}
	return &Scorer{pass: pass{vocab: p.Vocab, build: build}}, nil
}

// Score runs the batch forward. The matrix is the scorer's and holds until the
// next call; its DLogProbs and DEntropy are nil.
func (s *Scorer) Score(batch *model.Batch) (*model.TokenMatrix, error) {
	if err := s.pass.run(batch); err != nil {
		return nil, err
	}
	x, err := s.pass.graph.output()
	if err != nil {
		return nil, err
	}
	s.pass.packed.readTokens(&s.tokens, x)
	return &s.tokens, nil
}

// Close frees the graph's machine.
func (s *Scorer) Close() error { return s.pass.close() }
