package rl

import "math"

// vespoLogMin is the lower clamp of VESPO's log ratio, log 1e-8.
var vespoLogMin = math.Log(1e-8)

// phi is VESPO's weight of a sequence with importance ratio w = exp(sum of log
// ratios), a gamma density scaled to 1 at w = 1:
//
//	phi(w) = w^k exp(lambda (1 - w))
//
// with (k, lambda) for advantages of at least 0 and another pair below. The log
// ratios are held to -20..20 each and their sum to log 1e-8..20.
// TRL get_gamma_weights.
func (p *plan) phi(s *sequence, adv float64) float64 {
	k, lambda := p.VESPOKPos, p.VESPOLambdaPos
	if adv < 0 {
		k, lambda = p.VESPOKNeg, p.VESPOLambdaNeg
	}
	return math.Exp(lambda + k*s.vespoLogW - lambda*math.Exp(s.vespoLogW))
}

// vespo weighs the policy gradient by phi, which carries no gradient itself:
//
//	l = -sg(phi(w)) A logp,   dl/dlogp = -phi(w) A
func (p *plan) vespo(s *sequence, lp, adv float64) term {
	w := p.phi(s, adv) * adv
	return term{value: -w * lp, dLogProb: -w}
}
