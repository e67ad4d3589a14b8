package train

import (
	"fmt"
	"math"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// ppoAdvantages computes generalized advantage estimates. The last token of a completion gets its
// reward, each token its KL penalty if the reward has one, and the critic's values are the baseline
// (Schulman et al., arXiv:1707.06347 and 1506.02438).
func (t *trainer) ppoAdvantages(r *rollout) error {
	a := t.cfg.Algorithm
	m, err := t.critic.Values(r.batch(span(0, r.shape.B)))
	if err != nil {
		return err
	}
	r.values = m.Values // valid until the next step
	rewards := r.onLastTokens(r.rewards)
	for i := range rewards {
		if math.IsNaN(rewards[i]) {
			rewards[i] = 0
		}
	}
	if a.KLIn == "reward" && a.Beta != 0 {
		t.chargeKL(r, rewards)
	}
	r.tokenAdvantages, r.returns, err = rl.GAE(r.shape, rewards, r.values, r.mask, a.Gamma, a.GAELambda)
	if err != nil {
		return err
	}
	// A completion without a reward trains neither the policy nor the critic, whose values are its
	// targets.
	for i, v := range r.rewards {
		if lo, hi := i*r.shape.T, (i+1)*r.shape.T; math.IsNaN(v) {
			clear(r.tokenAdvantages[lo:hi])
			copy(r.returns[lo:hi], r.values[lo:hi])
		}
	}
	if _, normalizer := a.Advantages(); normalizer == config.WhitenTokens {
		return r.whitenTokens()
	}
	return nil
}

// updateCritic fits the critic to the returns of the rollout, in the policy's train batches. It
// returns the mean loss, or nil if there was no update.
func (t *trainer) updateCritic(r *rollout) (*float64, error) {
	a, c := t.cfg.Algorithm, t.cfg.Train
	// The critic follows the schedule of the policy: the updates of both spread over
	// the same positions of the schedule, however many the critic makes.
	first := float64(t.opt.T - t.cfg.UpdatesPerStep())
	spacing := float64(c.EpochsPerRolloutBatch) / float64(a.ValueEpochs)
	var sum float64 // of the losses
	updates := 0
	for range a.ValueEpochs {
		for lo := 0; lo < r.shape.B; lo += c.TrainBatchSize {
			hi := lo + c.TrainBatchSize
			totals := rl.Count(rl.Shape{B: hi - lo, T: r.shape.T}, r.mask[lo*r.shape.T:], nil)
			t.critic.ZeroGrads()
			var loss float64
			parts := t.microBatches(r, lo, hi, true)
			for i, part := range parts {
				t.opts.Progress.Count("update of the critic", "micro-batch", i, len(parts))
				share, err := t.critic.Accumulate(r.batch(part.rows), func(x *model.ValueMatrix) (float64, error) {
					old, returns := take(r, r.values, part.rows, x.T, nil), take(r, r.returns, part.rows, x.T, nil)
					l, grad, _, err := rl.ValueLoss(rl.Shape{B: x.B, T: x.T}, x.Values, old, returns, x.Mask,
						a.ValueClip, rl.TokenMean, 0, totals)
					copy(x.DValues, grad)
					return l, err
				})
				if err != nil {
					return nil, fmt.Errorf("update the critic: %w", err)
				}
				loss += share
			}
			norm, err := t.critic.Step(t.rate(a.ValueLearningRate, first+float64(float64(updates)*spacing)), c.MaxGradNorm)
			if err != nil {
				return nil, fmt.Errorf("update the critic: %w", err)
			}
			if !model.IsFinite(loss) || !model.IsFinite(norm) {
				return nil, &divergence{fmt.Sprintf("value loss is %v, its gradient norm %v", loss, norm)}
			}
			sum += loss
			updates++
		}
	}
	if updates == 0 {
		return nil, nil
	}
	mean := sum / float64(updates)
	return &mean, nil
}
