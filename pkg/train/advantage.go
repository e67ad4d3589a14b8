package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/formula"
	"grpo/pkg/rl"
)

// advantages turns the rewards of a rollout into advantages: one for each
// completion (r.advantages), or, if the method needs it, one for each token
// (r.tokenAdvantages). Pairs have none.
func (t *trainer) advantages(r *rollout, step int) error {
	if t.isDPO() {
		return nil
	}
	compute := t.groupAdvantages
	if t.cfg.Algorithm.Type == "ppo" {
		compute = t.ppoAdvantages
	}
	if err := compute(r); err != nil {
		return fmt.Errorf("advantages of step %d: %w", step, err)
	}
	r.zeroVariance, r.zeroAdvantage = 0, 0
	for lo := 0; lo < len(r.rewards); lo += r.groupSize {
		if zeroVariance(r.rewards[lo : lo+r.groupSize]) {
			r.zeroVariance++
		}
		if !r.informative(lo, lo+r.groupSize) {
			r.zeroAdvantage++
		}
	}
	return t.checkAdvantages(r, step)
}

// groupAdvantages compares the completions of a prompt with one another (GRPO
// and its relatives).
func (t *trainer) groupAdvantages(r *rollout) error {
	a := t.cfg.Algorithm
	baseline, normalizer := a.Advantages()
	whiten := normalizer == config.WhitenTokens
	rewards := r.rewards // (N)
	var err error
	if a.KLIn == "reward" && a.Beta != 0 && !whiten {
		rewards, err = rl.KLInReward(r.shape, rewards, r.old(), r.reference, r.mask, a.KLEstimator, a.Beta)
		if err != nil {
			return err
		}
	}
	switch {
	case a.AdvantageExpr != "":
		r.advantages, err = formulaAdvantages(t.advantage, r, rewards)
	case a.PassK:
		r.advantages, err = rl.PassKAdvantages(rewards, r.groupSize, a.UseStdNormalization, a.AdvantageEps)
	case t.cfg.Reward.MultiObjectiveAggregation == "normalize_then_sum":
		r.advantages, err = rl.NormalizeThenSum(r.byFunction, t.cfg.Reward.RewardWeights, r.groupSize, a.AdvantageEps)
	default:
		opt := rl.AdvantageOptions{
			Baseline: baseline, Normalizer: normalizer, Eps: a.AdvantageEps, GreedyRewards: r.greedyRewards,
		}
		if whiten {
			opt.Normalizer = rl.NormalizerNone
		}
		if opt.Baseline == rl.BaselineLengthWeighted {
			for _, c := range r.completions {
				opt.Lengths = append(opt.Lengths, len(c.Tokens))
			}
		}
		r.advantages, _, err = rl.GroupAdvantages(rewards, r.groupSize, opt)
	}
	if err != nil {
		return err
	}
	if whiten || a.Gamma != 1 || a.Teacher != "" {
		return t.spreadOverTokens(r, whiten)
	}
	return nil
}

// formulaAdvantages are those of algorithm.advantage_expr.
func formulaAdvantages(f *formula.Advantage, r *rollout, rewards []float64) ([]float64, error) {
	right, lengths := make([]bool, len(rewards)), make([]int, len(rewards))
	for i, c := range r.completions {
		right[i], lengths[i] = r.verdicts[i].Right, len(c.Tokens)
		if r.noise.Noisy != nil { // training sees what the verifier says
			right[i] = r.noise.Noisy[i] == 1
		}
	}
	out := make([]float64, len(rewards))
	for lo := 0; lo < len(out); lo += r.groupSize {
		hi := lo + r.groupSize
		g := formula.Group{Rewards: rewards[lo:hi], Right: right[lo:hi], Lengths: lengths[lo:hi]}
		if err := f.Of(g, out[lo:hi]); err != nil {
			return nil, fmt.Errorf("group %d: algorithm.advantage_expr: %w", lo/r.groupSize+1, err)
		}
	}
	return out, nil
}

// spreadOverTokens gives every token an advantage: the completion's advantage is the reward of its
// last token, and earlier tokens get it discounted by gamma (REINFORCE++, arXiv:2501.03262). With
// whitening, a KL penalty in the reward is subtracted per token here. The teacher's advantages are
// added last.
func (t *trainer) spreadOverTokens(r *rollout, whiten bool) (err error) {
	a := t.cfg.Algorithm
	rewards := r.onLastTokens(r.advantages) // (N,T)
	if whiten && a.KLIn == "reward" && a.Beta != 0 {
		t.chargeKL(r, rewards)
	}
	if r.tokenAdvantages, err = rl.ReturnsToGo(r.shape, rewards, r.mask, a.Gamma); err != nil {
		return err
	}
	if whiten {
		if err := r.whitenTokens(); err != nil {
			return err
		}
	}
	if a.Teacher == "" {
		return nil
	}
	more, err := rl.MiniLLMAdvantages(r.shape, r.teacher, r.old(), r.mask, a.TeacherGamma, a.TeacherLengthNormalization)
	for i, v := range more {
		r.tokenAdvantages[i] += v
	}
	return err
}

// whitenTokens whitens the advantages of the tokens of all completions with a reward.
func (r *rollout) whitenTokens() (err error) {
	mask := r.mask
	for i, v := range r.rewards {
		if math.IsNaN(v) {
			if &mask[0] == &r.mask[0] {
				mask = slices.Clone(mask)
			}
			clear(mask[i*r.shape.T : (i+1)*r.shape.T])
		}
	}
	r.tokenAdvantages, err = rl.WhitenTokens(r.shape, r.tokenAdvantages, mask, whitenEps)
	return err
}

// whitenEps is verl's value; it is added inside the root.
const whitenEps = 1e-8

// chargeKL subtracts beta times each token's KL estimate from its reward; rewards is (N,T).
func (t *trainer) chargeKL(r *rollout, rewards []float64) {
	a := t.cfg.Algorithm
	for i, c := range r.completions {
		for k, lp := range c.LogProbs {
			at := i*r.shape.T + k
			kl, _ := a.KLEstimator.At(float64(lp), r.reference[at])
			rewards[at] -= float64(a.Beta * kl)
		}
	}
}

// zeroVariance reports whether the standard deviation of a group's rewards is 0:
// at least two completions were scored, and all scored ones got the same reward.
func zeroVariance(rewards []float64) bool {
	return len(scored(rewards)) >= 2 && equalRewards(rewards)
}

// equalRewards reports whether all scored completions of a group got the same reward.
func equalRewards(rewards []float64) bool {
	rewards = scored(rewards)
	return !slices.ContainsFunc(rewards, func(v float64) bool { return v != rewards[0] })
}

// informative reports whether any of the completions lo to hi-1 has an advantage
// other than 0.
func (r *rollout) informative(lo, hi int) bool {
	nonzero := func(v float64) bool { return v != 0 }
	if r.tokenAdvantages == nil {
		return slices.ContainsFunc(r.advantages[lo:hi], nonzero)
	}
	return slices.ContainsFunc(r.tokenAdvantages[lo*r.shape.T:hi*r.shape.T], nonzero)
}
