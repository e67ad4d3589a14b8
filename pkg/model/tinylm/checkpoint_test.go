package tinylm_test

import (
	"bytes"
	"maps"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
)

// actorCritic is a small PPO run: a policy, a reference that follows it, a critic and two
// optimizers.
type actorCritic struct {
	policy, ref *tinylm.Weights
	opt         *model.AdamW
	learner     *tinylm.Learner
	scorer      *tinylm.Scorer
	critic      *tinylm.Critic
}

func newActorCritic(t testing.TB, pool *kernel.Pool, policy, ref *tinylm.Weights) *actorCritic {
	a := &actorCritic{policy: policy, ref: ref, critic: tinylmtest.Critic(t, policy, pool)}
	a.opt = model.NewAdamW(policy.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.01})
	var err error
	a.learner, err = tinylm.NewLearner(policy, 1, pool)
	expect.OK(t, err)
	a.scorer, err = tinylm.NewScorer(ref, 1, pool)
	expect.OK(t, err)
	t.Cleanup(func() { _, _ = a.learner.Close(), a.scorer.Close() })
	return a
}

// step makes an update that uses all parts.
func (a *actorCritic) step(t testing.TB, b *model.Batch) {
	t.Helper()
	n := float64(tinylmtest.Tokens(b))
	ref, err := a.scorer.Score(b)
	expect.OK(t, err)
	old := tinylmtest.Values(t, a.critic, b)
	a.learner.ZeroGrads()
	if _, err := a.learner.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
		for i, in := range m.Mask {
			if in {
				m.DLogProbs[i] = (old.Values[i] - 0.5 + 0.1*(m.LogProbs[i]-ref.LogProbs[i])) / n
			}
		}
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	a.opt.Step(a.policy.Params, a.learner.Grads(), 1e-2, 1)
	a.critic.ZeroGrads()
	tinylmtest.Accumulate(t, a.critic, b, tinylmtest.Regression(int(n), 0))
	a.critic.Step(2e-2, 1)
	expect.OK(t, model.MixInto(a.ref.Params, a.policy.Params, 0.6))
}

func (a *actorCritic) checkpoint(metadata map[string]string) *model.Checkpoint {
	return &model.Checkpoint{Params: a.policy.Params, M: a.opt.M, V: a.opt.V, Reference: a.ref.Params, Critic: a.critic.State(), Metadata: metadata}
}

// weightsOf are the network's views of p.
func weightsOf(t testing.TB, p *model.Params) *tinylm.Weights {
	t.Helper()
	w, err := tinylm.WeightsOf(p)
	expect.OK(t, err)
	return w
}

func encode(t testing.TB, c *model.Checkpoint) []byte {
	t.Helper()
	data, err := c.Encode()
	expect.OK(t, err)
	return data
}

func decode(data []byte) (*model.Checkpoint, error) {
	c, err := model.ReadCheckpoint("x", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	_, err = tinylm.WeightsOf(c.Params)
	return c, err
}

// A run that continues from a checkpoint in another process has the bits of one
// that was not interrupted.
func TestRunWithCriticAndReferenceContinuesExactly(t *testing.T) {
	pool := tinylmtest.Pool(t, 2)
	policy := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 1)
	b := tinylmtest.Batch(t, policy, 6, 3, 12)
	whole := newActorCritic(t, pool, policy, policy.Clone())
	for range 3 {
		whole.step(t, b)
	}
	metadata := map[string]string{"state": "3"}
	data := encode(t, whole.checkpoint(metadata))
	for range 3 {
		whole.step(t, b)
	}

	c, err := decode(data)
	expect.OK(t, err)
	if len(metadata) != 1 || !maps.Equal(c.Metadata, metadata) {
		t.Errorf("metadata %v, want %v", c.Metadata, metadata)
	}
	if !bytes.Equal(encode(t, c), data) {
		t.Error("what was read is written with other bytes")
	}
	rest := newActorCritic(t, pool, weightsOf(t, c.Params), weightsOf(t, c.Reference))
	rest.opt.M, rest.opt.V, rest.opt.T = c.M, c.V, 3
	expect.OK(t, rest.critic.Restore(c.Critic))
	if n := rest.critic.State().Updates; n != 3 {
		t.Errorf("the critic continues after update %d, want 3", n)
	}
	for range 3 {
		rest.step(t, b)
	}
	if !bytes.Equal(encode(t, rest.checkpoint(nil)), encode(t, whole.checkpoint(nil))) {
		t.Error("after the cut the run has other bits")
	}
}

// smallCheckpoint has every part that a file can have, for a model of one layer.
func smallCheckpoint(t testing.TB) *model.Checkpoint {
	p := tinylmtest.Weights(t, tinylm.Spec{Vocab: 6, Hidden: 2, Layers: 1}, 1)
	return newActorCritic(t, nil, p, p.Clone()).checkpoint(map[string]string{"k": "v"})
}
