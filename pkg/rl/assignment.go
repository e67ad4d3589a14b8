package rl

import "fmt"

// TokenLosses writes the policy loss of each token (B, T), before aggregation,
// to out, and 0 where the mask is false. It is the assignment's
// compute_policy_gradient_loss; training uses [Loss], which also aggregates. The
// aggregation of cfg is not used and may be empty.
func TokenLosses(cfg LossConfig, b Batch, out []float64) error {
	cfg.Aggregation = TokenSum
	p, err := cfg.plan()
	if err == nil {
		err = p.checkBatch(&b)
	}
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
				own := b.logRatio(i)
				out[i] = p.policyTerm(&seq, b.LogProbs[i], own, p.ratio(&seq, own), b.advantage(row, i)).value
			}
		}
	}
	return nil
}

// GRPOMicrobatchTrainStep is the assignment's grpo_microbatch_train_step: the
// loss of one of k micro-batches of equal size,
//
//	L = 1/k mean_b masked_mean_t(token loss)
//
// and its gradient with respect to the log-probabilities. It is [Loss] with the
// totals of k such batches.
//
// Source: CS336 assignment 5 (2025), grpo_microbatch_train_step.
func GRPOMicrobatchTrainStep(cfg LossConfig, b Batch, gradientAccumulationSteps int) (Result, error) {
	if gradientAccumulationSteps < 1 {
		return Result{}, fmt.Errorf("grpo micro-batch: %d accumulation steps; there must be at least 1", gradientAccumulationSteps)
	}
	if err := b.Shape.want("mask", len(b.Mask)); err != nil {
		return Result{}, fmt.Errorf("grpo micro-batch: %w", err)
	}
	b.Totals = Count(b.Shape, b.Mask, nil).Times(gradientAccumulationSteps)
	return Loss(cfg, b)
}

// SFTMicrobatchTrainStep is the assignment's sft_microbatch_train_step: the
// negative log-likelihood of one of k micro-batches of equal size,
//
//	L = -1/k mean_b (sum_t logp_b,t mask_b,t / z)
//
// and its gradient with respect to the log-probabilities, -mask/(k B z).
//
// Source: CS336 assignment 5 (2025), sft_microbatch_train_step.
func SFTMicrobatchTrainStep(s Shape, logProbs []float64, mask []bool, gradientAccumulationSteps int, z float64) (Result, error) {
	ones := make([]float64, max(s.B, 0))
	for i := range ones {
		ones[i] = 1
	}
	cfg := LossConfig{Loss: NoBaseline, Aggregation: MaskedNormalizeSeq, NormalizeConstant: z}
	r, err := GRPOMicrobatchTrainStep(cfg, Batch{Shape: s, LogProbs: logProbs, Advantages: ones, Mask: mask}, gradientAccumulationSteps)
	if err != nil {
		return r, fmt.Errorf("sft micro-batch: %w", err)
	}
	return r, nil
}
