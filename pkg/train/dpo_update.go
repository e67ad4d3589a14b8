package train

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// updatePairs makes the optimizer updates of a step of dpo. A train batch of pairs is that of
// train.train_batch_size completions of the rollout; one without a pair makes no update.
//
// A train batch is cut into micro-batches of whole pairs. The loss divides by the totals of the train
// batch, so the gradients of its micro-batches sum to exactly its gradient.
func (t *trainer) updatePairs(r *rollout, pairs pairRows, step int) (*updateStats, error) {
	c := t.cfg.Train
	s := &updateStats{step: step}
	place := float64(step-1) * float64(t.cfg.UpdatesPerStep()) // in the schedule of the learning rate
	for epoch := range c.EpochsPerRolloutBatch {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			s.rate = t.rate(c.LearningRate, place)
			place++
			var batch pairRows
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] >= lo && pairs[i] < lo+c.TrainBatchSize {
					batch = append(batch, pairs[i], pairs[i+1])
				}
			}
			if len(batch) == 0 {
				continue
			}
			if err := t.updateOnPairs(r, batch, epoch == 0, s); err != nil {
				return nil, err
			}
		}
	}
	return s, t.endUpdates(s)
}

// updateOnPairs makes one optimizer update.
func (t *trainer) updateOnPairs(r *rollout, batch pairRows, firstPass bool, s *updateStats) error {
	cfg := t.cfg.Algorithm.DPO.Preference()
	parts := t.pairParts(r, batch)
	totals := rl.PreferenceTotals{Pairs: batch.pairs()}
	for i := 0; i < len(batch); i += 2 {
		totals.ChosenTokens += len(r.completions[batch[i]].Tokens)
	}
	var loss float64
	add := func(res rl.PreferenceResult) {
		loss += res.Loss
		s.pairs.add(res)
	}
	half, err := t.scoreHalf(r, batch)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	// A loss of a pair that depends on all pairs of the update needs their log-probabilities first:
	// those of a scorer are the learner's.
	var whole *rl.PreferenceResult
	wholeT, done := 0, 0 // width of its rows; rows of earlier parts
	if cfg.NeedsBatch() && len(parts) > 1 {
		x, err := t.scoreRows(t.scorers.policy, r, batch)
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		res, err := rl.Preference(cfg, t.pairBatch(r, batch, x, half, 0))
		if err != nil {
			return err
		}
		add(res)
		whole, wholeT = &res, x.T
	}
	objective := func(rows pairRows) model.Objective {
		return func(x *model.TokenMatrix) (float64, error) {
			if firstPass {
				if err := t.checkMask(r, rows, x); err != nil {
					return 0, err
				}
				same := r.current && t.cfg.Rollout.SamplingTemperature == pairTemperature
				if same {
					t.updater.old = r.oldLogProbs(rows, x.T, t.updater.old)
				}
				s.compare(x, t.updater.old, same)
			}
			if whole != nil {
				for k := range rows {
					copy(x.DLogProbs[k*x.T:(k+1)*x.T], whole.Grad[(done+k)*wholeT:][:x.T])
				}
				return 0, nil
			}
			b := t.pairBatch(r, rows, x, half, done)
			b.Totals = totals
			res, err := rl.Preference(cfg, b)
			if err != nil {
				return 0, err
			}
			copy(x.DLogProbs, res.Grad)
			add(res)
			return res.Loss, nil
		}
	}
	t.learner.ZeroGrads()
	for i, rows := range parts {
		t.opts.Progress.Count("update", "micro-batch", i, len(parts))
		if _, err := t.learner.Accumulate(r.batch(rows), objective(rows)); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		done += len(rows)
	}
	return t.applyUpdate(loss, s)
}

// scoreHalf returns the log-probabilities of pairs under the policy at half the temperature, which
// give the sums of squared probabilities that algorithm.dpo.use_weighting needs; nil without it.
func (t *trainer) scoreHalf(r *rollout, rows pairRows) (*model.TokenMatrix, error) {
	if t.scorers.half == nil {
		return nil, nil
	}
	return t.scoreRows(t.scorers.half, r, rows)
}

// pairBatch lays out rows of pairs, whose log-probabilities under the policy are x, for the loss. If
// half is not nil, they are its rows from first on.
//
// With the logits l of a token's distribution p and the token's own l_t,
//
//	log sum p^2 = lse(2 l) - 2 lse(l) = 2 (l_t - lse(l)) - (2 l_t - lse(2 l))
//
// twice its log-probability minus that at half the temperature.
func (t *trainer) pairBatch(r *rollout, rows pairRows, x, half *model.TokenMatrix, first int) rl.PreferenceBatch {
	t.updater.ref = take(r, r.reference, rows, x.T, t.updater.ref)
	b := rl.PreferenceBatch{
		Shape: rl.Shape{B: x.B, T: x.T}, LogProbs: x.LogProbs, RefLogProbs: t.updater.ref, Mask: x.Mask,
	}
	if half == nil {
		return b
	}
	b.LogSumSq = make([]float64, len(x.LogProbs))
	for i := range b.LogSumSq {
		row, at := i/x.T, i%x.T
		b.LogSumSq[i] = 2*x.LogProbs[i] - half.LogProbs[(first+row)*half.T+at]
	}
	return b
}

// pairParts cuts pairs into micro-batches of nearly equal numbers of pairs
// (train.gradient_accumulation_steps), and these into parts that [trainer.parts] bounds.
func (t *trainer) pairParts(r *rollout, rows pairRows) (out []pairRows) {
	n := rows.pairs()
	k := min(t.cfg.Train.GradientAccumulationSteps, n)
	for i := range k {
		for _, part := range t.parts(r, rows[2*(i*n/k):2*((i+1)*n/k)], 2) {
			out = append(out, part)
		}
	}
	return out
}
