package model

import "fmt"

// MixInto moves reference weights towards the policy's, elementwise:
//
//	ref <- alpha·policy + (1-alpha)·ref
//
// It is TRL's ref_model_mixup_alpha (Gorbatovski et al., "Learn your reference
// model for real good alignment", 2024): 1 copies the policy, 0 leaves the
// reference as it is. Computed in float64 and rounded once, so that weights
// that agree stay as they are. Weights of another size and an alpha outside
// [0, 1] are errors. A [Scorer] of ref sees the new weights at its next pass.
func MixInto(ref, policy *Params, alpha float64) error {
	if ref.Spec != policy.Spec {
		return fmt.Errorf("mix the policy into the reference: the reference is a %v, the policy a %v", ref.Spec, policy.Spec)
	}
	if !(alpha >= 0 && alpha <= 1) {
		return fmt.Errorf("mix the policy into the reference: alpha %v must be in [0, 1]", alpha)
	}
	for _, p := range []*Params{ref, policy} {
		if err := p.Pull(); err != nil {
			return fmt.Errorf("mix the policy into the reference: %w", err)
		}
	}
	switch alpha {
	case 0: // not 0·policy, which is NaN where the policy is not finite
	case 1:
		copy(ref.Flat, policy.Flat)
	default:
		for i, w := range policy.Flat {
			// The conversions forbid the compiler to fuse, which would give other
			// bits on other processors.
			ref.Flat[i] = float32(float64(alpha*float64(w)) + float64((1-alpha)*float64(ref.Flat[i])))
		}
	}
	return ref.Push()
}
