package rl

import (
	"strings"
	"testing"
)

func TestPresetErrors(t *testing.T) {
	if _, err := TRLLoss(TRLOptions{LossType: "ppo"}); err == nil || !strings.Contains(err.Error(), `unknown loss_type "ppo"`) {
		t.Errorf("got error %v", err)
	}
	if _, err := TRLLoss(TRLOptions{LossType: "luspo", Epsilon: 0.2}); err == nil || !strings.Contains(err.Error(), "luspo needs") {
		t.Errorf("got error %v", err)
	}
	if _, err := TRLLoss(TRLOptions{LossType: "dr_grpo", Epsilon: 0.2}); err == nil || !strings.Contains(err.Error(), "normalize constant") {
		t.Errorf("got error %v", err)
	}
	if _, err := VerlLoss(VerlOptions{LossMode: "kl_cov"}); err == nil || !strings.Contains(err.Error(), `unknown loss_mode "kl_cov"`) {
		t.Errorf("got error %v", err)
	}
	for _, mode := range VerlLossModes() {
		if _, err := VerlLoss(VerlOptions{LossMode: mode, LossAggMode: "token-mean", ClipRatio: 0.2}); err != nil {
			t.Error(err)
		}
	}
}

func TestBatchErrors(t *testing.T) {
	ok := Batch{Shape: Shape{1, 1}, LogProbs: []float64{-1}, Mask: all(1), Advantages: []float64{1}}
	c := LossConfig{Loss: NoBaseline, Aggregation: MaskedMeanSeq}
	if _, err := Loss(LossConfig{Loss: NoBaseline, Aggregation: MaskedNormalizeSeq}, ok); err == nil {
		t.Error("constant 0: want an error")
	}
	short := ok
	short.Shape, short.LogProbs = Shape{1, 2}, []float64{-1, -1}
	if _, err := Loss(c, short); err == nil {
		t.Error("a mask that doesn't fit: want an error")
	}
	bad := ok
	bad.Advantages = nil
	if err := TokenLosses(c, bad, make([]float64, 1)); err == nil {
		t.Error("advantages that don't fit: want an error")
	}
	if err := TokenLosses(c, ok, make([]float64, 2)); err == nil {
		t.Error("an output that doesn't fit: want an error")
	}
}

func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		c := LossConfig{Loss: r.Loss, Aggregation: r.Aggregation, NormalizeConstant: 1, Epsilon: 0.2, EpsilonHigh: 5, Level: r.Level, DualClip: r.DualClip}
		if err := c.Check(); err != nil {
			t.Errorf("%s of %s: %v", r.sourceName(), r.Source, err)
		}
	}
	for _, name := range LossTypes() {
		if r := RecipeNamed(name); r.Loss != LossType(name) {
			t.Errorf("the loss %s has no recipe of its name, so that no configuration can choose it", name)
		}
	}
	if r := RecipeNamed(""); r != (Recipe{}) {
		t.Errorf("a recipe without a name: %+v", r)
	}
}
