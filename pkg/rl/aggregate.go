package rl

import (
	"cmp"
	"fmt"
	"math"
)

// Aggregation turns token losses into one number. All of them are weighted sums
//
//	L = sum_b sum_t w_b l_b,t    over the tokens where the mask is true
//
// with a weight w_b that depends on the length n_b of the sequence and on the
// [Totals] of the optimizer batch: S sequences, E of them with at least one
// token, N tokens. Z is the normalize constant.
type Aggregation string

const (
	// MaskedMeanSeq: w = 1/(n_b S). Each sequence's mean over its tokens, then
	// the mean over sequences; a sequence without tokens counts in S and adds 0.
	// CS336 assignment 5 (masked_mean), TRL grpo and sapo.
	MaskedMeanSeq Aggregation = "masked_mean"
	// MaskedNormalizeSeq: w = 1/(Z S). Each sequence's sum over Z, then the mean
	// over sequences. CS336 assignment 5 of 2025 (masked_normalize), TRL dr_grpo
	// with Z = max_completion_length.
	MaskedNormalizeSeq Aggregation = "masked_normalize"
	// Constant: w = 1/Z. The sum over all tokens of the batch over Z, with no
	// mean over sequences: S times [MaskedNormalizeSeq]. CS336 assignment 5 of
	// 2026 (constant).
	Constant Aggregation = "constant"
	// TokenMean: w = 1/N. Every token of the batch has the same weight. verl token-mean, TRL dapo
	// (and bnpo, which TRL normalizes by the micro-batch).
	TokenMean Aggregation = "token-mean"
	// TokenSum: w = 1. verl token-sum.
	TokenSum Aggregation = "token-sum"
	// SeqMeanTokenSum: w = 1/E. verl seq-mean-token-sum; with S for E, TRL luspo
	// ([MaskedNormalizeSeq] with Z = 1).
	SeqMeanTokenSum Aggregation = "seq-mean-token-sum"
	// SeqMeanTokenMean: w = 1/(n_b E). verl seq-mean-token-mean; it differs from [MaskedMeanSeq] if
	// sequences are empty.
	SeqMeanTokenMean Aggregation = "seq-mean-token-mean"
	// SeqMeanTokenSumNorm: w = 1/(Z E), Z = T if none is given. verl
	// seq-mean-token-sum-norm (loss_scale_factor is Z).
	SeqMeanTokenSumNorm Aggregation = "seq-mean-token-sum-norm"
)

// Aggregations lists the known aggregations.
func Aggregations() []string {
	return names(MaskedMeanSeq, MaskedNormalizeSeq, Constant, TokenMean, TokenSum,
		SeqMeanTokenSum, SeqMeanTokenMean, SeqMeanTokenSumNorm)
}

// check checks that a is known and z fits it.
func (a Aggregation) check(z float64) error {
	switch a {
	case MaskedNormalizeSeq, Constant:
		if !(z > 0) || math.IsInf(z, 1) {
			return fmt.Errorf("aggregation %q divides by the normalize constant, which is %v; "+
				"it must be finite and above 0", a, z)
		}
	case SeqMeanTokenSumNorm:
		if !(z >= 0) || math.IsInf(z, 1) {
			return fmt.Errorf("aggregation %q: normalize constant %v; it must be finite and above 0, or 0 for T", a, z)
		}
	case MaskedMeanSeq, TokenMean, TokenSum, SeqMeanTokenSum, SeqMeanTokenMean:
	default:
		return unknown("aggregation", string(a), Aggregations())
	}
	return nil
}

// weight returns w_b of a sequence of n tokens (n >= 1) in rows of t tokens.
func (a Aggregation) weight(n, t int, z float64, total Totals) float64 {
	switch a {
	case MaskedMeanSeq:
		return 1 / (float64(n) * float64(total.Sequences))
	case MaskedNormalizeSeq:
		return 1 / (z * float64(total.Sequences))
	case Constant:
		return 1 / z
	case TokenMean:
		return 1 / float64(total.Tokens)
	case SeqMeanTokenSum:
		return 1 / float64(total.NonEmpty)
	case SeqMeanTokenMean:
		return 1 / (float64(n) * float64(total.NonEmpty))
	case SeqMeanTokenSumNorm:
		return 1 / (cmp.Or(z, float64(t)) * float64(total.NonEmpty))
	}
	return 1 // TokenSum
}

// Aggregate reduces a matrix of token losses to one number, and writes the
// weight of each token, which is the gradient dL/dl, to weights (length B*T, or
// nil if not needed). total is the zero value for a whole batch. A
// batch without any token gives 0.
func Aggregate(a Aggregation, z float64, s Shape, losses []float64, mask []bool, total Totals,
	weights []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("aggregate: %w", err) }
	if err := a.check(z); err != nil {
		return fail(err)
	}
	if err := s.check(mask, losses); err != nil {
		return fail(err)
	}
	if weights != nil {
		if err := s.want("weights", len(weights)); err != nil {
			return fail(err)
		}
		clear(weights)
	}
	total, err := resolveTotals(s, mask, nil, total)
	if err != nil {
		return fail(err)
	}
	loss := 0.0
	for b := range s.B {
		row := mask[b*s.T : (b+1)*s.T]
		n := countTrue(row)
		if n == 0 {
			continue
		}
		w, sum := a.weight(n, s.T, z, total), 0.0
		for t, in := range row {
			if in {
				sum += losses[b*s.T+t]
				if weights != nil {
					weights[b*s.T+t] = w
				}
			}
		}
		loss += float64(w * sum)
	}
	return loss, nil
}

// resolveTotals returns given, or the batch's own totals if given is the zero value. Totals smaller
// than the batch are an error.
func resolveTotals(s Shape, mask, policyMask []bool, given Totals) (Totals, error) {
	own := Count(s, mask, policyMask)
	if given == (Totals{}) {
		return own, nil
	}
	if !given.covers(own) {
		return own, fmt.Errorf("totals %+v do not cover this batch, which alone has %+v "+
			"(pass the sums over all micro-batches of the update)",
			given, own)
	}
	return given, nil
}
