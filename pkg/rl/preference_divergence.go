package rl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Names of f-divergences of the policy from the reference (TRL f_divergence_type).
const (
	ReverseKL       = "reverse_kl"
	ForwardKL       = "forward_kl"
	JSDivergence    = "js_divergence"
	AlphaDivergence = "alpha_divergence"
)

// Divergences lists the known f-divergences, the default first.
func Divergences() []string {
	return []string{ReverseKL, ForwardKL, JSDivergence, AlphaDivergence}
}

func (c PreferenceConfig) divergence() string { return cmp.Or(c.Divergence, ReverseKL) }

func (c PreferenceConfig) checkDivergence() error {
	name := c.divergence()
	if !slices.Contains(Divergences(), name) {
		return unknown("f_divergence_type", name, Divergences())
	}
	if name == AlphaDivergence && (math.IsNaN(c.AlphaCoef) || math.IsInf(c.AlphaCoef, 0)) {
		return fmt.Errorf("f_alpha_divergence_coef is %v; it must be finite", c.AlphaCoef)
	}
	if name == ReverseKL {
		return nil
	}
	allowed := append(preferenceTable.with(usesDivergence), string(DPOSFT))
	for _, l := range c.Losses {
		if !slices.Contains(allowed, string(l)) {
			return fmt.Errorf("f_divergence_type %s is not defined for %s, which is no function of the difference of two "+
				"scores (use %s, or one of the losses %s)", name, l, ReverseKL, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// maxExponent is TRL's bound of the exponent of alpha_divergence in float32.
const maxExponent = 80

// score is the derivative f' of an f-divergence at the ratio exp(x) of policy to reference, up to a
// constant, and its derivative by x:
//
//	reverse_kl        x
//	forward_kl        1 - exp(-x)
//	js_divergence     log 2 + ls(x)
//	alpha_divergence  (exp(min((a-1) x, 80)) - 1) / (a-1), and x for a = 1
//
// f-DPO, arXiv:2309.16240.
func (c PreferenceConfig) score(x float64) (value, slope float64) {
	switch c.divergence() {
	case ForwardKL:
		return -math.Expm1(-x), math.Exp(-x)
	case JSDivergence:
		return math.Ln2 + logSigmoid(x), sigmoid(-x)
	case AlphaDivergence:
		a := c.AlphaCoef - 1
		if a == 0 {
			break
		}
		if a*x > maxExponent {
			return math.Expm1(maxExponent) / a, 0
		}
		return math.Expm1(a*x) / a, math.Exp(a * x)
	}
	return x, 1
}
