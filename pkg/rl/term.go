package rl

import (
	"grpo/pkg/elementary"
)

// term is one token's loss l before aggregation, with its partial
// derivatives. The chain rule is applied in one place ([LossInto]): at token
// level dl/dlogp = dLogProb + dLogRatio; at sequence level the dLogRatio of all
// tokens of a sequence is distributed over them.
type term struct {
	value     float64
	dLogProb  float64 // by the token's log-probability, with a constant ratio
	dLogRatio float64 // by the log of the importance ratio
	dEntropy  float64 // by the policy's entropy; only of a [Formula]

	low, high, dual bool // which clip was active
}

// policyTerm returns the policy part of the loss at token i of a batch, with advantage adv. logR is
// the log of the token's own importance ratio, r the ratio in the loss ([plan.ratio]). An advantage of
// 0 gives exactly 0, even if the ratio overflows.
func (p *plan) policyTerm(b *Batch, s *sequence, i int, logR, r, adv float64) term {
	if p.Formula != nil {
		return p.formulaTerm(b, i, r, adv)
	}
	if adv == 0 {
		return term{}
	}
	lp := b.LogProbs[i]
	switch p.Loss {
	case NoBaseline, ReinforceWithBaseline:
		return reinforce(lp, adv)
	case GRPONoClip:
		return noClip(r, adv)
	case CISPO:
		return p.cispo(lp, r, adv)
	case CISPOBand:
		return p.cispoBand(lp, r, adv)
	case SAPO:
		return p.sapo(r, adv)
	case VESPO:
		return p.vespo(s, lp, adv)
	case GeoMean:
		return p.geoMean(logR, r, adv)
	}
	return p.clipped(r, adv)
}

// reinforce is the policy gradient without a ratio:
//
//	l = -A logp,   dl/dlogp = -A
//
// CS336 assignment 5, compute_naive_policy_gradient_loss; verl gpg.
func reinforce(lp, adv float64) term {
	return term{value: -adv * lp, dLogProb: -adv}
}

// noClip is the importance-weighted policy gradient:
//
//	l = -r A,   dl/dlog r = -r A
//
// CS336 assignment 5, GRPO-No-Clip.
func noClip(r, adv float64) term {
	return term{value: -r * adv, dLogRatio: -r * adv}
}

// clipped is PPO's clipped objective with separate bounds (clip-higher, DAPO), an optional upper
// bound delta on the unclipped ratio (TRL, two-sided clipping) and an optional dual clip (verl,
// OpenRLHF):
//
//	r'  = min(r, delta)
//	l   = -min(r' A, clip(r, 1-epsilon, 1+epsilon_high) A)
//	l   = min(l, -c A)                       if A < 0, c the dual clip
//
// The gradient with respect to log r is -r A if the unclipped side is the smaller one, and 0 if a
// bound is active. arXiv:1707.06347; arXiv:2503.14476; CS336 assignment 5, compute_grpo_clip_loss;
// TRL grpo, bnpo, dr_grpo, dapo; verl vanilla.
func (p *plan) clipped(r, adv float64) term {
	lo, hi := 1-p.Epsilon, 1+p.EpsilonHigh
	free, dFree := r, r
	if p.Delta > 0 && r > p.Delta {
		free, dFree = p.Delta, 0
	}
	bound, dBound := clamp(r, lo, hi), 0.0
	if r >= lo && r <= hi {
		dBound = r
	}
	t := term{value: -free * adv, dLogRatio: -dFree * adv}
	if bound*adv < free*adv {
		t = term{value: -bound * adv, dLogRatio: -dBound * adv}
	}
	t.low = adv < 0 && free < lo
	t.high = adv > 0 && free > hi
	if worst := -p.DualClip * adv; p.DualClip > 0 && adv < 0 && t.value > worst {
		t.value, t.dLogRatio, t.dual = worst, 0, true
	}
	return t
}

// cispo limits the ratio to epsilon_high and uses it as a fixed weight of the
// log-probability, so that every token keeps a gradient:
//
//	l = -sg(min(r, epsilon_high)) A logp,   dl/dlogp = -min(r, epsilon_high) A
//
// epsilon_high is the bound itself, and tokens count as clipped only if A > 0
// (TRL cispo). arXiv:2506.13585.
func (p *plan) cispo(lp, r, adv float64) term {
	w := min(r, p.EpsilonHigh) * adv
	return term{value: -w * lp, dLogProb: -w, high: adv > 0 && r > p.EpsilonHigh}
}

// cispoBand is cispo with the ratio clamped to 1-epsilon..1+epsilon_high; every ratio
// outside counts as clipped (verl cispo).
func (p *plan) cispoBand(lp, r, adv float64) term {
	lo, hi := 1-p.Epsilon, 1+p.EpsilonHigh
	w := clamp(r, lo, hi) * adv
	return term{value: -w * lp, dLogProb: -w, low: r < lo, high: r > hi}
}

// sapo replaces the clip by a sigmoid gate with temperature tau, one for each
// sign of the advantage:
//
//	g(r) = 4/tau sigmoid(tau (r - 1)),   l = -g(r) A
//	dl/dlog r = -4 s (1 - s) r A,        s = sigmoid(tau (r - 1))
//
// On-policy s(1-s) = 1/4, so that the gradient is that of grpo.
// arXiv:2511.20347; TRL sapo; verl sapo.
func (p *plan) sapo(r, adv float64) term {
	tau := p.SAPOTempNeg
	if adv > 0 {
		tau = p.SAPOTempPos
	}
	s := 1 / (1 + elementary.Exp(-tau*(r-1)))
	t := term{value: -4 / tau * s * adv}
	if slope := s * (1 - s); slope > 0 { // else r may be infinite, and 0*Inf NaN
		t.dLogRatio = -4 * slope * r * adv
	}
	return t
}

// geoMeanClip clips one token's log ratio for the geometric mean of GMPO (arXiv:2507.20673; verl
// geo_mean). It clips the log ratio, only in the direction of the advantage:
//
//	A > 0: min(lr, epsilon_high)
//	A < 0: max(lr, -epsilon)
//
// side is -1 or +1 if the lower or the upper bound was active, else 0. The sequence's ratio is then
// exp of the mean of the clipped log ratios, and its loss -ratio A, for every token alike.
func (p *plan) geoMeanClip(lr, adv float64) (clipped float64, side int) {
	switch {
	case adv > 0 && lr > p.EpsilonHigh:
		return p.EpsilonHigh, 1
	case adv < 0 && lr < -p.Epsilon:
		return -p.Epsilon, -1
	}
	return lr, 0
}

// geoMean is the token's share of the sequence's loss, where r is the sequence's ratio
// and logR the token's log ratio:
//
//	l = -r A,   r = exp(mean_t clip(log r_t))
//
// The mean over sequences of these losses is [SeqMeanTokenMean] or, the same without
// empty sequences, [MaskedMeanSeq].
func (p *plan) geoMean(logR, r, adv float64) term {
	t := noClip(r, adv)
	_, side := p.geoMeanClip(logR, adv)
	t.low, t.high = side < 0, side > 0
	return t
}

// vespoLogMin is the lower clamp of VESPO's log ratio, log 1e-8.
var vespoLogMin = elementary.Log(1e-8)

// phi is VESPO's weight of a sequence with importance ratio w = exp(sum of log
// ratios), a gamma density scaled to 1 at w = 1:
//
//	phi(w) = w^k exp(lambda (1 - w))
//
// with one pair (k, lambda) for advantages of at least 0 and another below. The log
// ratios are clamped to -20..20 each and their sum to log 1e-8..20.
// TRL get_gamma_weights.
func (p *plan) phi(s *sequence, adv float64) float64 {
	k, lambda := p.VESPOKPos, p.VESPOLambdaPos
	if adv < 0 {
		k, lambda = p.VESPOKNeg, p.VESPOLambdaNeg
	}
	return elementary.Exp(lambda + float64(k*s.vespoLogW) - float64(lambda*elementary.Exp(s.vespoLogW)))
}

// vespo weights the policy gradient by phi, through which no gradient flows:
//
//	l = -sg(phi(w)) A logp,   dl/dlogp = -phi(w) A
func (p *plan) vespo(s *sequence, lp, adv float64) term {
	w := p.phi(s, adv) * adv
	return term{value: -w * lp, dLogProb: -w}
}
