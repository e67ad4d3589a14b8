package rl

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/elementary"
)

// PreferenceTotals counts the pairs of an update. Micro-batches of one update share the totals of
// the whole.
type PreferenceTotals struct {
	Pairs        int
	ChosenTokens int // tokens of all chosen completions
}

// CountPairs returns the totals of a mask of the given shape, with rows as in [PreferenceBatch]. It
// panics if the mask is shorter than the shape.
func CountPairs(s Shape, mask []bool) PreferenceTotals {
	t := PreferenceTotals{Pairs: s.B / 2}
	for row := 0; row < s.B; row += 2 {
		t.ChosenTokens += countTrue(mask[row*s.T : (row+1)*s.T])
	}
	return t
}

// PreferenceBatch is the input of [Preference]: P pairs in 2P rows. The chosen completion of pair i
// is row 2i, the rejected one row 2i+1. Log-probabilities are in nats, at temperature 1.
type PreferenceBatch struct {
	Shape       Shape     // (2P, T)
	LogProbs    []float64 // (2P, T) of the policy
	RefLogProbs []float64 // (2P, T) of the reference policy
	Mask        []bool    // (2P, T), true on completion tokens; at least one in each row
	// LogSumSq (2P, T) is the log of the sum over the vocabulary of the squared probabilities under
	// the policy; needed for Weighting only.
	LogSumSq []float64
	// Lengths (2P) are the divisors of ipo and sigmoid_norm; nil = the number of tokens where the
	// mask is true. TRL counts the first token of a completion without a prompt too, although no
	// model predicts it.
	Lengths []int
	// Totals of the whole update, of which this is a micro-batch. The zero value means that this
	// batch is all of it.
	Totals PreferenceTotals
}

// PreferenceResult is the loss of a (micro-)batch of pairs, its gradient and what TRL reports.
type PreferenceResult struct {
	// Loss is this batch's part of the update's mean over pairs: the losses of its micro-batches add
	// up.
	Loss float64
	// Losses (P) are the losses of the pairs; nil if several losses are combined. For aot and
	// aot_unpaired they are in the order of the sorted differences, and for sft all are this batch's
	// mean over chosen tokens, as in TRL.
	Losses []float64
	// RewardsChosen and RewardsRejected (P) are beta times the completion's log-ratio to the
	// reference, whatever loss and divergence.
	RewardsChosen, RewardsRejected []float64
	// LogPsChosen and LogPsRejected (P) are the policy's log-probabilities of the completions.
	LogPsChosen, LogPsRejected []float64
	// Grad (2P, T) is dLoss/dLogProbs; 0 where the mask is false.
	Grad []float64
}

// Preference computes the loss of pairs and its gradient with respect to each log-probability:
//
//	L = sum_k weight_k mean_i l_k(pair i)
//
// where the mean is over the pairs of the update ([PreferenceTotals]), and sft is the mean over its
// chosen tokens. With LDAlpha the log-ratios, rewards and log-probabilities are the weighted sums.
//
// Source: TRL 1.16 DPOTrainer._compute_loss.
func Preference(cfg PreferenceConfig, b PreferenceBatch) (PreferenceResult, error) {
	fail := func(err error) (PreferenceResult, error) {
		return PreferenceResult{}, fmt.Errorf("preference loss: %w", err)
	}
	if err := cfg.Check(); err != nil {
		return fail(err)
	}
	total, err := b.check(cfg)
	if err != nil {
		return fail(err)
	}
	pairs := make([]pair, b.Shape.B/2)
	var r PreferenceResult
	for i := range pairs {
		p := b.pair(cfg, i)
		pairs[i] = p
		r.RewardsChosen = append(r.RewardsChosen, cfg.Beta*p.chosen.logRatio())
		r.RewardsRejected = append(r.RewardsRejected, cfg.Beta*p.rejected.logRatio())
		r.LogPsChosen = append(r.LogPsChosen, p.chosen.logProb)
		r.LogPsRejected = append(r.LogPsRejected, p.rejected.logProb)
	}
	slopes := make([]float64, b.Shape.B) // dL/d(log-ratio) of each row
	perChosenToken := 0.0                // dL/dlogp of a chosen token by sft
	for k, l := range cfg.Losses {
		weight := 1.0
		if cfg.Weights != nil {
			weight = cfg.Weights[k]
		}
		if l == DPOSFT {
			own := CountPairs(b.Shape, b.Mask).ChosenTokens
			nll := b.chosenNLL()
			r.Loss += weight * nll / float64(total.ChosenTokens)
			perChosenToken -= weight / float64(total.ChosenTokens)
			r.Losses = slices.Repeat([]float64{nll / float64(own)}, len(pairs))
			continue
		}
		r.Losses = nil
		sum, mean := 0.0, weight/float64(total.Pairs)
		for i, t := range cfg.terms(l, pairs) {
			w := pairs[i].weight
			r.Losses = append(r.Losses, w*t.value)
			sum += float64(w * t.value)
			slopes[2*i] += float64(mean * w * t.dChosen)
			slopes[2*i+1] += float64(mean * w * t.dRejected)
		}
		r.Loss += float64(mean * sum)
	}
	if len(cfg.Losses) > 1 {
		r.Losses = nil
	}
	r.Grad = b.spread(cfg, slopes, perChosenToken)
	return r, nil
}

// check checks the sizes, and returns the totals of the update.
func (b PreferenceBatch) check(cfg PreferenceConfig) (total PreferenceTotals, err error) {
	s := b.Shape
	if err := s.check(b.Mask); err != nil {
		return total, err
	}
	if s.B%2 != 0 {
		return total, fmt.Errorf("%d rows are not pairs (give a chosen and a rejected row for each pair)", s.B)
	}
	if err := s.want("log-probs", len(b.LogProbs)); err != nil {
		return total, err
	}
	if err := s.want("reference log-probs", len(b.RefLogProbs)); err != nil {
		return total, err
	}
	if cfg.Weighting {
		if err := s.want("log-sums of squares, which use_weighting needs,", len(b.LogSumSq)); err != nil {
			return total, err
		}
	}
	if b.Lengths != nil && len(b.Lengths) != s.B {
		return total, fmt.Errorf("%d lengths for %d rows", len(b.Lengths), s.B)
	}
	for row := range s.B {
		if countTrue(b.Mask[row*s.T:(row+1)*s.T]) == 0 || b.Lengths != nil && b.Lengths[row] < 1 {
			side := []string{"chosen", "rejected"}[row%2]
			return total, fmt.Errorf("the %s completion of pair %d has no tokens", side, row/2)
		}
	}
	own := CountPairs(s, b.Mask)
	total = cmp.Or(b.Totals, own)
	if total.Pairs < own.Pairs || total.ChosenTokens < own.ChosenTokens {
		return total, fmt.Errorf("totals %+v do not cover this batch, which alone has %+v (pass the sums over all "+
			"micro-batches of the update)", total, own)
	}
	if cfg.NeedsBatch() && total.Pairs != own.Pairs {
		return total, fmt.Errorf("aot and aot_unpaired sort all pairs of an update, and this batch has %d of %d "+
			"(pass them in one batch)", own.Pairs, total.Pairs)
	}
	return total, nil
}

// eachToken calls f with the index of each token of a row and its weight in the sums: 1, or
// LDAlpha from the length of the shorter completion on.
func (b PreferenceBatch) eachToken(cfg PreferenceConfig, row int, f func(i int, weight float64)) {
	shared := math.MaxInt
	if cfg.LDAlpha != 1 {
		other := row ^ 1
		shared = countTrue(b.Mask[other*b.Shape.T : (other+1)*b.Shape.T])
	}
	n := 0
	for i := row * b.Shape.T; i < (row+1)*b.Shape.T; i++ {
		if !b.Mask[i] {
			continue
		}
		weight := 1.0
		if n >= shared {
			weight = cfg.LDAlpha
		}
		f(i, weight)
		n++
	}
}

// pair returns the sums of pair i.
func (b PreferenceBatch) pair(cfg PreferenceConfig, i int) pair {
	p := pair{weight: 1}
	confidence := 0.0 // of WPO: the log of the weight
	for k, side := range []*side{&p.chosen, &p.rejected} {
		row, excess, n := 2*i+k, 0.0, 0
		b.eachToken(cfg, row, func(i int, w float64) {
			side.logProb += float64(w * b.LogProbs[i])
			side.refLogProb += float64(w * b.RefLogProbs[i])
			if cfg.Weighting {
				excess += b.LogProbs[i] - b.LogSumSq[i]
			}
			n++
		})
		confidence += excess / float64(n)
		if b.Lengths != nil {
			n = b.Lengths[row]
		}
		side.length = float64(n)
	}
	if cfg.Weighting {
		p.weight = elementary.Exp(confidence)
	}
	return p
}

// chosenNLL is the sum of -logp over the tokens of the chosen completions.
func (b PreferenceBatch) chosenNLL() float64 {
	sum := 0.0
	for row := 0; row < b.Shape.B; row += 2 {
		for i := row * b.Shape.T; i < (row+1)*b.Shape.T; i++ {
			if b.Mask[i] {
				sum -= b.LogProbs[i]
			}
		}
	}
	return sum
}

// spread turns the slopes of the rows' log-ratios into the gradient of each token.
func (b PreferenceBatch) spread(cfg PreferenceConfig, slopes []float64, perChosenToken float64) []float64 {
	grad := make([]float64, b.Shape.Len())
	for row, slope := range slopes {
		b.eachToken(cfg, row, func(i int, w float64) {
			grad[i] = float64(w * slope)
			if row%2 == 0 {
				grad[i] += perChosenToken
			}
		})
	}
	return grad
}
