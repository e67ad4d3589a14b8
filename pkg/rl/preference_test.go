package rl

import (
	"slices"
	"strings"
	"testing"
)

func TestPreferenceCheck(t *testing.T) {
	good := PreferenceConfig{Losses: []PreferenceLoss{DPOSigmoid}, Beta: 0.1, LDAlpha: 1}
	for _, c := range []struct {
		want   string
		change func(*PreferenceConfig)
	}{
		{"", func(*PreferenceConfig) {}},
		{"no loss_type (known: sigmoid, ", func(c *PreferenceConfig) { c.Losses = nil }},
		{`unknown loss_type "aot_pair" (known: aot, `, func(c *PreferenceConfig) { c.Losses[0] = "aot_pair" }},
		{"2 loss_weights for 1 losses", func(c *PreferenceConfig) { c.Weights = []float64{1, 1} }},
		{"loss_weight of sigmoid is 0", func(c *PreferenceConfig) { c.Weights = []float64{0} }},
		{"beta is 0", func(c *PreferenceConfig) { c.Beta = 0 }},
		{"beta is NaN", func(c *PreferenceConfig) { c.Beta = nan }},
		{"label_smoothing is 0.5", func(c *PreferenceConfig) { c.LabelSmoothing = 0.5 }},
		{"label_smoothing is -0.1", func(c *PreferenceConfig) { c.LabelSmoothing = -0.1 }},
		{"ld_alpha is 1.5", func(c *PreferenceConfig) { c.LDAlpha = 1.5 }},
		{"discopop_tau is -1", func(c *PreferenceConfig) { c.DiscoPOPTau = -1 }},
		{`unknown f_divergence_type "kl"`, func(c *PreferenceConfig) { c.Divergence = "kl" }},
		{"f_alpha_divergence_coef is NaN", func(c *PreferenceConfig) { c.Divergence, c.AlphaCoef = AlphaDivergence, nan }},
		{"js_divergence is not defined for bco_pair", func(c *PreferenceConfig) {
			c.Losses, c.Divergence = []PreferenceLoss{DPOSigmoid, DPOBCO}, JSDivergence
		}},
		{"exo_pair needs label_smoothing above 0", func(c *PreferenceConfig) { c.Losses[0] = DPOExo }},
		{"use_weighting does not work with aot,", func(c *PreferenceConfig) { c.Losses[0], c.Weighting = DPOAOT, true }},
		{"use_weighting does not work with aot_unpaired", func(c *PreferenceConfig) { c.Losses[0], c.Weighting = DPOAOTUnpaired, true }},
		{"use_weighting does not work with sft", func(c *PreferenceConfig) { c.Losses[0], c.Weighting = DPOSFT, true }},
	} {
		cfg := good
		cfg.Losses = slices.Clone(good.Losses)
		c.change(&cfg)
		err := cfg.Check()
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}

func TestUnusedOptions(t *testing.T) {
	var got []string
	c := PreferenceConfig{Losses: []PreferenceLoss{DPOSFT}, Beta: 0.1, LabelSmoothing: 0.1, Divergence: ForwardKL, DiscoPOPTau: 1}
	for _, u := range c.Unused() {
		got = append(got, u.Name+": "+strings.Join(u.UsedBy, " "))
	}
	want := []string{
		"label_smoothing: exo_pair robust aot aot_unpaired",
		"f_divergence_type: sigmoid hinge ipo sigmoid_norm exo_pair robust discopop",
		"ld_alpha: sigmoid hinge ipo sigmoid_norm exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop",
		"discopop_tau: discopop",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	c = PreferenceConfig{Losses: []PreferenceLoss{DPORobust, DPODiscoPOP}, LabelSmoothing: 0.1, Divergence: ForwardKL, DiscoPOPTau: 1}
	if u := c.Unused(); len(u) > 0 {
		t.Errorf("used options: %v", u)
	}
}

func TestPreferenceErrors(t *testing.T) {
	good := func() PreferenceBatch {
		return PreferenceBatch{
			Shape: Shape{4, 1}, Mask: []bool{true, true, true, true}, LogProbs: make([]float64, 4), RefLogProbs: make([]float64, 4),
		}
	}
	for _, c := range []struct {
		want   string
		change func(*PreferenceBatch)
	}{
		{"3 rows are not pairs", func(b *PreferenceBatch) { b.Shape, b.Mask = Shape{3, 1}, b.Mask[:3] }},
		{"log-probs has 1 values", func(b *PreferenceBatch) { b.LogProbs = b.LogProbs[:1] }},
		{"reference log-probs has 0 values", func(b *PreferenceBatch) { b.RefLogProbs = nil }},
		{"log-sums of squares, which use_weighting needs, has 0 values", func(*PreferenceBatch) {}},
		{"mask has 2 values", func(b *PreferenceBatch) { b.Mask = b.Mask[:2] }},
		{"1 lengths for 4 rows", func(b *PreferenceBatch) { b.LogSumSq, b.Lengths = b.LogProbs, []int{1} }},
		{"the rejected completion of pair 1 has no tokens", func(b *PreferenceBatch) { b.LogSumSq, b.Mask[3] = b.LogProbs, false }},
		{"the chosen completion of pair 0 has no tokens", func(b *PreferenceBatch) { b.LogSumSq, b.Lengths = b.LogProbs, []int{0, 1, 1, 1} }},
		{"do not cover this batch", func(b *PreferenceBatch) { b.LogSumSq, b.Totals = b.LogProbs, PreferenceTotals{1, 2} }},
		{"do not cover this batch", func(b *PreferenceBatch) { b.LogSumSq, b.Totals = b.LogProbs, PreferenceTotals{2, 1} }},
	} {
		b := good()
		c.change(&b)
		_, err := Preference(PreferenceConfig{Losses: []PreferenceLoss{DPOSigmoid}, Beta: 1, LDAlpha: 1, Weighting: true}, b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}
