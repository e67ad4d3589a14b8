package train

import (
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// policyLoss is the loss of some rows in a form that a GPU evaluates by itself,
// or nil where it has no such form: off-policy, with a KL or entropy term, with
// advantages or masks of tokens, or of a kind that needs more than its token. On
// the CPU the general way is taken always (its bits are those of pkg/rl).
func (t *trainer) policyLoss(c rl.LossConfig, r *rollout, rows []int, masked bool, totals rl.Totals) *model.PolicyLoss {
	if t.device.gpu == nil || !t.onPolicy() || masked || r.tokenAdvantages != nil ||
		c.Beta != 0 || c.EntropyCoef != 0 || c.Delta != 0 || c.OffPolicyMask || c.Level != "" && c.Level != rl.TokenLevel {
		return nil
	}
	p := &model.PolicyLoss{}
	switch c.Loss {
	case rl.NoBaseline, rl.ReinforceWithBaseline:
	case rl.GRPOClip, rl.GRPONoClip:
		p.Ratio = true
	default:
		return nil
	}
	if c.Aggregation == rl.SeqMeanTokenSumNorm && c.NormalizeConstant == 0 {
		return nil // its weight depends on the width of the batch
	}
	weights := map[int]float64{}
	for _, i := range rows {
		n := len(r.completions[i].Tokens)
		w, known := weights[n]
		if !known {
			var err error
			if w, err = rowWeight(c, n, totals); err != nil {
				return nil // the general way reports it
			}
			weights[n] = w
		}
		p.Advantages, p.Weights = append(p.Advantages, r.advantages[i]), append(p.Weights, w)
		p.Old = append(p.Old, r.completions[i].LogProbs)
	}
	return p
}

// rowWeight is what the aggregation weighs each token of a row of n with.
func rowWeight(c rl.LossConfig, n int, totals rl.Totals) (float64, error) {
	mask, weights := make([]bool, n), make([]float64, n)
	for i := range mask {
		mask[i] = true
	}
	_, err := rl.Aggregate(c.Aggregation, c.NormalizeConstant, rl.Shape{B: 1, T: n}, make([]float64, n), mask, totals, weights)
	return weights[0], err
}

// lookAt is [passStats.look] for sums that a GPU brought.
func (s *passStats) lookAt(sums model.PolicySums, firstPass bool) {
	if !firstPass {
		return
	}
	if s.updates == 0 {
		s.maxDiff = max(s.maxDiff, sums.MaxDiff)
	}
	s.entropy += sums.Entropy
	s.entropyTokens += sums.Tokens
}
