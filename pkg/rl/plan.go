package rl

import (
	"cmp"
	"fmt"
	"math"
)

// plan is a checked [LossConfig] with its defaults filled in.
type plan struct {
	LossConfig
	uses Uses
	// Of a formula:
	namesRef, namesEntropy, vanishes bool
}

// Check returns an error for an invalid configuration.
func (c LossConfig) Check() error {
	_, err := c.plan()
	return err
}

func (c LossConfig) plan() (plan, error) {
	uses, ok := lossTable.of(c.Loss)
	switch {
	case c.Formula != nil && c.Loss == "":
		uses = UsesLevel
	case c.Formula != nil:
		return plan{}, fmt.Errorf("loss %q can't be combined with a formula", c.Loss)
	case !ok:
		return plan{}, unknown("loss", string(c.Loss), LossTypes())
	}
	p := plan{LossConfig: c, uses: uses, namesRef: c.names("ref"), namesEntropy: c.names("entropy")}
	p.vanishes = c.Formula != nil && c.Formula.Vanishes()
	p.Level, p.KL = cmp.Or(p.Level, TokenLevel), cmp.Or(p.KL, K3)
	if p.EpsilonHigh == 0 && p.uses&UsesEpsilon != 0 {
		p.EpsilonHigh = p.Epsilon
	}
	p.LossParams = p.LossParams.withDefaults()
	return p, p.check()
}

// planFor is the plan of a configuration for a batch, which it checks too.
func (c LossConfig) planFor(b *Batch) (plan, error) {
	p, err := c.plan()
	if err != nil {
		return p, err
	}
	return p, p.checkBatch(b)
}

func (p *plan) check() error {
	switch p.uses & (UsesEpsilon | UsesEpsilonHigh) {
	case UsesEpsilon | UsesEpsilonHigh:
		if !positive(p.Epsilon) {
			return fmt.Errorf("loss %q: epsilon (cliprange) is %v; it must be finite and above 0", p.Loss, p.Epsilon)
		}
		if !positive(p.EpsilonHigh) {
			return fmt.Errorf("loss %q: epsilon_high is %v; it must be finite and above 0", p.Loss, p.EpsilonHigh)
		}
	case UsesEpsilonHigh:
		if !positive(p.EpsilonHigh) {
			return fmt.Errorf("loss %q: epsilon_high is %v; here it is the largest ratio itself, e.g. 5",
				p.Loss, p.EpsilonHigh)
		}
	}
	if err := p.Aggregation.check(p.NormalizeConstant); err != nil {
		return err
	}
	if err := checkName("importance sampling level", p.Level, importanceLevels); err != nil {
		return err
	}
	if err := checkName("KL estimator", p.KL, klEstimators); err != nil {
		return err
	}
	for _, v := range []struct {
		name string
		x    float64
	}{
		{"delta", p.Delta}, {"dual clip", p.DualClip}, {"beta", p.Beta}, {"entropy coefficient", p.EntropyCoef},
		{"off-policy mask threshold", p.OffPolicyMaskThreshold},
	} {
		if v.x != 0 && !positive(v.x) {
			return fmt.Errorf("%s is %v; it must be finite and at least 0", v.name, v.x)
		}
	}
	if p.DualClip > 0 && p.DualClip <= 1 {
		return fmt.Errorf("dual clip is %v; it must be above 1, or 0 for none", p.DualClip)
	}
	return p.LossParams.check()
}

// clips reports whether the loss has a clip fraction.
func (p *plan) clips() bool { return p.uses&UsesEpsilonHigh != 0 }

// clipsWhole reports whether all tokens of a sequence with one advantage are clipped, or none.
func (p *plan) clipsWhole() bool { return p.Level != TokenLevel && p.Loss != GeoMean }

// oneRatio reports whether the tokens of a sequence share one importance ratio.
func (p *plan) oneRatio() bool { return p.Level != TokenLevel || p.Loss == GeoMean }

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (p *plan) checkBatch(b *Batch) error {
	s := b.Shape
	if err := s.check(b.Mask); err != nil {
		return err
	}
	for _, m := range []struct {
		name     string
		x        []float64
		optional bool
		why      string
	}{
		{"log-probs", b.LogProbs, false, ""},
		{"old log-probs", b.OldLogProbs, true, ""},
		{"reference log-probs", b.RefLogProbs, p.Beta == 0 && !p.namesRef, "beta is not 0, or the formula names ref"},
		{"entropies", b.Entropies, p.EntropyCoef == 0 && !p.namesEntropy,
			"the entropy coefficient is not 0, or the formula names entropy"},
	} {
		if m.x == nil && m.optional {
			continue
		}
		if m.x == nil && m.why != "" {
			return fmt.Errorf("%s are missing, and %s", m.name, m.why)
		}
		if err := s.want(m.name, len(m.x)); err != nil {
			return err
		}
	}
	if b.PolicyMask != nil {
		if err := s.want("policy mask", len(b.PolicyMask)); err != nil {
			return err
		}
	}
	if n := len(b.Advantages); n != s.B && n != s.Len() {
		return fmt.Errorf("%d advantages; shape %v needs %d (one for each sequence) or %d (one for each token)",
			n, s, s.B, s.Len())
	}
	return nil
}
