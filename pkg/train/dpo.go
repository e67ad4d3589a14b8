package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// This file is a train step of direct preference optimization (algorithm.type dpo):
//
//	pairs -> log-probabilities under the reference policy -> update -> metrics
//
// The pairs are those of a graded rollout, or of a file (dpo_file.go). The updates are in
// dpo_update.go. The log-probabilities under the policy and the reference are at temperature 1: the
// temperature of sampling does not change the loss.

// pairTemperature divides the logits of dpo's log-probabilities.
const pairTemperature = 1

// isDPO reports whether the run trains on pairs.
func (t *trainer) isDPO() bool { return t.cfg.Algorithm.Type == "dpo" }

// temperature divides the logits of the learner and of the scorers.
func (t *trainer) temperature() float64 {
	if t.isDPO() {
		return pairTemperature
	}
	return t.cfg.Rollout.SamplingTemperature
}

// pairRows are pairs of completions of a rollout: the chosen one of pair i is at 2i, the rejected one
// at 2i+1. Both are completions of the same prompt.
type pairRows []int

// pairs is the number of pairs.
func (p pairRows) pairs() int { return len(p) / 2 }

// trainOnPairs is [trainer.trainStep] for dpo.
func (t *trainer) trainOnPairs(step int, lap func() float64) (*rollout, rundir.Metrics, error) {
	m := rundir.Metrics{Step: step}
	fail := func(err error) (*rollout, rundir.Metrics, error) { return nil, m, err }

	// Pairs: sample, grade and reward groups of completions, or draw pairs of the file.
	var r *rollout
	var pairs pairRows
	var err error
	if t.cfg.Algorithm.FromFile() {
		r, pairs = t.drawPairs()
	} else if r, err = t.rollout(step); err == nil {
		pairs, err = t.makePairs(r, step)
	}
	if err != nil {
		return fail(err)
	}
	m.Time.RolloutS = max(0, lap()-r.rewardS)

	// Score: log-probabilities under the reference policy.
	if err := t.scorePairs(r, pairs); err != nil {
		return fail(err)
	}
	if r.problems == nil {
		r.addPairMetrics(&m)
	} else {
		r.addMetrics(&m, t.cfg.Reward.Functions)
	}
	m.Time.RewardS = r.rewardS + lap()

	// Update: passes over the pairs in train batches and micro-batches.
	u, err := t.updatePairs(r, pairs, step)
	if err != nil {
		return fail(err)
	}
	u.addMetrics(&m)
	m.Updates = t.opt.T
	if u.updates == 0 {
		m.Loss, m.GradNorm, m.Entropy = math.NaN(), math.NaN(), math.NaN()
		t.state.WithoutPairs++
		t.note("step %d: no group has a pair (%s), so there is no update", step, t.cfg.Algorithm.DPO.Pairs)
	}
	m.Preference = u.pairs.metrics()
	m.Preference["pairs"] = float64(pairs.pairs())
	if r.identicalPairs > 0 {
		m.Preference["identical_pairs"] = float64(r.identicalPairs)
	}
	if r.problems != nil {
		m.Preference["groups_without_pair"] = float64(r.zeroAdvantage)
	}
	if err := t.resample(step); err != nil {
		return fail(err)
	}
	m.Time.UpdateS = lap()
	return r, m, nil
}

// makePairs pairs the completions of each group by their rewards. A pair of equal completions, which
// only a random reward can tell apart, is counted and left out.
func (t *trainer) makePairs(r *rollout, step int) (out pairRows, err error) {
	lengths := make([]int, len(r.completions))
	for i, c := range r.completions {
		lengths[i] = len(c.Tokens)
	}
	pairs, err := rl.MakePairs(r.rewards, lengths, r.groupSize, t.cfg.Algorithm.DPO.Rule())
	if err != nil {
		return nil, fmt.Errorf("pairs of step %d: %w", step, err)
	}
	with := make([]bool, r.groups())
	for _, p := range pairs {
		if slices.Equal(r.completions[p.Chosen].Tokens, r.completions[p.Rejected].Tokens) {
			r.identicalPairs++
			continue
		}
		out = append(out, p.Chosen, p.Rejected)
		with[p.Chosen/r.groupSize] = true
	}
	for g := range with {
		if zeroVariance(r.rewards[g*r.groupSize : (g+1)*r.groupSize]) {
			r.zeroVariance++
		}
		if !with[g] {
			r.zeroAdvantage++
		}
	}
	return out, nil
}

// scorePairs fills in the log-probabilities of the pairs' completions under the reference policy.
// Pairs of a file have them already.
func (t *trainer) scorePairs(r *rollout, pairs pairRows) error {
	if r.reference != nil || len(pairs) == 0 {
		return nil
	}
	r.reference = make([]float64, r.shape.Len())
	t.opts.Progress.Do("scoring the pairs under the reference model")
	x, err := t.scorers.reference.Score(r.batch(pairs))
	if err != nil {
		return err
	}
	for k, i := range pairs {
		n := len(r.completions[i].Tokens)
		copy(r.reference[i*r.shape.T:i*r.shape.T+n], x.LogProbs[k*x.T:k*x.T+n])
	}
	return nil
}

// pairStats are sums over pairs of what TRL logs.
type pairStats struct {
	pairs                            int
	chosen, rejected                 float64 // rewards
	right                            int     // pairs whose chosen completion has the higher reward
	logProbsChosen, logProbsRejected float64
}

func (s *pairStats) add(res rl.PreferenceResult) {
	for i, c := range res.RewardsChosen {
		r := res.RewardsRejected[i]
		s.pairs++
		s.chosen, s.rejected = s.chosen+c, s.rejected+r
		if c > r {
			s.right++
		}
		s.logProbsChosen, s.logProbsRejected = s.logProbsChosen+res.LogPsChosen[i], s.logProbsRejected+res.LogPsRejected[i]
	}
}

// metrics are means under TRL's names; without pairs there are none.
func (s *pairStats) metrics() map[string]float64 {
	if s.pairs == 0 {
		return map[string]float64{}
	}
	n := float64(s.pairs)
	return map[string]float64{
		"rewards/chosen": s.chosen / n, "rewards/rejected": s.rejected / n,
		"rewards/margins": (s.chosen - s.rejected) / n, "rewards/accuracies": float64(s.right) / n,
		"logps/chosen": s.logProbsChosen / n, "logps/rejected": s.logProbsRejected / n,
	}
}

// evaluatePairs are the loss and the metrics of the held-out pairs; nil without such pairs.
func (t *trainer) evaluatePairs() (map[string]float64, error) {
	if t.data.evalPairs.list == nil {
		return nil, nil
	}
	r, rows := t.data.evalPairs.rollout(span(0, len(t.data.evalPairs.list)))
	x, err := t.scoreRows(t.scorers.policy, r, rows)
	if err != nil {
		return nil, err
	}
	half, err := t.scoreHalf(r, rows)
	if err != nil {
		return nil, err
	}
	res, err := rl.Preference(t.cfg.Algorithm.DPO.Preference(), t.pairBatch(r, rows, x, half, 0))
	if err != nil {
		return nil, err
	}
	var s pairStats
	s.add(res)
	m := s.metrics()
	m["loss"], m["pairs"] = res.Loss, float64(s.pairs)
	return m, nil
}

// scoreRows scores pairs, a bounded number of tokens at a time, as one matrix.
func (t *trainer) scoreRows(scorer model.Scorer, r *rollout, rows pairRows) (*model.TokenMatrix, error) {
	out := &model.TokenMatrix{B: len(rows)}
	for _, i := range rows {
		out.T = max(out.T, len(r.completions[i].Tokens))
	}
	out.LogProbs, out.Mask = make([]float64, out.B*out.T), make([]bool, out.B*out.T)
	at := 0
	parts := t.pairParts(r, rows)
	for i, part := range parts {
		t.opts.Progress.Count("scoring pairs", "micro-batch", i, len(parts))
		x, err := scorer.Score(r.batch(part))
		if err != nil {
			return nil, err
		}
		for k, i := range part {
			n := len(r.completions[i].Tokens)
			copy(out.LogProbs[at*out.T:at*out.T+n], x.LogProbs[k*x.T:k*x.T+n])
			copy(out.Mask[at*out.T:at*out.T+n], x.Mask[k*x.T:k*x.T+n])
			at++
		}
	}
	return out, nil
}
