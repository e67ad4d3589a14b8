package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// reduceMistakes are common mistakes in masked_mean and masked_normalize.
func reduceMistakes(x []float64, mask []bool, shape []int, dim int, f reduction) (out []mistake) {
	with := func(what string, y []float64, err error) {
		if err == nil {
			out = append(out, mistake{what, y})
		}
	}
	all := slices.Repeat([]bool{true}, len(mask))
	zeroed := slices.Clone(x)
	not := make([]bool, len(mask))
	for i, in := range mask {
		if not[i] = !in; !in {
			zeroed[i] = 0
		}
	}
	y, err := f(x, all, shape, dim)
	with("of all elements, the mask left out", y, err)
	y, err = rl.MaskedMean(zeroed, all, shape, dim)
	with("of a sum over the mask divided by the number of all elements", y, err)
	y, err = f(x, not, shape, dim)
	with("with the mask upside down", y, err)
	y, err = rl.MaskedNormalize(x, mask, shape, dim, 1)
	with("of the sum, without the division", y, err)
	y, err = rl.MaskedMean(x, mask, shape, dim)
	with("of masked_mean", y, err)
	for d := range shape {
		if d != dim {
			y, err = f(x, mask, shape, d)
			with(fmt.Sprintf("over the dimension %d", d), y, err)
		}
	}
	return out
}

// advantageMistakes are common mistakes in the advantages of groups.
func advantageMistakes(rewards []float64, size int, opt rl.AdvantageOptions) (out []mistake) {
	with := func(what string, change func(*rl.AdvantageOptions)) {
		changed := opt
		change(&changed)
		if adv, _, err := rl.GroupAdvantages(rewards, size, changed); err == nil {
			out = append(out, mistake{what, adv})
		}
	}
	by := func(what string, f func(r, mean, squares float64, n float64) float64) {
		adv := make([]float64, 0, len(rewards))
		for group := range slices.Chunk(rewards, size) {
			n, mean, squares := float64(len(group)), 0.0, 0.0
			for _, r := range group {
				mean += r / float64(len(group))
			}
			for _, r := range group {
				squares += (r - mean) * (r - mean)
			}
			for _, r := range group {
				adv = append(adv, f(r, mean, squares, n))
			}
		}
		out = append(out, mistake{what, adv})
	}
	std := opt.Normalizer == rl.NormalizerGroupStd
	baseline := func(r, mean float64) float64 {
		if opt.Baseline == rl.BaselineNone {
			return r
		}
		return r - mean
	}
	if std {
		by("with the standard deviation of the population (unbiased=False, numpy's default), in place of the sample's, "+
			"which is torch's default", func(r, mean, squares, n float64) float64 {
			return baseline(r, mean) / (math.Sqrt(squares/n) + opt.Eps)
		})
		by("with advantage_eps under the root", func(r, mean, squares, n float64) float64 {
			return baseline(r, mean) / math.Sqrt(squares/(n-1)+opt.Eps)
		})
		by("divided by the variance, without the root", func(r, mean, squares, n float64) float64 {
			return baseline(r, mean) / (squares/(n-1) + opt.Eps)
		})
		by("without advantage_eps", func(r, mean, squares, n float64) float64 {
			return baseline(r, mean) / math.Sqrt(squares/(n-1))
		})
		with("with the standard deviation of the batch, in place of each group's", func(o *rl.AdvantageOptions) {
			o.Normalizer = rl.NormalizerBatchStd
		})
	}
	for _, n := range []struct {
		what string
		rl.Normalizer
	}{
		{"without the division by the group's standard deviation or mean", rl.NormalizerNone},
		{"divided by the group's standard deviation", rl.NormalizerGroupStd},
		{"divided by the group's mean", rl.NormalizerGroupMean},
	} {
		if n.Normalizer != opt.Normalizer {
			with(n.what, func(o *rl.AdvantageOptions) { o.Normalizer = n.Normalizer })
		}
	}
	with("with the mean of the batch, in place of each group's", func(o *rl.AdvantageOptions) {
		o.Baseline = rl.BaselineBatchMean
	})
	with("with the mean of the other completions", func(o *rl.AdvantageOptions) { o.Baseline = rl.BaselineLeaveOneOut })
	if opt.Baseline == rl.BaselineNone {
		with("with the group's mean subtracted", func(o *rl.AdvantageOptions) { o.Baseline = rl.BaselineGroupMean })
	} else {
		with("without the baseline", func(o *rl.AdvantageOptions) { o.Baseline = rl.BaselineNone })
	}
	with("with mean and standard deviation of the whole batch", func(o *rl.AdvantageOptions) {
		o.Baseline, o.Normalizer = rl.BaselineBatchMean, rl.NormalizerBatchStd
	})
	return append(out, regrouped(rewards, size, opt)...)
}

// regrouped are the advantages of wrong groups: of reshape(group_size, -1) along either dimension, where
// reshape(-1, group_size) is right.
func regrouped(rewards []float64, size int, opt rl.AdvantageOptions) (out []mistake) {
	groups := len(rewards) / size
	moved, back := make([]float64, len(rewards)), make([]float64, len(rewards))
	for i, r := range rewards {
		moved[i%groups*size+i/groups] = r
	}
	if adv, _, err := rl.GroupAdvantages(moved, size, opt); err == nil {
		for i := range back {
			back[i] = adv[i%groups*size+i/groups]
		}
		what := "of groups whose completions are not next to each other, as after reshape(group_size, -1)"
		out = append(out, mistake{what, back})
	}
	if adv, _, err := rl.GroupAdvantages(rewards, groups, opt); err == nil {
		what := fmt.Sprintf("of groups of %d completions, in place of group_size, as after reshape(group_size, -1)", groups)
		out = append(out, mistake{what, adv})
	}
	return out
}

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
