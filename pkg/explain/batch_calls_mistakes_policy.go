package explain

import (
	"math"
	"slices"

	"grpo/pkg/rl"
)

// tokenMistake is a loss of each token with a mistake.
type tokenMistake struct {
	what string
	tokenLoss
}

// mistakes are common mistakes in the loss of each token.
func (p policyCall) mistakes() (out []tokenMistake) {
	with := func(what string, change func(*policyCall)) {
		changed := p
		change(&changed)
		if l, err := changed.tokens(); err == nil {
			out = append(out, tokenMistake{what, l})
		}
	}
	by := func(what string, f func(logp, old, adv float64) (value, slope float64)) {
		l := tokenLoss{make([]float64, p.Shape.Len()), make([]float64, p.Shape.Len())}
		for i := range l.value {
			old := 0.0
			if p.OldLogProbs != nil {
				old = p.OldLogProbs[i]
			}
			value, slope := f(p.LogProbs[i], old, p.Advantages[i/p.Shape.T])
			if l.value[i] = value; p.Mask[i] {
				l.slope[i] = slope
			}
		}
		out = append(out, tokenMistake{what, l})
	}
	if p.other != nil {
		instead := map[string]string{"raw_rewards": advantagesName, advantagesName: "raw_rewards"}[p.named]
		with("with "+instead+" in place of "+p.named, func(c *policyCall) { c.Advantages = p.other })
	}
	if !p.reweights() {
		by("with the probability in place of its logarithm", func(logp, _, adv float64) (float64, float64) {
			return -adv * math.Exp(logp), -adv * math.Exp(logp)
		})
		return out
	}
	if p.cfg.Level == rl.SequenceLevel {
		with("with the ratio of each token in place of the sequence's",
			func(c *policyCall) { c.cfg.Level = rl.TokenLevel })
		with("with the sum of the log-ratios of a sequence in place of their mean",
			func(c *policyCall) { c.cfg.Level = rl.SequenceSum })
		with("with the mean over all tokens, the mask left out", func(c *policyCall) {
			c.Mask = slices.Repeat([]bool{true}, p.Shape.Len())
		})
	}
	if p.clips() {
		with("without the clip", func(c *policyCall) { c.cfg.Loss, c.cfg.Epsilon = rl.GRPONoClip, 0 })
	}
	if p.cfg.Level == rl.SequenceLevel {
		return out
	}
	ratio := func(logp, old float64) (r, slope float64) { r = math.Exp(logp - old); return r, r }
	inverse := func(logp, old float64) (r, slope float64) { r = math.Exp(old - logp); return r, -r }
	difference := func(logp, old float64) (r, slope float64) { return logp - old, 1 }
	smaller := func(x, y float64) float64 { return min(x, y) }
	larger := func(x, y float64) float64 { return max(x, y) }
	second := func(_, y float64) float64 { return y }
	for _, m := range []struct {
		what  string
		ratio func(logp, old float64) (r, slope float64)
		pick  func(unclipped, clipped float64) float64
		clips bool // it is a mistake in the clip
	}{
		{"with the larger of the two terms in place of the smaller, so that the clip is on the wrong side", ratio, larger,
			true},
		{"with the clipped term alone, without the minimum of both", ratio, second, true},
		{"with the ratio upside down, exp(old - policy)", inverse, smaller, false},
		{"with the difference of the log-probabilities in place of the ratio, its exponential", difference, smaller,
			false},
	} {
		if m.clips && !p.clips() {
			continue
		}
		by(m.what, func(logp, old, adv float64) (value, slope float64) {
			r, dr := m.ratio(logp, old)
			clipped := r
			if p.clips() {
				clipped = min(max(r, 1-p.cfg.Epsilon), 1+p.cfg.Epsilon)
			}
			picked := m.pick(r*adv, clipped*adv)
			if picked == r*adv {
				slope = -adv * dr
			}
			return -picked, slope
		})
	}
	return out
}
