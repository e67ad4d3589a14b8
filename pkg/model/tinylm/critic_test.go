package tinylm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

func TestNewCriticIsZeroAndSeparate(t *testing.T) {
	policy := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 1)
	before := policy.Hash()
	pool := tinylmtest.Pool(t, 2)
	c := tinylmtest.Critic(t, policy, pool)
	b := tinylmtest.Batch(t, policy, 5, 3, 12)
	m := tinylmtest.Values(t, c, b)
	for i, r := range b.Rows {
		for k := range m.T {
			if m.Values[i*m.T+k] != 0 || m.Mask[i*m.T+k] != (k < len(r.Tokens)) {
				t.Fatalf("row %d, token %d: value %v, mask %v", i, k, m.Values[i*m.T+k], m.Mask[i*m.T+k])
			}
		}
	}
	if m.DValues != nil {
		t.Error("gradients are allocated but never read")
	}
	if n := policy.Parameters() - policy.Vocab*(policy.Hidden+1); !slices.Equal(c.State().Params.Flat[:n], policy.Flat[:n]) || c.State().Params.Count() != n+16+1 {
		t.Errorf("the backbone is not the policy's, or %d parameters are wrong", c.State().Params.Count())
	}
	n := tinylmtest.Tokens(b)
	first := tinylmtest.Accumulate(t, c, b, tinylmtest.Regression(n, 0))
	c.Step(1e-2, 1)
	c.ZeroGrads()
	if got := tinylmtest.Accumulate(t, c, b, tinylmtest.Regression(n, 0)); got >= first {
		t.Errorf("the loss went from %v to %v", first, got)
	}
	if policy.Hash() != before {
		t.Error("the critic wrote to the policy")
	}
}

// Old values, and the values in the objective, are bit-identical; and they remain valid after
// updates.
func TestOldValuesOutliveUpdates(t *testing.T) {
	policy := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 1)
	pool := tinylmtest.Pool(t, 2)
	c := tinylmtest.WithHead(t, tinylmtest.Critic(t, policy, pool))
	b := tinylmtest.Batch(t, policy, 6, 3, 12)
	old := tinylmtest.Values(t, c, b)
	kept := slices.Clone(old.Values)
	for pass := range 3 {
		tinylmtest.Accumulate(t, c, b, func(m *model.ValueMatrix) (float64, error) {
			if same := slices.Equal(m.Values, old.Values); same != (pass == 0) {
				t.Errorf("pass %d: the values equal the old ones: %v", pass, same)
			}
			return tinylmtest.Regression(tinylmtest.Tokens(b), 0)(m)
		})
		c.Step(1e-2, 1)
		c.ZeroGrads()
	}
	if !slices.Equal(old.Values, kept) {
		t.Error("the old values changed")
	}
	if slices.Equal(tinylmtest.Values(t, c, b).Values, kept) {
		t.Error("Values does not see the new weights")
	}
}

// A critic learns a function of the state: the number of tokens so far.
func TestCriticLearns(t *testing.T) {
	policy := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 1)
	pool := tinylmtest.Pool(t, 2)
	c := tinylmtest.Critic(t, policy, pool)
	b := tinylmtest.Batch(t, policy, 8, 4, 10)
	n := float64(tinylmtest.Tokens(b))
	step := func() float64 {
		c.ZeroGrads()
		loss := tinylmtest.Accumulate(t, c, b, func(m *model.ValueMatrix) (float64, error) {
			var loss float64
			for i, in := range m.Mask {
				if in {
					d := m.Values[i] - float64(i%m.T)/10
					loss += d * d / n
					m.DValues[i] = 2 * d / n
				}
			}
			return loss, nil
		})
		c.Step(1e-2, 1)
		return loss
	}
	first, last := step(), 0.0
	for range 200 {
		last = step()
	}
	if last > first/50 {
		t.Errorf("after 200 updates the squared error is %v, at first it was %v", last, first)
	}
	if name, ok := c.State().Params.Finite(); !ok {
		t.Errorf("%s is not finite", name)
	}
}

func TestCriticRefuses(t *testing.T) {
	policy := tinylmtest.Weights(t, tinylm.Spec{20, 8, 1}, 1)
	c := tinylmtest.Critic(t, policy, nil)
	good := &model.Batch{Prompts: [][]int{{1}}, Rows: []model.Row{{Prompt: 0, Tokens: []int{1}}}}
	expect.Error(t, expect.Err(c.Values(&model.Batch{})), "0 prompts")
	reason := fmt.Errorf("the objective's own reason")
	if _, err := c.Accumulate(good, func(*model.ValueMatrix) (float64, error) { return 0, reason }); err == nil || !strings.Contains(err.Error(), reason.Error()) {
		t.Errorf("error %v, want the objective's", err)
	}
	if i := slices.IndexFunc(c.Gradients.Flat, func(v float32) bool { return v != 0 }); i >= 0 {
		t.Error("a failed pass left a gradient")
	}
	tinylmtest.Accumulate(t, c, good, tinylmtest.Regression(1, 0))
	other := tinylmtest.Critic(t, tinylmtest.Weights(t, tinylm.Spec{20, 9, 1}, 1), nil)
	expect.Error(t, c.Restore(other.State()), "shape")
	bare := other.State()
	bare.M, bare.V = nil, nil
	expect.Error(t, other.Restore(bare), "without moments")
}
