package train

import (
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/formula"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
)

// TestFormulasTrainAlike: formulas of the built-in losses and advantages train to the same weights, up to the rounding of
// gradients: with a reference model that the loss names, and with an entropy bonus in the formula.
func TestFormulasTrainAlike(t *testing.T) {
	long(t)
	base := []string{"n_grpo_steps=2", "rollout_batch_size=32", "data.val_size=8", "data.test_size=0", "data.unseen_size=0",
		"sampling_max_tokens=30", "group_size=4", "lr=0.003"}
	problems := map[string]*dataset.Splits{}
	weights := func(set ...string) []float32 {
		r, err := config.Load(config.LoadOptions{Set: append(slices.Clone(base), set...)})
		expect.OK(t, err)
		return weightsOf(t, r.Config, problems)
	}
	for _, c := range []struct{ builtin, formula string }{
		{"loss_type=grpo_clip train_batch_size=16", "loss_expr=-min(ratio*A,clip(ratio,1-eps,1+eps)*A) train_batch_size=16 advantage_expr=(r-mean)/(std+1e-6)"},
		{"loss_type=gspo train_batch_size=16 baseline=leave_one_out normalizer=none",
			"loss_type=gspo train_batch_size=16 loss_expr=-min(ratio*A,clip(ratio,1-eps,1+eps)*A) advantage_expr=n/(n-1)*(r-mean)"},
		{"loss_type=bnpo beta=0.1 entropy_coef=0.1 baseline=length_weighted normalizer=none",
			"loss_type=bnpo loss_expr=-ratio*A+0.1*(exp(ref-logp)-(ref-logp)-1)-0.1*entropy advantage_expr=r-sum(length*r)/sum(length)"},
	} {
		if d := distance(weights(strings.Fields(c.builtin)...), weights(strings.Fields(c.formula)...)); d > rounding {
			t.Errorf("%s and %s end %g apart", c.builtin, c.formula, d)
		}
	}
	if d := distance(weights("loss_expr=-ratio*A"), weights("loss_expr=-ratio*A", "advantage_expr=right?1-length/max(length):-1")); d < rounding {
		t.Errorf("another advantage ends only %g apart", d)
	}
}

// TestFormulaAdvantages: an advantage that is not finite names the group, the formula and the rewards.
func TestFormulaAdvantages(t *testing.T) {
	r := &rollout{groupSize: 2, verdicts: make([]gsm8k.Verdict, 4), completions: make([]model.Completion, 4)}
	f, err := formula.ParseAdvantage("(r - mean) / std")
	expect.OK(t, err)
	_, err = formulaAdvantages(f, r, []float64{1, 0, 1, 1})
	for _, want := range []string{"group 2: algorithm.advantage_expr: (r - mean) / std is NaN for completion 1", "[1 1]", "std + 1e-6"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// The verdicts of a verifier that errs are all that training sees.
	f, err = formula.ParseAdvantage("right ? 1 : -1")
	expect.OK(t, err)
	r.verdicts[0].Right, r.noise.Noisy = true, []float64{0, 1, 0, 0}
	if got, err := formulaAdvantages(f, r, []float64{0, 1, 0, 0}); err != nil || !slices.Equal(got, []float64{-1, 1, -1, -1}) {
		t.Errorf("%v, %v", got, err)
	}
}
