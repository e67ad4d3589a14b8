package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// updater has the buffers of the updates, reused from one micro-batch to the next.
type updater struct {
	res        rl.Result
	old, ref   []float64 // (B,T), log-probabilities
	scored     []float64 // (B,T), of the rollout's
	advantages []float64 // (B), or (B,T) for advantages per token
}

// updateStats are the statistics of the updates of a step.
type updateStats struct {
	step          int
	policy        rl.Stats
	loss, norm    float64 // sums over the updates
	updates       int
	rate          float64 // learning rate of the last update
	entropy       float64 // sum over tokens, first pass
	entropyTokens int
	maxDiff       *float64 // largest difference of sampler and learner before the first update; nil: none
	valueLoss     *float64 // mean; nil without a critic
	pairs         pairStats
}

// lossConfig returns the policy loss of the next update. Only here do options of the loss pass from
// the configuration to pkg/rl.
func (t *trainer) lossConfig() rl.LossConfig {
	a := t.cfg.Algorithm
	c := rl.LossConfig{
		Loss: a.BaseLoss(), Level: a.ImportanceSamplingLevel,
		Aggregation: a.LengthNormalization, NormalizeConstant: a.NormalizeConstant,
		Epsilon: a.Cliprange, EpsilonHigh: a.EpsilonHigh, Delta: a.Delta, DualClip: a.DualClip,
		SAPOTempPos: a.SAPOTemperaturePos, SAPOTempNeg: a.SAPOTemperatureNeg,
		VESPOKPos: a.VESPOKPos, VESPOLambdaPos: a.VESPOLambdaPos,
		VESPOKNeg: a.VESPOKNeg, VESPOLambdaNeg: a.VESPOLambdaNeg,
		EntropyCoef: a.EntropyCoef, EntropyOverAll: a.EntropyOverAll(),
		OffPolicyMask: a.OffPolicyMask, OffPolicyMaskThreshold: a.OffPolicyMaskThreshold,
	}
	if a.Beta != 0 && a.KLIn == "loss" {
		c.Beta, c.KL, c.KLBiasCorrection = a.Beta, a.KLEstimator, a.UseBiasCorrectionKL
	}
	if a.UseAdaptiveEntropy {
		c.EntropyCoef = t.state.EntropyApply
	}
	return c
}

// onPolicy reports whether the policy is still the one that sampled: one pass over one train batch
// of the current policy's completions. Then the ratio is 1 and nothing is clipped.
func (t *trainer) onPolicy(r *rollout) bool {
	return r.current && !t.severalUpdates()
}

// severalUpdates reports whether a step makes more than one optimizer update.
func (t *trainer) severalUpdates() bool {
	return t.cfg.Train.EpochsPerRolloutBatch > 1 || t.cfg.Train.TrainBatchSize < t.cfg.Rollout.RolloutBatchSize
}

// update makes the optimizer updates of one step. It stops at the first loss or gradient that is
// not finite.
//
// A rollout is cut into train batches of whole completions in their order, and a train batch into
// micro-batches (see [trainer.parts], too). The loss divides by the totals of the train batch, so the gradients of its
// micro-batches sum to exactly its gradient. All passes use the log-probabilities of sampling as
// old ones, or those of [trainer.scoreOld].
func (t *trainer) update(r *rollout, step int) (*updateStats, error) {
	c := t.cfg.Train
	s := &updateStats{step: step}
	if t.scorers.old != nil && r.current {
		if err := t.scoreOld(r); err != nil {
			return nil, fmt.Errorf("score the rollout: %w", err)
		}
	}
	for epoch := range c.EpochsPerRolloutBatch {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			if err := t.updateOnce(r, lo, epoch == 0, s); err != nil {
				return nil, err
			}
		}
	}
	if t.critic != nil {
		var err error
		if s.valueLoss, err = t.updateCritic(r); err != nil {
			return nil, err
		}
	}
	return s, t.endUpdates(s)
}

// endUpdates checks the weights after the updates of a step, and gives them to the sampler.
func (t *trainer) endUpdates(s *updateStats) error {
	if name, ok := t.params.Finite(); !ok {
		return &divergence{fmt.Sprintf("%s has a value that is not finite", name)}
	}
	t.passed(1 + 2*s.updates) // weights; loss and gradient norm of each update
	t.sampler.Refresh()
	return nil
}

// updateOnce makes one optimizer update from the train batch that starts at
// completion lo.
func (t *trainer) updateOnce(r *rollout, lo int, firstPass bool, s *updateStats) error {
	c := t.cfg.Train
	policyMask, totals, err := t.totals(r, lo)
	if err != nil {
		return err
	}
	cfg := t.lossConfig()
	t.learner.ZeroGrads()
	micro := c.TrainBatchSize / c.GradientAccumulationSteps
	objective := func(rows []int) model.Objective {
		return func(x *model.TokenMatrix) (float64, error) {
			b := t.lossBatch(r, rows, x, cfg)
			b.Totals = totals
			if policyMask != nil {
				b.PolicyMask = take(r, policyMask, rows, x.T, nil)
			}
			if firstPass {
				if err := t.checkMask(r, rows, x); err != nil {
					return 0, err
				}
				s.compare(x, t.updater.old, r.current)
			}
			res := &t.updater.res
			if err := rl.LossInto(cfg, b, res); err != nil {
				return 0, err
			}
			copy(x.DLogProbs, res.Grad)
			copy(x.DEntropy, res.GradEntropy)
			s.policy.Add(res.Stats)
			return res.Loss, nil
		}
	}
	done, of := 0, 0
	for at := lo; at < lo+c.TrainBatchSize; at += micro {
		rows, _ := t.withoutSkipped(r, span(at, at+micro))
		of += len(t.parts(r, rows, 1))
	}
	var loss float64
	for at := lo; at < lo+c.TrainBatchSize; at += micro {
		rows, flat := t.withoutSkipped(r, span(at, at+micro))
		if firstPass && r.current {
			s.addSkipped(r, flat)
		}
		for _, rows := range t.parts(r, rows, 1) {
			t.opts.Progress.Count("update", "micro-batch", done, of)
			done++
			part, err := t.learner.Accumulate(r.batch(rows), objective(rows))
			if err != nil {
				return fmt.Errorf("update: %w", err)
			}
			loss += part
		}
	}
	s.rate = t.rate(c.LearningRate, float64(t.opt.T))
	return t.applyUpdate(loss, s)
}

// applyUpdate makes the optimizer's step with the learner's gradient and counts the update. A loss or
// a gradient norm that is not finite is a [divergence].
func (t *trainer) applyUpdate(loss float64, s *updateStats) error {
	norm, err := t.opt.Step(t.params, t.learner.Grads(), s.rate, t.cfg.Train.MaxGradNorm)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	s.loss += loss
	s.norm += norm
	s.updates++
	switch {
	case notFinite(loss):
		return &divergence{fmt.Sprintf("loss is %v", loss)}
	case notFinite(norm):
		return &divergence{fmt.Sprintf("gradient norm is %v", norm)}
	case s.updates == 1 && s.maxDiff != nil:
		return t.checkSampler(s)
	}
	return nil
}

// lossBatch lays out a micro-batch for the loss, except its totals and its mask of high-entropy
// tokens.
func (t *trainer) lossBatch(r *rollout, rows []int, x *model.TokenMatrix, cfg rl.LossConfig) rl.Batch {
	u := &t.updater
	b := rl.Batch{Shape: rl.Shape{B: x.B, T: x.T}, LogProbs: x.LogProbs, Entropies: x.Entropy, Mask: x.Mask}
	u.old = r.oldLogProbs(rows, x.T, u.old)
	switch {
	case t.onPolicy(r):
	case r.scored != nil:
		u.scored = take(r, r.scored, rows, x.T, u.scored)
		b.OldLogProbs = u.scored
	default:
		b.OldLogProbs = u.old
	}
	if cfg.Beta != 0 {
		u.ref = take(r, r.reference, rows, x.T, u.ref)
		b.RefLogProbs = u.ref
	}
	if r.tokenAdvantages != nil {
		u.advantages = take(r, r.tokenAdvantages, rows, x.T, u.advantages)
	} else {
		u.advantages = u.advantages[:0]
		for _, i := range rows {
			u.advantages = append(u.advantages, r.advantages[i])
		}
	}
	b.Advantages = u.advantages
	return b
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// compare sums the entropies and, if the two are the same policy, finds the largest difference
// between the log-probabilities of sampler, (B,T), and learner.
func (s *updateStats) compare(x *model.TokenMatrix, old []float64, same bool) {
	for i, in := range x.Mask {
		if !in {
			continue
		}
		if s.updates == 0 && same {
			if s.maxDiff == nil {
				s.maxDiff = new(float64)
			}
			*s.maxDiff = math.Max(*s.maxDiff, math.Abs(old[i]-x.LogProbs[i]))
		}
		s.entropy += x.Entropy[i]
		s.entropyTokens++
	}
}

// addSkipped adds the entropies of completions that the learner does not see, as the sampler
// computed them.
func (s *updateStats) addSkipped(r *rollout, rows []int) {
	for _, i := range rows {
		for _, h := range r.completions[i].Entropies {
			s.entropy += float64(h)
			s.entropyTokens++
		}
	}
}

// totals returns the denominators of a train batch's loss, and the mask (N,T) of its
// highest-entropy tokens if the configuration asks for one. Masked-out truncated completions have
// no tokens but count as sequences. Completions skipped because their advantage is 0 count in full.
func (t *trainer) totals(r *rollout, lo int) (policyMask []bool, totals rl.Totals, err error) {
	shape := rl.Shape{B: t.cfg.Train.TrainBatchSize, T: r.shape.T}
	first := lo * r.shape.T
	mask := slices.Clone(r.mask[first : first+shape.Len()]) // (B,T)
	for i := range shape.B {
		if t.masked(r, lo+i) {
			clear(mask[i*shape.T : (i+1)*shape.T])
		}
	}
	if r.entropies == nil {
		return nil, rl.Count(shape, mask, nil), nil
	}
	// The quantile is over the entropies at sampling time, so it does not depend on how the batch
	// is split.
	top, err := rl.TopEntropyMask(shape, r.entropies[first:first+shape.Len()], mask, t.cfg.Algorithm.TopEntropyQuantile)
	if err != nil {
		return nil, totals, err
	}
	policyMask = make([]bool, r.shape.Len())
	copy(policyMask[first:], top)
	return policyMask, rl.Count(shape, mask, top), nil
}

// masked reports whether completion i is left out of the loss as truncated.
func (t *trainer) masked(r *rollout, i int) bool {
	return t.cfg.Algorithm.MaskTruncatedCompletions && !r.completions[i].Ended
}

// withoutSkipped drops the completions that contribute no gradient: truncated ones if they are
// masked, and, where updates skip them, those with advantage 0 (flat).
func (t *trainer) withoutSkipped(r *rollout, rows []int) (kept, flat []int) {
	for _, i := range rows {
		switch {
		case t.masked(r, i):
		case t.skipsFlat && !r.informative(i, i+1):
			flat = append(flat, i)
		default:
			kept = append(kept, i)
		}
	}
	return kept, flat
}

// adaptEntropy moves the coefficient of the entropy bonus towards its target
// (algorithm.use_adaptive_entropy), unless the step had no entropy.
func (t *trainer) adaptEntropy(entropy float64) {
	a := t.cfg.Algorithm
	if !a.UseAdaptiveEntropy || math.IsNaN(entropy) {
		return
	}
	t.state.EntropyCoef, t.state.EntropyApply = rl.AdaptEntropyCoef(t.state.EntropyCoef, entropy,
		a.EntropyTarget, a.EntropyCoefDelta, a.EntropyCoefMin, a.EntropyCoefMax)
}
