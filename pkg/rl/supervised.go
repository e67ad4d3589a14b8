package rl

import (
	"fmt"
	"math"
)

// SupervisedLoss is the loss of a token of probability p.
type SupervisedLoss string

// The supervised losses.
const (
	NLL SupervisedLoss = "nll" // -log p
	// DFT is -p log p with the factor p held constant: dynamic fine-tuning, arXiv:2508.05629.
	DFT SupervisedLoss = "dft"
)

// SupervisedLosses lists the supervised losses.
func SupervisedLosses() []string { return []string{string(NLL), string(DFT)} }

// Supervised returns the weighted mean of the losses of tokens and adds its gradient to grad.
// logProbs and grad are (B,T), of which row i has the tokens of weights[i].
func Supervised(kind SupervisedLoss, shape Shape, logProbs []float64, weights [][]float64, grad []float64) (float64, error) {
	if kind != NLL && kind != DFT {
		return 0, fmt.Errorf("supervised loss: %q is not one of %v", kind, SupervisedLosses())
	}
	if len(weights) != shape.B || len(logProbs) != shape.Len() || len(grad) != shape.Len() {
		return 0, fmt.Errorf("supervised loss: %d rows of weights, %d log-probabilities and %d gradients for %d sequences of %d tokens",
			len(weights), len(logProbs), len(grad), shape.B, shape.T)
	}
	var total, loss float64
	for _, w := range weights {
		for _, v := range w {
			total += v
		}
	}
	for i, w := range weights {
		for t, v := range w {
			at := i*shape.T + t
			if kind == DFT {
				v *= math.Exp(logProbs[at])
			}
			loss -= v * logProbs[at] / total
			grad[at] -= v / total
		}
	}
	return loss, nil
}
