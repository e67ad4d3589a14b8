package rl

import "fmt"

// GAE returns generalized advantage estimates and returns (B, T) from token
// rewards and a value head's estimates:
//
//	delta_t = r_t + gamma V_t+1 - V_t
//	A_t     = delta_t + gamma lambda A_t+1
//	R_t     = A_t + V_t
//
// with V and A of 0 after a sequence's last token, over the tokens where the
// mask is true (0 elsewhere). The advantages are not whitened; verl does that
// afterwards ([WhitenTokens]).
//
// Source: arXiv:1506.02438; verl compute_gae_advantage_return.
func GAE(s Shape, rewards, values []float64, mask []bool, gamma, lambda float64) (
	advantages, returns []float64, err error) {
	if err := checkTokens(s, "gamma", gamma, mask, rewards, values); err != nil {
		return nil, nil, fmt.Errorf("gae: %w", err)
	}
	if !(lambda >= 0 && lambda <= 1) {
		return nil, nil, fmt.Errorf("gae: lambda is %v; it must be from 0 to 1", lambda)
	}
	advantages, returns = make([]float64, s.Len()), make([]float64, s.Len())
	for b := range s.B {
		nextA, nextV := 0.0, 0.0
		for i := (b+1)*s.T - 1; i >= b*s.T; i-- {
			if !mask[i] {
				continue
			}
			nextA = rewards[i] + float64(gamma*nextV) - values[i] + float64(gamma*lambda*nextA)
			nextV = values[i]
			advantages[i], returns[i] = nextA, nextA+nextV
		}
	}
	return advantages, returns, nil
}

// ValueLoss is PPO's clipped loss of a value head, its gradient with respect to
// the values (B, T), and the share of tokens at the clip:
//
//	l = 1/2 max((V - R)^2, (clip(V, old - c, old + c) - R)^2)
//
// aggregated over tokens. A clip range of 0 means no clip. total is the zero
// value for a whole batch.
//
// Source: verl compute_value_loss; TRL PPOTrainer.
func ValueLoss(s Shape, values, oldValues, returns []float64, mask []bool, clipRange float64,
	a Aggregation, z float64, total Totals) (loss float64, grad []float64, clipFraction float64, err error) {
	if err := checkTokens(s, "clip range", clipRange, mask, values, oldValues, returns); err != nil {
		return 0, nil, 0, fmt.Errorf("value loss: %w", err)
	}
	losses, slope := make([]float64, s.Len()), make([]float64, s.Len())
	clipped, n := 0, 0
	for i, in := range mask {
		if !in {
			continue
		}
		n++
		free := values[i] - returns[i]
		losses[i], slope[i] = free*free/2, free
		if clipRange == 0 {
			continue
		}
		near := clamp(values[i], oldValues[i]-clipRange, oldValues[i]+clipRange)
		if e := near - returns[i]; e*e > free*free {
			losses[i], slope[i] = e*e/2, 0
			clipped++
		}
	}
	grad = make([]float64, s.Len())
	if loss, err = Aggregate(a, z, s, losses, mask, total, grad); err != nil {
		return 0, nil, 0, fmt.Errorf("value loss: %w", err)
	}
	for i := range grad {
		grad[i] *= slope[i]
	}
	return loss, grad, float64(clipped) / float64(max(n, 1)), nil
}

// AdaptEntropyCoef moves the coefficient of the entropy bonus by delta, within lo..hi,
// to keep the entropy at target: up if entropy <= target, else down. next is the new
// coefficient; apply is the one for the next update. As in TRL, apply is 0 unless the
// entropy was at most target.
//
// Source: TRL use_adaptive_entropy (entropy_target, entropy_coef_delta, _min, _max).
func AdaptEntropyCoef(coef, entropy, target, delta, lo, hi float64) (next, apply float64) {
	if entropy <= target {
		next = min(coef+delta, hi)
		return next, next
	}
	return max(coef-delta, lo), 0
}
