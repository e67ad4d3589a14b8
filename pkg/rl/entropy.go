package rl

import (
	"fmt"
	"math"
)

// Entropy returns the entropy in nats of softmax(logits):
//
//	H = -sum_v p_v log p_v,   log p_v = logits_v - logsumexp(logits)
//
// A logit of -Inf is a token that can't be sampled; it adds 0.
//
// Source: CS336 assignment 5, compute_entropy.
func Entropy(logits []float64) float64 {
	// With d = logits - max and S = sum(exp d), H = log S - sum(d exp d)/S: no
	// digits are lost to the size of the logits.
	m := largest(logits)
	s, sd := 0.0, 0.0
	for _, v := range logits {
		if math.IsInf(v, -1) {
			continue
		}
		e := math.Exp(v - m)
		s += e
		sd += e * (v - m)
	}
	return math.Log(s) - sd/s
}

// largest returns the largest value, -Inf of none, NaN if there is one.
func largest(x []float64) float64 {
	m := math.Inf(-1)
	for _, v := range x {
		m = math.Max(m, v)
	}
	return m
}

// Entropies returns the entropy of each row of logits, a flat matrix of rows of
// v values. For logits of shape (B, T, V) the result is (B, T).
func Entropies(logits []float64, v int) ([]float64, error) {
	if v < 1 || len(logits)%v != 0 {
		return nil, fmt.Errorf("entropies: %d logits are no whole number of rows of %d", len(logits), v)
	}
	out := make([]float64, len(logits)/v)
	for i := range out {
		out[i] = Entropy(logits[i*v : (i+1)*v])
	}
	return out, nil
}
