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
