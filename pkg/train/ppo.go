package train

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// ppoAdvantages computes generalized advantage estimates: the last token of a
// completion gets its reward, each token its KL penalty where the reward has
// one, and the critic's values are the baseline (Schulman et al.,
// arXiv:1707.06347 and 1506.02438).
func (t *trainer) ppoAdvantages(r *rollout) error {
	a := t.cfg.Algorithm
	w := r.whole()
	m, err := t.critic.Values(r.batch(w.rows))
	if err != nil {
		return err
	}
	r.values = fromMatrix(r.completions, m.T, m.Values)
	rewards := r.onLastTokens(r.rewards)
	if a.KLIn == "reward" && a.Beta != 0 {
		t.chargeKL(r, rewards)
	}
	// Both are (N,T).
	adv, returns, err := rl.GAE(w.shape, w.matrix(rewards), w.matrix(r.values), w.mask, a.Gamma, a.GAELambda)
	if err != nil {
		return err
	}
	if _, normalizer := a.Advantages(); normalizer == "whiten_tokens" {
		if adv, err = rl.WhitenTokens(w.shape, adv, w.mask, whitenEps); err != nil {
			return err
		}
	}
	r.tokenAdvantages = fromMatrix(r.completions, w.shape.T, adv)
	r.returns = fromMatrix(r.completions, w.shape.T, returns)
	return nil
}

// updateCritic fits the critic to the returns of the rollout, in the train
// batches of the policy. It returns the mean loss of its updates, nil without
// any.
func (t *trainer) updateCritic(r *rollout) (*float64, error) {
	a, c := t.cfg.Algorithm, t.cfg.Train
	var sum float64 // of the losses
	updates := 0
	for range a.ValueEpochs {
		for lo := 0; lo < len(r.completions); lo += c.TrainBatchSize {
			totals := rl.Totals{}
			for i := lo; i < lo+c.TrainBatchSize; i++ {
				totals = totals.Add(r.rowTotals(i, true))
			}
			t.critic.ZeroGrads()
			var loss float64
			micro := c.TrainBatchSize / c.GradientAccumulationSteps
			for at := lo; at < lo+c.TrainBatchSize; at += micro {
				rows := span(at, at+micro)
				part, err := t.critic.Accumulate(r.batch(rows), func(x *model.ValueMatrix) (float64, error) {
					l, grad, _, err := rl.ValueLoss(rl.Shape{B: x.B, T: x.T}, x.Values, r.values.matrix(rows, x.T, nil), r.returns.matrix(rows, x.T, nil),
						x.Mask, a.ValueClip, rl.TokenMean, 0, totals)
					if err != nil {
						return 0, err
					}
					copy(x.DValues, grad)
					return l, nil
				})
				if err != nil {
					return nil, fmt.Errorf("update the critic: %w", err)
				}
				loss += part
			}
			norm, err := t.critic.Step(a.ValueLearningRate, c.MaxGradNorm)
			if err != nil {
				return nil, fmt.Errorf("update the critic: %w", err)
			}
			if notFinite(loss) || notFinite(norm) {
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
