package train

import (
	"fmt"
	"math"

	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// updater turns a rollout into optimizer updates.
//
// A rollout is cut into train batches of whole sequences in their order, a
// train batch into micro-batches; the totals by which a loss divides are those
// of the train batch, so that micro-batches add up to exactly its gradient.
// Old log-probabilities are those of sampling, kept for all passes. With one
// pass over one train batch the policy has not moved since sampling: the
// update is on-policy, the ratio is 1, and nothing can be clipped.
type updater struct {
	cfg   rl.LossConfig
	batch rl.Batch
	res   rl.Result
	old   []float64
}

func (t *trainer) lossConfig() rl.LossConfig {
	a := t.cfg.Algorithm
	return rl.LossConfig{
		Loss: rl.LossType(a.LossType), Aggregation: rl.Aggregation(a.LengthNormalization),
		NormalizeConstant: a.NormalizeConstant, Epsilon: a.Cliprange,
	}
}

func (t *trainer) onPolicy() bool {
	return t.cfg.Train.EpochsPerRolloutBatch == 1 && t.cfg.Train.TrainBatchSize == t.cfg.Rollout.RolloutBatchSize
}

// update makes the updates of one step and fills its part of the line. It
// stops at the first loss or gradient that is not finite.
func (t *trainer) update(r *rollout, m *rundir.Metrics) error {
	c := t.cfg.Train
	u := &t.updater
	var stats rl.Stats
	var loss, norm, entropy, maxDiff float64
	updates := 0
	for epoch := range c.EpochsPerRolloutBatch {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			hi := lo + c.TrainBatchSize
			totals := rl.Totals{Sequences: c.TrainBatchSize, NonEmpty: c.TrainBatchSize}
			for _, x := range r.completions[lo:hi] {
				totals.Tokens += len(x.Tokens)
				totals.Kept += len(x.Tokens)
			}
			t.learner.ZeroGrads()
			micro := c.TrainBatchSize / c.GradientAccumulationSteps
			var batchLoss float64
			for at := lo; at < hi; at += micro {
				part, err := t.learner.Accumulate(r.batch(at, at+micro, t.cfg.Rollout.GroupSize), func(x *model.TokenMatrix) (float64, error) {
					diff, ent := u.compare(r, at, x)
					if epoch == 0 {
						entropy += ent
						if updates == 0 {
							maxDiff = math.Max(maxDiff, diff)
						}
					}
					if err := u.loss(r, at, x, totals, t.onPolicy()); err != nil {
						return 0, err
					}
					stats.Add(u.res.Stats)
					return u.res.Loss, nil
				})
				if err != nil {
					return fmt.Errorf("update: %w", err)
				}
				batchLoss += part
			}
			n := t.opt.Step(t.params, t.learner.Grads, c.LearningRate, c.MaxGradNorm)
			loss, norm = loss+batchLoss, norm+n
			updates++
			if notFinite(batchLoss) {
				return &divergence{fmt.Sprintf("loss is %v", batchLoss)}
			}
			if notFinite(n) {
				return &divergence{fmt.Sprintf("gradient norm is %v", n)}
			}
		}
	}
	if name, ok := t.params.Finite(); !ok {
		return &divergence{fmt.Sprintf("%s holds a number that is not finite", name)}
	}
	t.sampler.Refresh()
	m.Updates = t.opt.T
	m.Loss, m.GradNorm = loss/float64(updates), norm/float64(updates)
	m.Entropy = entropy / float64(r.tokens)
	m.ClipFraction = stats.ClipFraction()
	m.LearningRate = c.LearningRate
	m.SamplerDiff = maxDiff
	return nil
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// batch builds the graph's batch of completions lo to hi; a prompt stands in it
// once for all of its completions.
func (r *rollout) batch(lo, hi, group int) *model.Batch {
	b := &model.Batch{}
	for i := lo; i < hi; i++ {
		if i == lo || i%group == 0 {
			b.Prompts = append(b.Prompts, r.prompts[i/group])
		}
		b.Rows = append(b.Rows, model.Row{Prompt: len(b.Prompts) - 1, Tokens: r.completions[i].Tokens})
	}
	return b
}

// compare lays the sampler's log-probabilities out like the graph's and returns
// the largest difference and the sum of the entropies.
func (u *updater) compare(r *rollout, at int, x *model.TokenMatrix) (maxDiff, entropy float64) {
	if cap(u.old) < x.B*x.T {
		u.old = make([]float64, x.B*x.T)
	}
	u.old = u.old[:x.B*x.T]
	for i := range x.B {
		for k, lp := range r.completions[at+i].LogProbs {
			j := i*x.T + k
			u.old[j] = float64(lp)
			maxDiff = math.Max(maxDiff, math.Abs(u.old[j]-x.LogProbs[j]))
			entropy += x.Entropy[j]
		}
	}
	return maxDiff, entropy
}

func (u *updater) loss(r *rollout, at int, x *model.TokenMatrix, totals rl.Totals, onPolicy bool) error {
	u.batch = rl.Batch{
		Shape: rl.Shape{B: x.B, T: x.T}, LogProbs: x.LogProbs, Mask: x.Mask,
		Advantages: r.advantages[at : at+x.B], Totals: totals,
	}
	if !onPolicy {
		u.batch.OldLogProbs = u.old
	}
	if err := rl.LossInto(u.cfg, u.batch, &u.res); err != nil {
		return err
	}
	copy(x.DLogProbs, u.res.Grad)
	return nil
}
