package config

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

// TestFormulaKeys: what a formula takes the place of and what it leaves.
func TestFormulaKeys(t *testing.T) {
	a := loadSet(t, "loss_type=vanilla loss_expr=-min(ratio*A,clip(ratio,1-eps,1+eps_high)*A)").Config.Algorithm
	c := a.Loss()
	if c.Loss != "" || c.Formula == nil || !c.Formula.Vanishes() || c.Aggregation != rl.TokenMean || a.DualClip != 0 {
		t.Errorf("%+v", c)
	}
	if v, _, d, _ := c.Formula.At(1.5, 0, 0, 0, 1, 0); v != -1.2 || d != 0 { // eps_high is cliprange
		t.Error(v, d)
	}
	if a.NeedsReference() || !a.SkippingIsExact() {
		t.Error("this loss needs no reference, and is 0 without an advantage")
	}
	a = loadSet(t, "loss_expr=-ratio*A+0.1*(logp-ref)**2 ref_model_sync_steps=3").Config.Algorithm
	if !a.NeedsReference() || a.SkippingIsExact() || a.Beta != 0 {
		t.Error("this loss needs a reference, and is not 0 without an advantage")
	}
	expect.OK(t, a.CheckGradient())
	for _, set := range []string{"group_size=1 advantage_expr=r", "cliprange=0.3 loss_expr=-ratio*A*eps", "epsilon_high=0.3 loss_expr=-A*logp*eps_high",
		"loss_type=cispo loss_expr=-A*logp", "algorithm.type=ppo loss_expr=-ratio*A", "loss_type=gspo loss_expr=-A*logp"} {
		if found := inertOf(t, set); len(found) > 0 {
			t.Errorf("%s: %v", set, found)
		}
	}
	for set, key := range map[string]string{
		"advantage_expr=r use_std_normalization=false": "use_std_normalization", "advantage_expr=r advantage_eps=0.1": "advantage_eps",
		"cliprange=0.3 loss_expr=-ratio*A": "cliprange",
	} {
		if found := inertOf(t, set); len(found) != 1 || !strings.HasSuffix(found[0].Key, key) {
			t.Errorf("%s: %v", set, found)
		}
	}
}

// TestFormulasAreExperiments: formulas tell experiments apart, and loss types whose loss they replace do not.
func TestFormulasAreExperiments(t *testing.T) {
	of := func(set string) string { return Hash(Experiment(loadSet(t, set).Config)) }
	plain := of("loss_expr=-ratio*A")
	for _, set := range []string{"", "loss_expr=-ratio*A*2", "loss_expr=-ratio*A advantage_expr=r", "loss_expr=-ratio*A loss_type=bnpo"} {
		if of(set) == plain {
			t.Errorf("%s is taken for the same experiment", set)
		}
	}
	for _, set := range []string{"loss_expr=-ratio*A loss_type=grpo_clip", "loss_expr=-ratio*A loss_type=grpo", "loss_expr=-ratio*A loss_type=sapo cliprange=0.3"} {
		if of(set) != plain {
			t.Errorf("%s is taken for another experiment", set)
		}
	}
}
