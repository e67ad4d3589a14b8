package explain

import (
	"math"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

func TestDPOOfTheDefaultPairs(t *testing.T) {
	r, err := DPO(DefaultDPO())
	expect.OK(t, err)
	nls := func(x float64) float64 { return math.Log1p(math.Exp(-x)) }
	same(t, "log-ratios", []float64{r.Pairs[0].Chosen.LogRatio, r.Pairs[0].Rejected.LogRatio, r.Pairs[1].Chosen.LogRatio, r.Pairs[1].Rejected.LogRatio},
		[]float64{-0.4, -2, 0.3, 0.9})
	same(t, "margins and losses", []float64{r.Pairs[0].Margin, r.Pairs[1].Margin, *r.Pairs[0].Loss, *r.Pairs[1].Loss, r.Loss},
		[]float64{0.16, -0.06, nls(0.16), nls(-0.06), (nls(0.16) + nls(-0.06)) / 2})
	m := r.Metrics
	same(t, "metrics", []float64{m.RewardsChosen, m.RewardsRejected, m.Margins, m.Accuracies, m.LogPsChosen, m.LogPsRejected},
		[]float64{-0.005, -0.055, 0.05, 0.5, -2.05, -3.5})
	slope := 0.1 / 2 / (1 + math.Exp(-0.06))
	same(t, "gradients of pair 1", append(r.Pairs[1].Chosen.Gradient, r.Pairs[1].Rejected.Gradient...),
		[]float64{-slope, -slope, slope, slope, slope, slope})
	if len(r.Compared) != len(rl.PreferenceLosses()) {
		t.Errorf("%d losses to compare", len(r.Compared))
	}
	textHas(t, textOf(t, r), "0 rejected 2 -4.3000 -2.3000 -2.0000 -0.2000", "0 0.1600 54.0% yes 0.6163", "1 -0.0600 48.5% no 0.7236",
		"exo_pair (label_smoothing 0.001)", "Pair 0 is right although", "margin -0.0600 weighs 0.0257", "21.97 nats")
}

func TestDPOForms(t *testing.T) {
	text := func(change func(*DPOOptions)) (DPOResult, string) {
		o := DefaultDPO()
		change(&o)
		r, err := DPO(o)
		expect.OK(t, err)
		var b strings.Builder
		expect.OK(t, r.WriteText(&b))
		return r, b.String()
	}
	r, got := text(func(o *DPOOptions) { o.Chosen, o.Rejected = o.RefChosen, o.RefRejected })
	textHas(t, got, "Policy and reference are equal", "rewards/accuracies 0.0000")
	same(t, "loss", []float64{r.Loss}, []float64{math.Ln2})
	r, got = text(func(o *DPOOptions) {
		o.Config.Losses = []rl.PreferenceLoss{rl.DPOSigmoid, rl.DPOSFT}
		o.Config.LDAlpha = 0.5
	})
	textHas(t, got, "loss_type sigmoid, sft,", "ld_alpha 0.5", "no n/a")
	if r.Pairs[0].Loss != nil {
		t.Error("a loss for each pair of two losses")
	}
	r, got = text(func(o *DPOOptions) { o.Config.Losses[0], o.Config.LabelSmoothing = rl.DPOAOT, 0.1 })
	textHas(t, got, "label_smoothing 0.1")
	if r.Pairs[0].Loss != nil {
		t.Error("aot has no loss of a pair")
	}
	r, _ = text(func(o *DPOOptions) { o.Config.Divergence = rl.JSDivergence })
	if len(r.Compared) != 8 {
		t.Errorf("%d losses with js_divergence, want 8", len(r.Compared))
	}
}

func TestDPORefuses(t *testing.T) {
	for _, tt := range []struct {
		set  func(*DPOOptions)
		want string
	}{
		{func(o *DPOOptions) { o.Chosen = nil }, "0 rows of log-probabilities of chosen and 2 of rejected"},
		{func(o *DPOOptions) { o.RefRejected = o.RefRejected[:1] }, "2 and 1 under the reference"},
		{func(o *DPOOptions) { o.Rejected[1] = o.Rejected[1][:3] }, "the rejected completion of pair 1 has 3 log-probabilities under the policy and 4 under the reference"},
		{func(o *DPOOptions) { o.Chosen[0][1] = 0.5 }, "log-probability 0.5 in the chosen completion of pair 0; it must be finite and at most 0"},
		{func(o *DPOOptions) { o.RefChosen[0][1] = math.NaN() }, "log-probability NaN in the chosen completion of pair 0"},
		{func(o *DPOOptions) { o.Chosen[0], o.RefChosen[0] = nil, nil }, "length 0 of completion 0"},
		{func(o *DPOOptions) { o.Config.Losses[0] = "dpo" }, `unknown loss_type "dpo"`},
		{func(o *DPOOptions) { o.Config.Losses = nil }, "no loss_type"},
		{func(o *DPOOptions) { o.Config.LabelSmoothing = 0.1 }, "label_smoothing has no effect on sigmoid (it is for exo_pair, robust, aot, aot_unpaired)"},
	} {
		o := DefaultDPO()
		tt.set(&o)
		_, err := DPO(o)
		wantError(t, err, tt.want)
	}
}

func TestDPOFigure(t *testing.T) {
	r, err := DPO(DefaultDPO())
	expect.OK(t, err)
	f, err := r.Figure()
	draw(t, f, err)
	value, slope := f.Panels[0], f.Panels[1]
	same(t, "points", []float64{value.Points[0].X, value.Points[0].Y, slope.Points[0].Y}, []float64{1.6, *r.Pairs[0].Loss, -0.1 * (1 - r.Pairs[0].Prob)})
	if len(value.Curves) != 4 || value.Curves[0].Name != "sigmoid" {
		t.Errorf("curves %d, first %s", len(value.Curves), value.Curves[0].Name)
	}
}

func TestRewardModel(t *testing.T) {
	o := DefaultRewardModel()
	o.Margins = []float64{0, 0.5, 0}
	r, err := RewardModel(o)
	expect.OK(t, err)
	nls := func(x float64) float64 { return math.Log1p(math.Exp(-x)) }
	same(t, "preference losses", []float64{r.Pairs[0].Preference, r.Pairs[1].Preference, r.Pairs[2].Preference}, []float64{nls(3), nls(-0.4), nls(-1.2)})
	same(t, "centering", []float64{r.Pairs[0].Centering, r.Pairs[1].Centering, r.Pairs[2].Centering}, []float64{0.04, 0.0049, 0.0036})
	same(t, "loss, accuracy, margin, mean", []float64{r.Loss, r.Accuracy, r.Margin, r.Mean},
		[]float64{(nls(3) + nls(-0.4) + nls(-1.2) + 0.0485) / 3, 2. / 3, 1.9 / 3, 0.55})
	textHas(t, textOf(t, r), "difference -1.2000 weighs most, 76.9%", "Pair 1 asks for a margin of 0.5", "the centering pulls")
	o.Centering, o.Margins = 0, nil
	r, err = RewardModel(o)
	expect.OK(t, err)
	textHas(t, textOf(t, r), "so they have no zero")

	_, err = RewardModel(RewardModelOptions{})
	wantError(t, err, "explain reward-model: reward model loss: no pairs")
	_, err = RewardModel(RewardModelOptions{Chosen: []float64{1}, Rejected: []float64{math.Inf(1)}})
	wantError(t, err, "a score is +Inf; it must be a finite number")
	_, err = RewardModel(RewardModelOptions{Chosen: []float64{1}, Rejected: []float64{1}, Margins: []float64{math.NaN()}})
	wantError(t, err, "a margin is NaN")
}
