package rl

import (
	"fmt"
	"math"
	"slices"
)

// ReturnsToGo sums the rewards (B, T) from each token to the end of its
// sequence, discounted:
//
//	R_t = r_t + gamma R_t+1
//
// over the tokens where the mask is true; 0 elsewhere.
//
// Source: verl REINFORCE++ (arXiv:2501.03262).
func ReturnsToGo(s Shape, rewards []float64, mask []bool, gamma float64) ([]float64, error) {
	if err := checkTokens(s, "gamma", gamma, mask, rewards); err != nil {
		return nil, fmt.Errorf("returns to go: %w", err)
	}
	out := make([]float64, s.Len())
	for b := range s.B {
		next := 0.0
		for i := (b+1)*s.T - 1; i >= b*s.T; i-- {
			if mask[i] {
				next = rewards[i] + float64(gamma*next)
				out[i] = next
			}
		}
	}
	return out, nil
}

// WhitenTokens centers and scales the values of all tokens of the batch where the mask is true:
//
//	y = (x - mean) / sqrt(var + eps),   var with divisor n-1
//
// Here eps is inside the root, as in verl's masked_whiten, which uses 1e-8. Pass the whole batch:
// the statistics are over its tokens, so long sequences have more weight. A batch of equal values,
// or of fewer than two, gives 0.
//
// Source: verl REINFORCE++ and its baseline form.
func WhitenTokens(s Shape, x []float64, mask []bool, eps float64) ([]float64, error) {
	if err := checkTokens(s, "eps", eps, mask, x); err != nil {
		return nil, fmt.Errorf("whiten tokens: %w", err)
	}
	in := make([]float64, s.Len())
	for i := range in {
		if in[i] = math.NaN(); mask[i] {
			in[i] = x[i]
		}
	}
	m := momentsOf(in)
	out := make([]float64, s.Len())
	if m.n < 2 || m.std == 0 {
		return out, nil
	}
	for i, ok := range mask {
		if ok {
			out[i] = (x[i] - m.mean) / math.Sqrt(float64(m.std*m.std)+eps)
		}
	}
	return out, nil
}

// MiniLLMAdvantages are token-level advantages from a teacher's log-probs (B, T), the negative
// reverse KL to the teacher from each token on:
//
//	r_t = teacher_t - student_t
//	A_t = sum_{i>=t} gamma^(i-t) r_i  [ / sum_{i>=t} gamma^(i-t) ]
//
// The part in brackets is the length normalization. 0 where the mask is false. (TRL's code omits
// the factor gamma^-t, which cancels in the division.)
//
// Source: arXiv:2306.08543; TRL MiniLLMTrainer.
func MiniLLMAdvantages(s Shape, teacher, student []float64, mask []bool, gamma float64,
	lengthNormalization bool) ([]float64, error) {
	if err := checkTokens(s, "gamma", gamma, mask, teacher, student); err != nil {
		return nil, fmt.Errorf("minillm advantages: %w", err)
	}
	r, ones := make([]float64, s.Len()), make([]float64, s.Len())
	for i, in := range mask {
		if in {
			r[i], ones[i] = teacher[i]-student[i], 1
		}
	}
	adv, err := ReturnsToGo(s, r, mask, gamma)
	if err != nil || !lengthNormalization {
		return adv, err
	}
	length, err := ReturnsToGo(s, ones, mask, gamma)
	for i, in := range mask {
		if in {
			adv[i] /= length[i]
		}
	}
	return adv, err
}

// KLInReward returns the rewards (B) less beta times the KL estimate summed over
// each sequence, for a KL penalty in the reward instead of the loss:
//
//	r_b - beta sum_t KL(logp_b,t, ref_b,t)
//
// Source: TRL RLOOTrainer (k1); verl use_kl_in_reward.
func KLInReward(s Shape, rewards, logProbs, refLogProbs []float64, mask []bool, e KLEstimator,
	beta float64) ([]float64, error) {
	fail := func(err error) ([]float64, error) { return nil, fmt.Errorf("kl in reward: %w", err) }
	if err := checkTokens(s, "beta", beta, mask, logProbs, refLogProbs); err != nil {
		return fail(err)
	}
	if err := checkName("KL estimator", e, klEstimators); err != nil {
		return fail(err)
	}
	if len(rewards) != s.B {
		return fail(fmt.Errorf("%d rewards for %d sequences", len(rewards), s.B))
	}
	out := make([]float64, s.B)
	for b := range s.B {
		kl := 0.0
		for i := b * s.T; i < (b+1)*s.T; i++ {
			if mask[i] {
				v, _ := e.At(logProbs[i], refLogProbs[i])
				kl += v
			}
		}
		out[b] = rewards[b] - float64(beta*kl)
	}
	return out, nil
}

// checkTokens checks shapes, and that a factor is finite and at least 0.
func checkTokens(s Shape, name string, factor float64, mask []bool, xs ...[]float64) error {
	if !(factor >= 0) || math.IsInf(factor, 1) {
		return fmt.Errorf("%s is %v; it must be finite and at least 0", name, factor)
	}
	return s.check(mask, xs...)
}

// TopEntropyMask returns the mask (B, T) of the tokens with the highest entropies, the share
// quantile of them: those at or above the 1-quantile of the entropies of all tokens where mask is
// true, with linear interpolation. Pass it as [Batch].PolicyMask: it restricts the policy term, not
// the KL term or the totals. Compute it for the whole optimizer batch and split it into
// micro-batches, so accumulation is exact.
//
// quantile must be in (0, 1]; 1 keeps every token.
//
// Source: TRL top_entropy_quantile; arXiv:2506.01939.
func TopEntropyMask(s Shape, entropies []float64, mask []bool, quantile float64) ([]bool, error) {
	if !(quantile > 0 && quantile <= 1) {
		return nil, fmt.Errorf("top entropy mask: quantile %v; it must be above 0 and at most 1", quantile)
	}
	if err := s.check(mask, entropies); err != nil {
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
	at := float64(q * float64(len(sorted)-1))
	i := int(math.Floor(at))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}
