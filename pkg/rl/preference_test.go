package rl

import (
	"slices"
	"strings"
	"testing"
)

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
