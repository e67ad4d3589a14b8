package rl

import (
	"fmt"
	"slices"

	"grpo/pkg/elementary"
)

// LossConfig selects the loss. The zero value of an option disables it or means its default.
type LossConfig struct {
	Loss LossType
	// Formula, if not nil, is the policy term; Loss must be empty.
	Formula     Formula
	Aggregation Aggregation
	// NormalizeConstant is Z of the aggregations that divide by a constant.
	NormalizeConstant float64

	// Epsilon bounds the ratio below at 1-Epsilon (the assignment's cliprange), EpsilonHigh above
	// at 1+EpsilonHigh (0: the same as Epsilon). For CISPO, EpsilonHigh is the largest ratio
	// itself, and Epsilon is unused.
	Epsilon, EpsilonHigh float64
	Delta                float64         // TRL: upper bound of the unclipped ratio (0 = none)
	DualClip             float64         // verl clip_ratio_c, OpenRLHF dual_clip: > 1 (0 = none)
	Level                ImportanceLevel // "" = TokenLevel

	LossParams // of single losses

	Beta             float64     // weight of the KL term to the reference (0 = none)
	KL               KLEstimator // "" = K3
	KLBiasCorrection bool        // multiply the KL term by the ratio (TRL use_bias_correction_kl)

	EntropyCoef    float64 // weight of the entropy bonus (0 = none)
	EntropyOverAll bool    // the bonus divides by all tokens, also with a policy mask (TRL dapo, cispo, vespo)

	// OffPolicyMask drops the policy term of sequences with A < 0 whose mean of
	// old - logp is above the threshold, in nats per token (TRL
	// off_policy_mask_threshold, DeepSeek-V3.2).
	OffPolicyMask          bool
	OffPolicyMaskThreshold float64
}

// Batch is the input of the loss.
type Batch struct {
	Shape    Shape
	LogProbs []float64 // (B, T) of the policy
	// OldLogProbs (B, T) are those at sampling time; nil means on-policy: the ratio
	// is 1.
	OldLogProbs []float64
	RefLogProbs []float64 // (B, T) of the reference policy; required if Beta is not 0 or a formula names it
	Entropies   []float64 // (B, T) of the policy; required if EntropyCoef is not 0 or a formula names it
	// Advantages: one for each sequence (B), or one for each token (B, T).
	Advantages []float64
	Mask       []bool // (B, T), true on completion tokens
	// PolicyMask (B, T) restricts the policy term, but neither the KL term nor the
	// divisor of the aggregation: see TopEntropyMask. nil = no restriction.
	PolicyMask []bool
	// Totals of the whole optimizer batch, of which this is a micro-batch. The zero value means
	// that this is the whole batch.
	Totals Totals
}

// Result is the loss of a (micro-)batch and its gradients.
type Result struct {
	// Loss is this batch's part: the losses of an update's micro-batches sum to the total.
	Loss float64
	// PolicyLoss is Loss without the entropy bonus.
	PolicyLoss float64
	// Grad (B, T) is dLoss/dLogProbs; 0 where the mask is false.
	Grad []float64
	// GradEntropy (B, T) is dLoss/dEntropies; empty if the loss does not depend on them.
	GradEntropy []float64
	Stats       Stats
}

// Loss computes the loss of a batch and its gradient with respect to each
// log-probability:
//
//	L = sum_b,t w_b (policy term + beta KL term) - entropy_coef * mean entropy
//
// where the sum and the mean are over the tokens where the mask is true. A
// sequence without such tokens contributes 0.
func Loss(cfg LossConfig, b Batch) (Result, error) {
	var r Result
	err := LossInto(cfg, b, &r)
	return r, err
}

// LossInto is [Loss] into a result whose slices are reused, so that a training loop does not
// allocate. After an error the result is invalid.
func LossInto(cfg LossConfig, b Batch, into *Result) error {
	p, err := cfg.planFor(&b)
	if err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	total, err := resolveTotals(b.Shape, b.Mask, b.PolicyMask, b.Totals)
	if err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	into.PolicyLoss, into.Stats = 0, Stats{}
	into.Grad, into.GradEntropy = zeros(into.Grad, b.Shape.Len()), into.GradEntropy[:0]
	if p.EntropyCoef != 0 || p.namesEntropy {
		into.GradEntropy = zeros(into.GradEntropy, b.Shape.Len())
	}
	for row := range b.Shape.B {
		lo := row * b.Shape.T
		if n := countTrue(b.Mask[lo : lo+b.Shape.T]); n > 0 {
			w := p.Aggregation.weight(n, b.Shape.T, p.NormalizeConstant, total)
			into.PolicyLoss += float64(w * p.row(&b, row, n, w, into))
		}
	}
	into.Loss = into.PolicyLoss
	if p.EntropyCoef != 0 {
		p.entropyBonus(&b, total, into)
	}
	return nil
}

// entropyBonus subtracts coefficient times mean entropy from the loss. The mean
// is over the tokens that the policy mask keeps (TRL), or their sum over all
// tokens with EntropyOverAll.
func (p *plan) entropyBonus(b *Batch, total Totals, into *Result) {
	n := total.Kept
	if p.EntropyOverAll {
		n = total.Tokens
	}
	w := p.EntropyCoef / float64(max(n, 1))
	sum := 0.0
	for i, in := range b.Mask {
		if in && (b.PolicyMask == nil || b.PolicyMask[i]) {
			sum += b.Entropies[i]
			into.GradEntropy[i] -= w
		}
	}
	into.Loss -= float64(w * sum)
}

// row adds the gradient of one sequence of n tokens, each with weight w, and returns
// the unweighted sum of its token losses.
func (p *plan) row(b *Batch, row, n int, w float64, into *Result) float64 {
	seq := p.sequenceOf(b, row, n)
	st, grad := &into.Stats, into.Grad
	var clips clipCount
	sum, shared := 0.0, 0.0
	lo, hi := row*b.Shape.T, (row+1)*b.Shape.T
	for i := lo; i < hi; i++ {
		if !b.Mask[i] {
			continue
		}
		logR, adv := b.logRatio(i), b.advantage(row, i)
		r := p.ratio(&seq, logR)
		t := p.policyTerm(b, &seq, i, logR, r, adv)
		clips.add(t)
		if p.OffPolicyMask && adv < 0 && -seq.meanLogRatio > p.OffPolicyMaskThreshold ||
			b.PolicyMask != nil && !b.PolicyMask[i] {
			t = term{}
		}
		if p.Beta != 0 {
			st.refKL.add(p.addKL(&t, b.LogProbs[i], b.RefLogProbs[i], r))
		}
		if b.Entropies != nil {
			st.entropy.add(b.Entropies[i])
		}
		if p.Loss == VESPO {
			st.phi.sum += p.phi(&seq, adv) / float64(n)
		}
		st.Tokens++
		if b.OldLogProbs != nil {
			tokenRatio := r
			if p.oneRatio() {
				tokenRatio = elementary.Exp(logR)
			}
			st.ratio.add(r)
			st.ppoKL.add(-logR)
			st.k3.add(tokenRatio - 1 - logR)
		}
		sum += t.value
		grad[i] = float64(w * t.dLogProb)
		if t.dEntropy != 0 {
			into.GradEntropy[i] = w * t.dEntropy
		}
		if p.oneRatio() {
			shared += float64(w * t.dLogRatio)
		} else {
			grad[i] += float64(w * t.dLogRatio)
		}
	}
	if p.oneRatio() {
		p.share(b, row, shared*seq.perToken, grad)
	}
	st.Sequences++
	if p.Loss == VESPO {
		st.phi.n++
	}
	if p.clips() && b.OldLogProbs != nil {
		st.addClips(p.units(b, clips))
	}
	return sum
}

// units returns the clip counts in units: tokens, or one sequence if its tokens share ratio and
// advantage, so that all or none are clipped.
func (p *plan) units(b *Batch, c clipCount) clipCount {
	if !p.clipsWhole() || len(b.Advantages) != b.Shape.B {
		return c
	}
	return clipCount{1, min(c.low, 1), min(c.high, 1), min(c.dual, 1)}
}

// share adds a sequence's common derivative to each of its tokens; for GeoMean only to those whose
// own ratio was not clipped.
func (p *plan) share(b *Batch, row int, g float64, grad []float64) {
	for i := row * b.Shape.T; i < (row+1)*b.Shape.T; i++ {
		if !b.Mask[i] {
			continue
		}
		if p.Loss == GeoMean {
			if _, side := p.geoMeanClip(b.logRatio(i), b.advantage(row, i)); side != 0 {
				continue
			}
		}
		grad[i] += g
	}
}

func (b *Batch) advantage(row, i int) float64 {
	if len(b.Advantages) == b.Shape.B {
		return b.Advantages[row]
	}
	return b.Advantages[i]
}

// zeros returns a slice of n zeros, in s if it is large enough.
func zeros(s []float64, n int) []float64 {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// TokenLosses writes the policy loss of each token (B, T), before aggregation,
// to out, and 0 where the mask is false. It is the assignment's
// compute_policy_gradient_loss; training uses [Loss], which also aggregates. It
// ignores the aggregation of cfg.
func TokenLosses(cfg LossConfig, b Batch, out []float64) error {
	cfg.Aggregation = TokenSum
	p, err := cfg.planFor(&b)
	if err == nil {
		err = b.Shape.want("out", len(out))
	}
	if err != nil {
		return fmt.Errorf("token losses: %w", err)
	}
	clear(out)
	for row := range b.Shape.B {
		lo, hi := row*b.Shape.T, (row+1)*b.Shape.T
		n := countTrue(b.Mask[lo:hi])
		if n == 0 {
			continue
		}
		seq := p.sequenceOf(&b, row, n)
		for i := lo; i < hi; i++ {
			if b.Mask[i] {
				logR := b.logRatio(i)
				out[i] = p.policyTerm(&b, &seq, i, logR, p.ratio(&seq, logR), b.advantage(row, i)).value
			}
		}
	}
	return nil
}
