package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/elementary"
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// This file is the optimizer updates of a step, for every algorithm:
//
//	update        passes over the rollout in train batches
//	updateOnce    one train batch: its micro-batches, then AdamW
//	policyLoss    the loss of a train batch of completions; that of pairs is in dpo.go
//
// The updates of the critic are in ppo.go.

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
	kept          float64 // sum over the tokens of a train batch's mask
	keptTokens    int
	maxDiff       *float64 // largest difference of sampler and learner before the first update; nil: none
	valueLoss     *float64 // mean; nil without a critic
	pairs         pairStats
}

// trainBatch is what one optimizer update learns from. Its loss divides by the totals of the train
// batch, so the gradients of its micro-batches sum to exactly its gradient.
type trainBatch struct {
	parts []microBatch
	mask  []bool // (N,T), the tokens of the policy's part of the loss; nil = all
	// loss returns a part's share of the loss and writes its gradient into x, the policy's (B,T). It
	// is called once for each part, in their order.
	loss func(part microBatch, x *model.TokenMatrix) (float64, error)
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

// update makes the optimizer updates of one step: passes over the rollout, which is cut into train
// batches of whole completions in their order. It stops at the first loss or gradient that is not
// finite. All passes use the log-probabilities of sampling as old ones, or those of
// [trainer.scoreOld]. A train batch of dpo without a pair makes no update.
func (t *trainer) update(r *rollout, step int) (*updateStats, error) {
	c := t.cfg.Train
	s := &updateStats{step: step}
	if t.scorers.old != nil && r.current {
		if err := t.scoreOld(r); err != nil {
			return nil, err
		}
	}
	number := float64(step-1) * float64(t.cfg.UpdatesPerStep()) // of the update, in the learning rate's schedule
	for epoch := range c.EpochsPerRolloutBatch {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			s.rate = t.rate(c.LearningRate, number)
			number++
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
	if name, ok := t.Params.Finite(); !ok {
		return nil, &divergence{fmt.Sprintf("%s has a value that is not finite", name)}
	}
	t.passed(1 + 2*s.updates) // weights; loss and gradient norm of each update
	t.sampler.Refresh()
	return s, nil
}

// updateOnce makes one optimizer update from the train batch that starts at completion lo.
func (t *trainer) updateOnce(r *rollout, lo int, firstPass bool, s *updateStats) error {
	batchOf := t.policyLoss
	if t.isDPO() {
		batchOf = t.pairLoss
		if len(r.pairs.within(lo, lo+t.cfg.Train.TrainBatchSize)) == 0 {
			return nil
		}
	}
	b, err := batchOf(r, lo, s)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	t.learner.ZeroGrads()
	var loss float64
	for i, part := range b.parts {
		t.opts.Progress.Count("update", "micro-batch", i, len(b.parts))
		if firstPass && r.current {
			s.addSkipped(r, part.flat)
		}
		if !t.onPolicy(r) {
			if err := s.addUnclipped(r, part.flat, t.loss); err != nil {
				return fmt.Errorf("update: %w", err)
			}
		}
		if len(part.rows) == 0 {
			continue
		}
		share, err := t.learner.Accumulate(r.batch(part.rows), func(x *model.TokenMatrix) (float64, error) {
			if firstPass {
				if err := t.checkMask(r, part.rows, x); err != nil {
					return 0, err
				}
				t.compare(r, part.rows, x, s)
				s.addKept(r, part.rows, x, b.mask)
			}
			return b.loss(part, x)
		})
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		loss += share
	}
	norm, err := t.opt.Step(t.Params, t.learner.Grads(), s.rate, t.cfg.Train.MaxGradNorm)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	s.loss += loss
	s.norm += norm
	s.updates++
	switch {
	case !model.IsFinite(loss):
		return &divergence{fmt.Sprintf("loss is %v", loss)}
	case !model.IsFinite(norm):
		return &divergence{fmt.Sprintf("gradient norm is %v", norm)}
	case s.updates == 1 && s.maxDiff != nil:
		return t.checkSampler(s)
	}
	return nil
}

// policyLoss is the loss of the completions from lo on.
func (t *trainer) policyLoss(r *rollout, lo int, s *updateStats) (trainBatch, error) {
	cfg := t.loss
	if t.cfg.Algorithm.UseAdaptiveEntropy {
		cfg.EntropyCoef = t.state.EntropyApply
	}
	policyMask, totals, err := t.totals(r, lo)
	if err != nil {
		return trainBatch{}, err
	}
	loss := func(part microBatch, x *model.TokenMatrix) (float64, error) {
		b := t.lossBatch(r, part.rows, x, cfg)
		b.Totals = totals
		if policyMask != nil {
			b.PolicyMask = take(r, policyMask, part.rows, x.T, nil)
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
	return trainBatch{t.microBatches(r, lo, lo+t.cfg.Train.TrainBatchSize, false), policyMask, loss}, nil
}

// lossBatch lays out a micro-batch for the loss, except its totals and its mask of high-entropy
// tokens.
func (t *trainer) lossBatch(r *rollout, rows []int, x *model.TokenMatrix, cfg rl.LossConfig) rl.Batch {
	u := &t.updater
	b := rl.Batch{Shape: rl.Shape{B: x.B, T: x.T}, LogProbs: x.LogProbs, Entropies: x.Entropy, Mask: x.Mask}
	switch {
	case t.onPolicy(r):
	case r.scored != nil:
		u.scored = take(r, r.scored, rows, x.T, u.scored)
		b.OldLogProbs = u.scored
	default:
		u.old = r.oldLogProbs(rows, x.T, u.old)
		b.OldLogProbs = u.old
	}
	if cfg.NeedsReference() {
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

// compare sums the entropies of a micro-batch of the first pass. Before the first update it finds the
// largest difference between the log-probabilities of sampler and learner, if these are the same
// policy at the same temperature.
func (t *trainer) compare(r *rollout, rows []int, x *model.TokenMatrix, s *updateStats) {
	same := s.updates == 0 && r.current && t.temperature() == t.cfg.Rollout.SamplingTemperature
	if same {
		t.updater.old = r.oldLogProbs(rows, x.T, t.updater.old)
	}
	for i, in := range x.Mask {
		if !in {
			continue
		}
		if same {
			if s.maxDiff == nil {
				s.maxDiff = new(float64)
			}
			*s.maxDiff = math.Max(*s.maxDiff, math.Abs(t.updater.old[i]-x.LogProbs[i]))
		}
		s.entropy += x.Entropy[i]
		s.entropyTokens++
	}
}

// addKept sums the entropies of the tokens of a mask, which the entropy bonus is over.
func (s *updateStats) addKept(r *rollout, rows []int, x *model.TokenMatrix, mask []bool) {
	if mask == nil {
		return
	}
	for i, in := range take(r, mask, rows, x.T, nil) {
		if in {
			s.kept += x.Entropy[i]
			s.keptTokens++
		}
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

// addUnclipped counts completions that the learner does not see in the clip fraction.
func (s *updateStats) addUnclipped(r *rollout, rows []int, loss rl.LossConfig) error {
	for _, i := range rows {
		one, err := loss.Unclipped(len(r.completions[i].Tokens))
		if err != nil {
			return err
		}
		s.policy.Add(one)
	}
	return nil
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

// bonusEntropy is the mean entropy of the tokens that the entropy bonus is over, given the mean of all.
func (s *updateStats) bonusEntropy(all float64) float64 {
	if s.keptTokens == 0 {
		return all
	}
	return s.kept / float64(s.keptTokens)
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

// scheduledRate returns the learning rate of an update, with the highest rate base:
//
//	update < warmup   base · update/warmup
//	constant          base
//	linear            base · (total - update)/(total - warmup)
//	cosine            base · (1 + cos(π (update - warmup)/(total - warmup)))/2
//
// Updates are counted from 0 over the run, which has total of them. The formulas
// are those of get_constant_schedule_with_warmup, get_linear_schedule_with_warmup
// and get_cosine_schedule_with_warmup (num_cycles 0.5) in transformers'
// optimization.py. So the first update of a warm-up has rate 0, update number
// warmup the rate base, and only an update after the last would have rate 0.
func scheduledRate(scheduler string, base, update, warmup, total float64) float64 {
	if update < warmup {
		return base * (update / warmup)
	}
	switch scheduler {
	case "linear":
		return base * max(0, (total-update)/(total-warmup))
	case "cosine":
		return base * (0.5 * (1 + elementary.Cos(math.Pi*min(1, (update-warmup)/(total-warmup)))))
	}
	return base
}

// rate returns the learning rate of an update of the run, counted from 0, under
// the configured schedule. It depends on nothing but the number of the update, so a
// continued run has the rates of an uninterrupted one.
func (t *trainer) rate(base, update float64) float64 {
	c := t.cfg.Train
	return scheduledRate(c.LRScheduler, base, update, float64(c.WarmupSteps), t.cfg.Updates())
}
