package rl

// Formula is a policy loss of the user's own: see pkg/formula, which makes it of a text.
type Formula interface {
	// At returns the loss of a token and its derivatives: by its log-probability with a constant
	// importance ratio, by the log of the ratio, and by its entropy. The ratio is that of [LossConfig].Level.
	At(ratio, logp, old, ref, adv, entropy float64) (value, dLogProb, dLogRatio, dEntropy float64)
	// Names reports whether the formula names a variable of At: ref and entropy may be 0 if not.
	Names(variable string) bool
	// Vanishes reports whether an advantage of 0 gives a loss of 0 without a gradient, as in every
	// built-in loss.
	Vanishes() bool
}

// NeedsReference reports whether the loss needs [Batch].RefLogProbs.
func (c LossConfig) NeedsReference() bool { return c.Beta != 0 || c.names("ref") }

// names reports whether the loss is a formula that names a variable.
func (c LossConfig) names(variable string) bool { return c.Formula != nil && c.Formula.Names(variable) }

// formulaTerm is the policy part of the loss at token i of a batch, with importance ratio r. On-policy,
// the old log-probability is the token's own.
func (p *plan) formulaTerm(b *Batch, i int, r, adv float64) (t term) {
	if adv == 0 && p.vanishes {
		return t // even if the ratio overflows
	}
	lp := b.LogProbs[i]
	old, ref, entropy := lp, 0.0, 0.0
	if b.OldLogProbs != nil {
		old = b.OldLogProbs[i]
	}
	if p.namesRef {
		ref = b.RefLogProbs[i]
	}
	if p.namesEntropy {
		entropy = b.Entropies[i]
	}
	t.value, t.dLogProb, t.dLogRatio, t.dEntropy = p.Formula.At(r, lp, old, ref, adv, entropy)
	return t
}
