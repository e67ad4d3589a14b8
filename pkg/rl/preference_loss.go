package rl

import (
	"cmp"
	"math"
	"slices"

	"grpo/pkg/elementary"
)

// side has the sums over one completion's tokens.
type side struct {
	logProb, refLogProb float64
	length              float64 // the divisor of ipo and sigmoid_norm
}

// logRatio is the log-ratio of the policy to the reference.
func (s side) logRatio() float64 { return s.logProb - s.refLogProb }

// pair is a pair of completions of one prompt.
type pair struct {
	chosen, rejected side
	weight           float64 // of WPO; 1 without
}

// pairTerm is the loss of one pair, with its derivatives by the log-ratios of the two completions.
type pairTerm struct{ value, dChosen, dRejected float64 }

// terms returns the losses of pairs under one loss other than sft. Below, c and r are the log-ratios
// of the chosen and the rejected completion, s the score of the divergence (for reverse_kl the
// log-ratio itself), d = s(c) - s(r), and ls the log of the sigmoid.
func (cfg PreferenceConfig) terms(l PreferenceLoss, pairs []pair) []pairTerm {
	switch l {
	case DPOAOT:
		return cfg.aot(pairs)
	case DPOAOTUnpaired:
		return cfg.aotUnpaired(pairs)
	}
	uses, _ := preferenceTable.of(l)
	out := make([]pairTerm, len(pairs))
	for i, p := range pairs {
		if uses&usesDivergence != 0 {
			out[i] = cfg.compared(l, p, uses&usesLengths != 0)
		} else {
			out[i] = cfg.separate(l, p.chosen.logRatio(), p.rejected.logRatio())
		}
	}
	return out
}

// compared is a loss of the difference of two scores. The scores of ipo and sigmoid_norm are divided
// by the lengths.
func (cfg PreferenceConfig) compared(l PreferenceLoss, p pair, perToken bool) pairTerm {
	chosen, dChosen := cfg.score(p.chosen.logRatio())
	rejected, dRejected := cfg.score(p.rejected.logRatio())
	if perToken {
		chosen, dChosen = chosen/p.chosen.length, dChosen/p.chosen.length
		rejected, dRejected = rejected/p.rejected.length, dRejected/p.rejected.length
	}
	value, slope := cfg.ofDifference(l, chosen-rejected)
	return pairTerm{value, product(slope, dChosen), -product(slope, dRejected)}
}

// product is a*b, and 0 if a is 0, also for an infinite b.
func product(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return float64(a * b)
}

// ofDifference returns a loss of the difference d of the scores, and its derivative:
//
//	sigmoid, sigmoid_norm  -ls(beta d)                      arXiv:2305.18290; arXiv:2411.15124
//	hinge                  max(0, 1 - beta d)               arXiv:2305.10425, arXiv:2309.06657
//	ipo                    (d - 1/(2 beta))^2               arXiv:2310.12036
//	exo_pair               KL of (q, 1-q) from (1-e, e), q = sigmoid(beta d)   arXiv:2402.00856
//	robust                 (-(1-e) ls(beta d) + e ls(-beta d)) / (1-2e)        arXiv:2403.00409
//	discopop               -ls(x) (1-g) + exp(-x) g, x = beta d, g = sigmoid(x/tau)  arXiv:2406.08414
//
// e is the label smoothing.
func (cfg PreferenceConfig) ofDifference(l PreferenceLoss, d float64) (value, slope float64) {
	beta, e := cfg.Beta, cfg.LabelSmoothing
	x := float64(beta * d)
	switch l {
	case DPOHinge:
		if x < 1 {
			return 1 - x, -beta
		}
		return 0, 0
	case DPOIPO:
		diff := d - 1/(2*beta)
		return diff * diff, 2 * diff
	case DPOExo:
		q, notQ := sigmoid(x), sigmoid(-x)
		value = product(q, logSigmoid(x)-elementary.Log1p(-e)) + product(notQ, logSigmoid(-x)-elementary.Log(e))
		return value, beta * product(q*notQ, x-elementary.Log1p(-e)+elementary.Log(e))
	case DPORobust:
		value = (float64(-(1-e)*logSigmoid(x)) + float64(e*logSigmoid(-x))) / (1 - float64(2*e))
		return value, beta * (float64(-(1-e)*sigmoid(-x)) - float64(e*sigmoid(x))) / (1 - float64(2*e))
	case DPODiscoPOP:
		value, slope = cfg.discoPOP(x)
		return value, beta * slope
	}
	return -logSigmoid(x), -beta * sigmoid(-x)
}

// discoPOP is the loss of DiscoPOP as a function of x, and its derivative. exp(-x) is multiplied by g
// as logarithms, because it may overflow where g vanishes.
func (cfg PreferenceConfig) discoPOP(x float64) (value, slope float64) {
	tau := cmp.Or(cfg.DiscoPOPTau, 0.05)
	gate, closed := sigmoid(x/tau), sigmoid(-x/tau)
	dGate := gate * closed / tau
	exponential := elementary.Exp(logSigmoid(x/tau) - x)
	value = -product(closed, logSigmoid(x)) + exponential
	slope = float64(-sigmoid(-x)*closed) + product(dGate, logSigmoid(x)) - exponential + exponential*closed/tau
	return value, slope
}

// separate is a loss of the two log-ratios c and r, which has no form for other divergences:
//
//	nca_pair   -ls(beta c) - ls(-beta c)/2 - ls(-beta r)/2                arXiv:2402.05369
//	bco_pair   -ls(beta c) - ls(-beta r)                                  arXiv:2404.04656
//	sppo_hard  (c - 1/(2 beta))^2 + (r + 1/(2 beta))^2                    arXiv:2405.00675
//	apo_zero   1 - sigmoid(beta c) + sigmoid(beta r)                      arXiv:2408.06266
//	apo_down   sigmoid(beta c) + 1 - sigmoid(beta (c - r))                arXiv:2408.06266
//
// bco_pair has no shift of the rewards, as in TRL.
func (cfg PreferenceConfig) separate(l PreferenceLoss, c, r float64) pairTerm {
	beta := cfg.Beta
	xc, xr := beta*c, beta*r
	switch l {
	case DPONCA:
		return pairTerm{
			value:     -logSigmoid(xc) - float64(logSigmoid(-xc)/2) - float64(logSigmoid(-xr)/2),
			dChosen:   beta * (-sigmoid(-xc) + float64(sigmoid(xc)/2)),
			dRejected: beta * sigmoid(xr) / 2,
		}
	case DPOBCO:
		return pairTerm{-logSigmoid(xc) - logSigmoid(-xr), -beta * sigmoid(-xc), beta * sigmoid(xr)}
	case DPOSPPO:
		a, b := c-1/(2*beta), r+1/(2*beta)
		return pairTerm{float64(a*a) + float64(b*b), 2 * a, 2 * b}
	case DPOAPOZero:
		return pairTerm{sigmoid(-xc) + sigmoid(xr), -beta * dSigmoid(xc), beta * dSigmoid(xr)}
	}
	x := beta * (c - r) // apo_down
	return pairTerm{sigmoid(xc) + sigmoid(-x), beta * (dSigmoid(xc) - dSigmoid(x)), beta * dSigmoid(x)}
}

// aot aligns the sorted log-ratios of chosen to rejected of the policy with those of the reference,
// whatever pairs they are of. The k-th loss is of
//
//	x_k = k-th smallest (logp chosen - logp rejected) - k-th smallest (the same of the reference)
//
// arXiv:2406.05882.
func (cfg PreferenceConfig) aot(pairs []pair) []pairTerm {
	policy, reference := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		policy[i] = p.chosen.logProb - p.rejected.logProb
		reference[i] = p.chosen.refLogProb - p.rejected.refLogProb
	}
	out := make([]pairTerm, len(pairs))
	order, refOrder := ranked(policy), ranked(reference)
	for k, i := range order {
		value, slope := cfg.smoothed(policy[i] - reference[refOrder[k]])
		out[k].value = value
		out[i].dChosen, out[i].dRejected = slope, -slope
	}
	return out
}

// aotUnpaired aligns the sorted log-ratios of the chosen completions with those of the rejected ones:
//
//	x_k = k-th smallest c - k-th smallest r
//
// arXiv:2406.05882.
func (cfg PreferenceConfig) aotUnpaired(pairs []pair) []pairTerm {
	chosen, rejected := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		chosen[i], rejected[i] = p.chosen.logRatio(), p.rejected.logRatio()
	}
	out := make([]pairTerm, len(pairs))
	order, below := ranked(chosen), ranked(rejected)
	for k, i := range order {
		value, slope := cfg.smoothed(chosen[i] - rejected[below[k]])
		out[k].value = value
		out[i].dChosen = slope
		out[below[k]].dRejected = -slope
	}
	return out
}

// smoothed is the sigmoid loss with label smoothing e, and its derivative by d:
//
//	-(1-e) ls(beta d) - e ls(-beta d)
func (cfg PreferenceConfig) smoothed(d float64) (value, slope float64) {
	x, e := cfg.Beta*d, cfg.LabelSmoothing
	value = float64(-(1-e)*logSigmoid(x)) - float64(e*logSigmoid(-x))
	return value, cfg.Beta * (float64(-(1-e)*sigmoid(-x)) + float64(e*sigmoid(x)))
}

// ranked returns the indices of x in ascending order of its values, equal ones in their own order.
func ranked(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return order
}

// sigmoid is 1/(1 + exp(-x)); for a large -x it keeps its digits, down to the smallest float64.
func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + elementary.Exp(-x))
	}
	e := elementary.Exp(x)
	return e / (1 + e)
}

// dSigmoid is the derivative of [sigmoid].
func dSigmoid(x float64) float64 { return float64(sigmoid(x) * sigmoid(-x)) }

// logSigmoid is log(sigmoid(x)), without overflow.
func logSigmoid(x float64) float64 { return min(x, 0) - elementary.Log1p(elementary.Exp(-math.Abs(x))) }
