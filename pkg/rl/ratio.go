package rl

import "grpo/pkg/elementary"

// ImportanceLevel is the unit that has one importance ratio.
type ImportanceLevel string

const (
	// TokenLevel: r_t = exp(logp_t - old_t), for each token (PPO, GRPO).
	TokenLevel ImportanceLevel = "token"
	// SequenceLevel: r = exp(mean_t(logp_t - old_t)), one for a sequence (GSPO,
	// arXiv:2507.18071; TRL importance_sampling_level "sequence").
	SequenceLevel ImportanceLevel = "sequence"
	// SequenceSum: r = exp(sum_t(logp_t - old_t)), the ratio of the whole
	// sequence's probabilities (TRL's RLOO trainer).
	SequenceSum ImportanceLevel = "sequence_sum"
)

// ImportanceLevels lists the known levels.
func ImportanceLevels() []string { return names(importanceLevels...) }

var importanceLevels = []ImportanceLevel{TokenLevel, SequenceLevel, SequenceSum}

// sequence is the data that the terms of one sequence's tokens share.
type sequence struct {
	logRatio float64 // of the sequence; used if its tokens share one ratio
	// perToken is d(logRatio)/d(logp_t): 1/n for a mean, 1 for a sum.
	perToken     float64
	meanLogRatio float64 // of the tokens, unclipped; for the off-policy mask
	vespoLogW    float64 // the clamped log ratio of VESPO
}

// logRatio returns logp - old at token i, 0 on-policy.
func (b *Batch) logRatio(i int) float64 {
	if b.OldLogProbs == nil {
		return 0
	}
	return b.LogProbs[i] - b.OldLogProbs[i]
}

// sequenceOf computes the shared part of the sequence in a row that has n >= 1
// tokens.
func (p *plan) sequenceOf(b *Batch, row, n int) sequence {
	sum, clipped, vespo := 0.0, 0.0, 0.0
	for i := row * b.Shape.T; i < (row+1)*b.Shape.T; i++ {
		if !b.Mask[i] {
			continue
		}
		lr := b.logRatio(i)
		sum += lr
		vespo += clamp(lr, -20, 20)
		if p.Loss == GeoMean {
			c, _ := p.geoMeanClip(lr, b.advantage(row, i))
			clipped += c
		}
	}
	mean := 1 / float64(n)
	s := sequence{
		logRatio: sum * mean, perToken: mean, meanLogRatio: sum * mean,
		vespoLogW: clamp(vespo, vespoLogMin, 20),
	}
	switch {
	case p.Loss == GeoMean:
		s.logRatio = clipped * mean
	case p.Level == SequenceSum:
		s.logRatio, s.perToken = sum, 1
	}
	return s
}

// ratio returns the importance ratio of a token with log ratio logR: its own, or its
// sequence's.
func (p *plan) ratio(s *sequence, logR float64) float64 {
	if p.oneRatio() {
		logR = s.logRatio
	}
	if logR == 0 {
		return 1 // the common case on-policy
	}
	return elementary.Exp(logR)
}

func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }
