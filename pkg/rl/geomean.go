package rl

// geoMeanClip clips one token's log ratio for the geometric mean of GMPO
// (arXiv:2507.20673; verl geo_mean). The clip is taken on the log ratio, and only
// on the side to which the advantage pushes:
//
//	A > 0: min(lr, epsilon_high)
//	A < 0: max(lr, -epsilon)
//
// side is -1 or +1 where the lower or the upper bound held, else 0. The
// sequence's ratio is then exp of the mean of the clipped log ratios, and its
// loss -ratio A, for every token alike.
func (p *plan) geoMeanClip(lr, adv float64) (clipped float64, side int) {
	switch {
	case adv > 0 && lr > p.EpsilonHigh:
		return p.EpsilonHigh, 1
	case adv < 0 && lr < -p.Epsilon:
		return -p.Epsilon, -1
	}
	return lr, 0
}

// geoMean is the token's share of the sequence's loss, r being the sequence's
// ratio and own the log of the token's:
//
//	l = -r A,   r = exp(mean_t clip(log r_t))
//
// The mean over sequences of one loss for each is [SeqMeanTokenMean] or, the
// same without empty sequences, [MaskedMeanSeq].
func (p *plan) geoMean(own, r, adv float64) term {
	t := noClip(r, adv)
	_, side := p.geoMeanClip(own, adv)
	t.low, t.high = side < 0, side > 0
	return t
}
