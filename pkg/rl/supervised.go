package rl

import (
	"fmt"

	"grpo/pkg/elementary"
)

// SupervisedLoss names the loss of a given token of probability p, in supervised fine-tuning.
type SupervisedLoss string

const (
	// NLL: -log p.
	NLL SupervisedLoss = "nll"
	// DFT: -p log p with p held constant, so that tokens that the policy finds unlikely count less
	// (dynamic fine-tuning, arXiv:2508.05629; TRL loss_type "dft").
	DFT SupervisedLoss = "dft"
)

// SupervisedLosses lists the known losses, the default first.
func SupervisedLosses() []string { return names(supervisedLosses...) }

var supervisedLosses = []SupervisedLoss{NLL, DFT}

// Supervised returns the weighted mean of token losses, and writes its derivative by each
// log-probability to grad:
//
//	L = sum_i w_i l_i / total
//
// logProbs, weights and grad have the same length and any layout. A token of weight 0 does not
// count: its log-probability is never read and its gradient is 0. total is the sum of the weights of
// the whole update, of which this may be a micro-batch; 0 means those of this batch. It returns an
// error for an unknown loss, other lengths, and weights without a positive sum.
func Supervised(loss SupervisedLoss, logProbs, weights []float64, total float64, grad []float64) (float64, error) {
	if err := checkName("loss_type", loss, supervisedLosses); err != nil {
		return 0, fmt.Errorf("supervised loss: %w", err)
	}
	if len(weights) != len(logProbs) || len(grad) != len(logProbs) {
		return 0, fmt.Errorf("supervised loss: %d log-probabilities, %d weights and %d places for the gradient; "+
			"the numbers must be the same", len(logProbs), len(weights), len(grad))
	}
	if total == 0 {
		for _, w := range weights {
			total += w
		}
	}
	if !positive(total) {
		return 0, fmt.Errorf("supervised loss: the weights sum to %v; the sum must be finite and above 0", total)
	}
	clear(grad)
	sum := 0.0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if loss == DFT {
			w *= elementary.Exp(logProbs[i])
		}
		sum -= w * logProbs[i] / total
		grad[i] = -w / total
	}
	return sum, nil
}
