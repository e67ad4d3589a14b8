package rl

import "slices"

// VerifierNoise are the errors of a verifier that calls a wrong answer right with the probability FalsePositive
// (p), and a right one wrong with the probability FalseNegative (q), whatever else is in the completion; and how
// training corrects its reward. The tags make the fields keys of reward.noise (see the package comment of
// pkg/config).
type VerifierNoise struct {
	FalsePositive float64 `yaml:"false_positive" in:"fraction" neutral:"0" needs:"verifier sampling"`
	FalseNegative float64 `yaml:"false_negative" in:"fraction" neutral:"0" needs:"verifier sampling"`
	// Correction is [NoCorrection], [BackwardCorrection] or [ForwardCorrection].
	Correction string `yaml:"correction" of:"corrections" neutral:"none" needs:"noise advantages uncancelled"`
}

// Corrections of a noisy reward r~, which is 1 where the verifier says right and 0 where it says wrong. With r the
// reward without errors,
//
//	E[r~ | r] = p + (1-p-q) r
//
// so the expected policy gradient of r~ is already (1-p-q) times the gradient of r: p does not depend on the
// completion, and the expectation of the score function is 0.
//
// Source: arXiv:2510.00915, which derives both; TestCorrections has the derivations by enumeration.
const (
	NoCorrection = "none"
	// BackwardCorrection inverts the expectation:
	//
	//	(r~ - p) / (1-p-q)          its expectation is r
	//
	// Errors at high rates make it large: its range is 1/(1-p-q).
	BackwardCorrection = "backward"
	// ForwardCorrection weights the score function by q where the verifier says right, and by q - 1 where it
	// says wrong, which needs the rate of false negatives alone:
	//
	//	E[weight | r = 1] = (1-q) q + q (q-1) = 0
	//	E[weight | r = 0] = p q + (1-p) (q-1) = -(1-p-q)
	//
	// The weight is r~ - (1-q), and the expected gradient (1-p-q) times the gradient of r, as without a
	// correction. What differs is the variance: an answer that is right gets 0 in expectation.
	ForwardCorrection = "forward"
)

// Corrections lists the values of [VerifierNoise].Correction.
func Corrections() []string { return []string{NoCorrection, BackwardCorrection, ForwardCorrection} }

// On reports whether the verifier errs.
func (n VerifierNoise) On() bool { return n.FalsePositive > 0 || n.FalseNegative > 0 }

// Verdict is what the verifier says about an answer. The draw is uniform in (0, 1]; at 0 the verifier does not err.
// The errors at lower rates are among those at higher rates with the same draws.
func (n VerifierNoise) Verdict(right bool, draw float64) bool {
	rate := n.FalsePositive
	if right {
		rate = n.FalseNegative
	}
	return right != (draw > 0 && draw <= rate)
}

// Reward is the reward of a verdict, corrected.
func (n VerifierNoise) Reward(verdict bool) float64 {
	r := 0.0
	if verdict {
		r = 1
	}
	switch n.Correction {
	case BackwardCorrection:
		return (r - n.FalsePositive) / (1 - n.FalsePositive - n.FalseNegative)
	case ForwardCorrection:
		return r - (1 - n.FalseNegative)
	}
	return r
}

// CancelsShift reports whether advantages stay the same if all rewards of a batch grow by the same amount.
func CancelsShift(b Baseline, n Normalizer) bool { return b != BaselineNone || n == NormalizerWhiten }

// CancelsScale reports whether advantages stay the same, apart from eps, if all rewards of a batch are multiplied by
// the same factor.
func CancelsScale(n Normalizer) bool {
	return slices.Contains([]Normalizer{NormalizerGroupStd, NormalizerBatchStd, NormalizerGroupMean, NormalizerWhiten}, n)
}
