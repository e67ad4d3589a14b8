package rl

import (
	"fmt"
	"math"
	"slices"
)

// TopEntropyMask returns the mask (B, T) of the tokens with the highest
// entropies, the share quantile of them: those at or above the 1-quantile of
// the entropies of all tokens where mask is true, with linear interpolation.
// Give it to [Batch].PolicyMask: the policy term then counts only there, while
// the KL term and the totals stay as they are. Take it over the whole optimizer
// batch and cut it into micro-batches, so that accumulation stays exact.
//
// quantile must be in (0, 1]; 1 keeps every token.
//
// Source: TRL top_entropy_quantile; arXiv:2506.01939.
func TopEntropyMask(s Shape, entropies []float64, mask []bool, quantile float64) ([]bool, error) {
	if !(quantile > 0 && quantile <= 1) {
		return nil, fmt.Errorf("top entropy mask: quantile %v; it must be above 0 and at most 1", quantile)
	}
	if err := s.want("entropies", len(entropies)); err != nil {
		return nil, fmt.Errorf("top entropy mask: %w", err)
	}
	if err := s.want("mask", len(mask)); err != nil {
		return nil, fmt.Errorf("top entropy mask: %w", err)
	}
	var in []float64
	for i, m := range mask {
		if m {
			in = append(in, entropies[i])
		}
	}
	out := make([]bool, len(mask))
	if len(in) == 0 {
		return out, nil
	}
	slices.Sort(in)
	threshold := quantileOf(in, 1-quantile)
	for i, m := range mask {
		out[i] = m && entropies[i] >= threshold
	}
	return out, nil
}

// quantileOf returns the q-quantile of a sorted slice, interpolating linearly
// between neighbours (the default of torch.quantile and of NumPy).
func quantileOf(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
