package train

import (
	"fmt"

	"grpo/pkg/rl"
)

// advantages turns the rewards of a rollout into advantages: one for each
// completion (r.advantages), or, where the method asks for it, one for each
// token (r.tokenAdvantages).
func (t *trainer) advantages(r *rollout, step int) error {
	if err := t.computeAdvantages(r); err != nil {
		return fmt.Errorf("advantages of step %d: %w", step, err)
	}
	t.countSignal(r)
	return nil
}

func (t *trainer) computeAdvantages(r *rollout) error {
	a, group := t.cfg.Algorithm, t.cfg.Rollout.GroupSize
	// Flat groups are counted on the rewards themselves, whatever scales the
	// advantages.
	var err error
	if _, r.stats, err = rl.GroupAdvantages(r.rewards, group, rl.AdvantageOptions{Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone}); err != nil {
		return err
	}
	if a.Type == "ppo" {
		return t.ppoAdvantages(r)
	}
	baseline, normalizer := a.Advantages()
	byToken := normalizer == "whiten_tokens"
	rewards := r.rewards
	if a.KLIn == "reward" && a.Beta != 0 && !byToken {
		w := r.all
		rewards, err = rl.KLInReward(w.shape, rewards, w.matrix(r.old), w.matrix(r.reference), w.mask, rl.KLEstimator(a.KLEstimator), a.Beta)
		if err != nil {
			return err
		}
	}
	switch {
	case a.PassK:
		r.advantages, err = rl.PassKAdvantages(rewards, group, a.UseStdNormalization, a.AdvantageEps)
	case t.cfg.Reward.MultiObjectiveAggregation == "normalize_then_sum":
		r.advantages, err = rl.NormalizeThenSum(r.byFunction, t.cfg.Reward.RewardWeights, group, a.AdvantageEps)
	default:
		opt := rl.AdvantageOptions{Baseline: rl.Baseline(baseline), Normalizer: rl.Normalizer(normalizer), Eps: a.AdvantageEps, GreedyRewards: r.greedyRewards}
		if byToken {
			opt.Normalizer = rl.NormalizerNone
		}
		for _, c := range r.completions {
			opt.Lengths = append(opt.Lengths, len(c.Tokens))
		}
		r.advantages, _, err = rl.GroupAdvantages(rewards, group, opt)
	}
	if err != nil {
		return err
	}
	if byToken || a.Gamma != 1 || a.Teacher != "" {
		return t.tokenAdvantages(r, byToken)
	}
	return nil
}

// tokenAdvantages spreads the completions' advantages over their tokens: each
// counts as a reward of the last token, from which the others have what is
// left of it under the discount gamma (REINFORCE++, arXiv:2501.03262). A KL
// penalty in the reward comes token by token here, a teacher's advantages are
// added last.
func (t *trainer) tokenAdvantages(r *rollout, whiten bool) error {
	a := t.cfg.Algorithm
	w := r.all
	rewards := newRagged(r.completions)
	for i := range rewards {
		rewards[i][len(rewards[i])-1] = r.advantages[i]
	}
	if whiten && a.KLIn == "reward" && a.Beta != 0 {
		t.chargeKL(r, rewards)
	}
	adv, err := rl.ReturnsToGo(w.shape, w.matrix(rewards), w.mask, a.Gamma)
	if err != nil {
		return err
	}
	if whiten {
		if adv, err = rl.WhitenTokens(w.shape, adv, w.mask, whitenEps); err != nil {
			return err
		}
	}
	if a.Teacher != "" {
		more, err := rl.MiniLLMAdvantages(w.shape, w.matrix(r.teacher), w.matrix(r.old), w.mask, a.TeacherGamma, a.TeacherLengthNormalization)
		if err != nil {
			return err
		}
		for i, v := range more {
			adv[i] += v
		}
	}
	r.tokenAdvantages = fromMatrix(r.completions, w.shape.T, adv)
	return nil
}

// whitenEps is verl's, inside the root.
const whitenEps = 1e-8

// chargeKL takes beta times the KL estimate of each token off its reward.
func (t *trainer) chargeKL(r *rollout, rewards ragged) {
	a := t.cfg.Algorithm
	for i, c := range r.completions {
		for k, lp := range c.LogProbs {
			kl, _ := rl.KLEstimator(a.KLEstimator).At(float64(lp), r.reference[i][k])
			rewards[i][k] -= a.Beta * kl
		}
	}
}

// countSignal counts the groups in which any advantage is not 0.
func (t *trainer) countSignal(r *rollout) {
	group := t.cfg.Rollout.GroupSize
	r.silent = 0
	for g := 0; g < len(r.completions); g += group {
		loud := false
		for i := g; i < g+group; i++ {
			loud = loud || r.hasSignal(i)
		}
		if !loud {
			r.silent++
		}
	}
}

// hasSignal says whether completion i has an advantage other than 0.
func (r *rollout) hasSignal(i int) bool {
	if r.tokenAdvantages == nil {
		return r.advantages[i] != 0
	}
	for _, v := range r.tokenAdvantages[i] {
		if v != 0 {
			return true
		}
	}
	return false
}
