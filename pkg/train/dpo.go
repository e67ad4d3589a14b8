package train

import (
	"fmt"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// This file is what direct preference optimization (algorithm.type dpo) does in a train step instead
// of computing advantages: it makes pairs of a graded rollout, or takes those of a file
// (dpo_file.go), and its loss compares the log-probabilities of a pair's completions under the policy
// and the reference. These are at temperature 1: the temperature of sampling does not change the loss.

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

func (p pairRows) count() int { return len(p) / 2 }

// within returns the pairs whose completions are lo to hi-1.
func (p pairRows) within(lo, hi int) (out pairRows) {
	for i := 0; i < len(p); i += 2 {
		if p[i] >= lo && p[i] < hi {
			out = append(out, p[i], p[i+1])
		}
	}
	return out
}

// makePairs pairs the completions of each group by their rewards. A pair of equal completions, which
// only a random reward can tell apart, is counted and left out.
func (t *trainer) makePairs(r *rollout, step int) error {
	lengths := make([]int, len(r.completions))
	for i, c := range r.completions {
		lengths[i] = len(c.Tokens)
	}
	pairs, err := rl.MakePairs(r.rewards, lengths, r.groupSize, t.cfg.Algorithm.DPO.Rule())
	if err != nil {
		return fmt.Errorf("pairs of step %d: %w", step, err)
	}
	with := make([]bool, r.groups())
	for _, p := range pairs {
		if slices.Equal(r.completions[p.Chosen].Tokens, r.completions[p.Rejected].Tokens) {
			r.identicalPairs++
			continue
		}
		r.pairs = append(r.pairs, p.Chosen, p.Rejected)
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
	return nil
}

// pairLoss is the loss of the pairs of a train batch, which are those of its completions.
func (t *trainer) pairLoss(r *rollout, lo int, s *updateStats) (out trainBatch, err error) {
	cfg := t.cfg.Algorithm.DPO.Preference()
	pairs := r.pairs.within(lo, lo+t.cfg.Train.TrainBatchSize)
	out.parts = t.pairParts(r, pairs)
	half, err := t.halfLogProbs(r, out.parts)
	if err != nil {
		return out, err
	}
	// A loss of a pair that depends on all pairs of the update needs their log-probabilities first:
	// those of a scorer are the learner's.
	if cfg.NeedsBatch() && len(out.parts) > 1 {
		logProbs, err := t.logProbs(t.scorers.policy, r, out.parts, "scoring pairs")
		if err != nil {
			return out, err
		}
		logProbs = take(r, logProbs, pairs, r.shape.T, nil)
		whole, err := rl.Preference(cfg, r.preferenceBatch(pairs, r.shape.T, logProbs, half))
		if err != nil {
			return out, err
		}
		s.pairs.add(whole)
		grad := make([]float64, r.shape.Len())
		for k, i := range pairs {
			copy(grad[i*r.shape.T:], whole.Grad[k*r.shape.T:][:r.shape.T])
		}
		loss := whole.Loss
		out.loss = func(part microBatch, x *model.TokenMatrix) (float64, error) {
			copy(x.DLogProbs, take(r, grad, part.rows, x.T, nil))
			share := loss
			loss = 0 // the first part's share is the loss of all
			return share, nil
		}
		return out, nil
	}
	totals := rl.PreferenceTotals{Pairs: pairs.count()}
	for i := 0; i < len(pairs); i += 2 {
		totals.ChosenTokens += len(r.completions[pairs[i]].Tokens)
	}
	out.loss = func(part microBatch, x *model.TokenMatrix) (float64, error) {
		b := r.preferenceBatch(part.rows, x.T, x.LogProbs, half)
		b.Totals = totals
		res, err := rl.Preference(cfg, b)
		if err != nil {
			return 0, err
		}
		copy(x.DLogProbs, res.Grad)
		s.pairs.add(res)
		return res.Loss, nil
	}
	return out, nil
}

// pairParts cuts pairs into micro-batches of nearly equal numbers of pairs
// (train.gradient_accumulation_steps), and these into parts that [trainer.parts] bounds.
func (t *trainer) pairParts(r *rollout, rows pairRows) (out []microBatch) {
	n := rows.count()
	k := min(t.cfg.Train.GradientAccumulationSteps, n)
	for i := range k {
		for _, part := range t.parts(r, rows[2*(i*n/k):2*((i+1)*n/k)], 2) {
			out = append(out, microBatch{rows: part})
		}
	}
	return out
}

// halfLogProbs returns the log-probabilities (N,T) under the policy at half the temperature, which
// give the sums of squared probabilities that algorithm.dpo.use_weighting needs; nil without it.
func (t *trainer) halfLogProbs(r *rollout, parts []microBatch) ([]float64, error) {
	if t.scorers.half == nil {
		return nil, nil
	}
	return t.logProbs(t.scorers.half, r, parts, "scoring pairs at half the temperature")
}

// preferenceBatch lays out rows of pairs for the loss: logProbs, (len(rows), width), are theirs under
// the policy, and half, (N,T) or nil, those at half the temperature.
//
// With the logits l of a token's distribution p and the token's own l_t,
//
//	log sum p^2 = lse(2 l) - 2 lse(l) = 2 (l_t - lse(l)) - (2 l_t - lse(2 l))
//
// twice its log-probability minus that at half the temperature.
func (r *rollout) preferenceBatch(rows []int, width int, logProbs, half []float64) rl.PreferenceBatch {
	b := rl.PreferenceBatch{
		Shape: rl.Shape{B: len(rows), T: width}, LogProbs: logProbs,
		RefLogProbs: take(r, r.reference, rows, width, nil), Mask: take(r, r.mask, rows, width, nil),
	}
	if half != nil {
		b.LogSumSq = take(r, half, rows, width, nil)
		for i, lp := range logProbs {
			b.LogSumSq[i] = 2*lp - b.LogSumSq[i]
		}
	}
	return b
}

// addPreference adds the metrics of dpo's updates and counts a step without one.
func (t *trainer) addPreference(m *rundir.Metrics, r *rollout, s *updateStats) {
	if s.updates == 0 {
		t.state.WithoutPairs++
		t.note("step %d: no group has a pair (%s), so there is no update", s.step, t.cfg.Algorithm.DPO.Pairs)
	}
	m.Preference = s.pairs.metrics()
	m.Preference["pairs"] = float64(r.pairs.count())
	if r.identicalPairs > 0 {
		m.Preference["identical_pairs"] = float64(r.identicalPairs)
	}
	if r.problems != nil {
		m.Preference["groups_without_pair"] = float64(r.zeroAdvantage)
	}
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
	r := t.data.evalPairs.rollout(span(0, len(t.data.evalPairs.list)))
	parts := t.pairParts(r, r.pairs)
	logProbs, err := t.logProbs(t.scorers.policy, r, parts, "scoring pairs")
	if err != nil {
		return nil, err
	}
	half, err := t.halfLogProbs(r, parts)
	if err != nil {
		return nil, err
	}
	res, err := rl.Preference(t.cfg.Algorithm.DPO.Preference(), r.preferenceBatch(r.pairs, r.shape.T, logProbs, half))
	if err != nil {
		return nil, err
	}
	var s pairStats
	s.add(res)
	m := s.metrics()
	m["loss"], m["pairs"] = res.Loss, float64(s.pairs)
	return m, nil
}
