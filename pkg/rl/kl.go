package rl

import (
	"math"

	"grpo/pkg/elementary"
)

// KLEstimator names an estimate of the divergence of the policy from the
// reference, KL(policy || ref), from one sampled token. Let d = logp - ref.
// (http://joschu.net/blog/kl-approx.html)
type KLEstimator string

const (
	// K1: d. Unbiased, of high variance; may be negative. verl "kl".
	K1 KLEstimator = "k1"
	// K2: d^2/2. Biased, of low variance. verl "mse".
	K2 KLEstimator = "k2"
	// K3: exp(-d) + d - 1. Unbiased and never negative. The KL term of GRPO
	// (arXiv:2402.03300) and of TRL.
	K3 KLEstimator = "k3"
	// KLAbs: |d|. verl "abs".
	KLAbs KLEstimator = "abs"
	// LowVarKL: K3 with d clamped to -20..20 and the result to -10..10. verl
	// "low_var_kl".
	LowVarKL KLEstimator = "low_var_kl"
	// K1StraightThrough and K3StraightThrough have the value of K1 and K3 and the
	// gradient of K2, which is in expectation that of the true KL. verl "k1+", "k3+".
	K1StraightThrough KLEstimator = "k1+"
	K3StraightThrough KLEstimator = "k3+"
)

// KLEstimators lists the known estimators.
func KLEstimators() []string { return names(klEstimators...) }

var klEstimators = []KLEstimator{K1, K2, K3, KLAbs, LowVarKL, K1StraightThrough, K3StraightThrough}

// At returns the estimate for a token of log-probability logp under the policy
// and ref under the reference, and its derivative by logp (for the
// straight-through forms: the gradient that replaces it). An unknown estimator
// gives NaN.
func (e KLEstimator) At(logp, ref float64) (value, grad float64) {
	d := logp - ref
	switch e {
	case K1:
		return d, 1
	case K1StraightThrough:
		return d, d
	case K2:
		return d * d / 2, d
	case K3:
		return k3(d), 1 - elementary.Exp(-d)
	case K3StraightThrough:
		return k3(d), d
	case KLAbs:
		switch {
		case d > 0:
			return d, 1
		case d < 0:
			return -d, -1
		}
		return d, 0
	case LowVarKL:
		// Outside -20..20 k3 is always above 10.
		if v := k3(d); v <= 10 {
			return v, 1 - elementary.Exp(-d)
		}
		return 10, 0
	}
	return math.NaN(), math.NaN()
}

// k3 is exp(-d) + d - 1; expm1 keeps the digits where d is small.
func k3(d float64) float64 { return elementary.Expm1(-d) + d }

// addKL adds beta times the KL term of one token to t and returns the KL term.
// With the bias correction (TRL use_bias_correction_kl, DeepSeek-V3.2) it is
// multiplied by the importance ratio r.
func (p *plan) addKL(t *term, lp, ref, r float64) float64 {
	kl, grad := p.KL.At(lp, ref)
	if p.KLBiasCorrection {
		kl, grad = kl*r, grad*r
		t.dLogRatio += float64(p.Beta * kl)
	}
	t.value += float64(p.Beta * kl)
	t.dLogProb += float64(p.Beta * grad)
	return kl
}
