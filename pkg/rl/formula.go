package rl

// Formula is a policy loss of the user's own (pkg/formula).
type Formula struct {
	// At returns the loss of a token and its derivatives: by its log-probability with a constant
	// importance ratio, by the log of the ratio, and by its entropy. The ratio is that of [LossConfig].Level.
	At func(ratio, logp, old, ref, adv, entropy float64) (value, dLogProb, dLogRatio, dEntropy float64)
	// NamesRef and NamesEntropy: it depends on ref and entropy. If not, they may be 0.
	NamesRef, NamesEntropy bool
	// Vanishes: an advantage of 0 gives a loss of 0 without a gradient, as every built-in loss does.
	Vanishes bool
}

// NeedsReference reports whether the loss needs [Batch].RefLogProbs.
func (c LossConfig) NeedsReference() bool {
	return c.Beta != 0 || c.Formula != nil && c.Formula.NamesRef
}

// term is the policy part of the loss at token i of a batch, with importance ratio r. On-policy, the old
// log-probability is the token's own.
func (f *Formula) term(b *Batch, i int, r, adv float64) (t term) {
	if adv == 0 && f.Vanishes {
		return t // even if the ratio overflows
	}
	lp := b.LogProbs[i]
	old, ref, entropy := lp, 0.0, 0.0
	if b.OldLogProbs != nil {
		old = b.OldLogProbs[i]
	}
	if f.NamesRef {
		ref = b.RefLogProbs[i]
	}
	if f.NamesEntropy {
		entropy = b.Entropies[i]
	}
	t.value, t.dLogProb, t.dLogRatio, t.dEntropy = f.At(r, lp, old, ref, adv, entropy)
	return t
}
