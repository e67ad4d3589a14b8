package explain

import (
	"fmt"
	"io"
	"math"
	"slices"

	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

// ClipOptions are the inputs of [Clip].
type ClipOptions struct {
	OldLogProb, LogProb float64 // of one token, at sampling time and now
	Epsilon             float64
	EpsilonHigh         []float64 // the upper bounds to compare
	Advantage           float64   // absolute value; both signs are computed
	DualClip            float64   // verl's clip_ratio_c; 0 = none
}

// DefaultClip is a token whose probability rose from 2% to 10%: the ratio for the
// log-probabilities -3.9 and -2.3 is 4.95.
func DefaultClip() ClipOptions {
	return ClipOptions{
		OldLogProb: -3.9, LogProb: -2.3, Epsilon: 0.2, EpsilonHigh: []float64{0.2, 0.28}, Advantage: 1, DualClip: 3,
	}
}

// ClipResult is the result of [Clip].
type ClipResult struct {
	OldLogProb float64    `json:"old_logp"`
	LogProb    float64    `json:"logp"`
	OldProb    float64    `json:"old_probability"`
	Prob       float64    `json:"probability"`
	Ratio      float64    `json:"ratio"`
	Epsilon    float64    `json:"epsilon"`
	DualClip   float64    `json:"dual_clip,omitempty"`
	Cases      []ClipCase `json:"cases"`

	options ClipOptions
}

// ClipCase is the objective of the token for one sign and one upper bound.
type ClipCase struct {
	Advantage    float64 `json:"advantage"`
	EpsilonHigh  float64 `json:"epsilon_high"`
	DualClip     bool    `json:"dual_clip"`
	Lower        float64 `json:"lower"`         // 1 - epsilon
	Upper        float64 `json:"upper"`         // 1 + epsilon_high
	ClippedRatio float64 `json:"clipped_ratio"` // the ratio clipped to Lower..Upper
	// HighestProb is the probability above which a positive advantage has no
	// gradient: Upper times the old probability.
	HighestProb float64 `json:"highest_probability"`
	Objective   float64 `json:"objective"` // min(r A, clip(r) A)
	Gradient    float64 `json:"gradient"`  // d objective / d logp
	Clipped     string  `json:"clipped"`   // "no", "low", "high" or "dual"
}

// Clip computes PPO's clipped objective of one token,
//
//	J = min(r A, clip(r, 1-epsilon, 1+epsilon_high) A),   r = exp(logp - old)
//
// and its gradient, for both signs of the advantage and each upper bound.
func Clip(o ClipOptions) (out ClipResult, err error) {
	defer named("clip", &err)
	switch {
	case len(o.EpsilonHigh) == 0 || len(o.EpsilonHigh) > 4:
		return out, fmt.Errorf("%d values of epsilon_high; compare 1 to 4 upper bounds", len(o.EpsilonHigh))
	case !(o.Advantage > 0) || math.IsInf(o.Advantage, 1):
		return out, fmt.Errorf("advantage %v; it must be finite and above 0 (both signs are shown)", o.Advantage)
	case !(o.OldLogProb <= 0) || math.IsInf(o.OldLogProb, -1):
		return out, fmt.Errorf("old log-probability %v; it must be finite and at most 0", o.OldLogProb)
	case !(o.LogProb <= 0) || math.IsInf(o.LogProb, -1):
		return out, fmt.Errorf("log-probability %v; it must be finite and at most 0", o.LogProb)
	}
	out = ClipResult{
		OldLogProb: o.OldLogProb, LogProb: o.LogProb, OldProb: math.Exp(o.OldLogProb), Prob: math.Exp(o.LogProb),
		Ratio: math.Exp(o.LogProb - o.OldLogProb), Epsilon: o.Epsilon, DualClip: o.DualClip, options: o,
	}
	if math.IsInf(out.Ratio, 1) {
		return out, fmt.Errorf("the ratio exp(%v - %v) is too large for a number", o.LogProb, o.OldLogProb)
	}
	add := func(adv, high, dual float64) {
		if err == nil {
			var c ClipCase
			c, err = o.at(adv, high, dual, out.Ratio)
			out.Cases = append(out.Cases, c)
		}
	}
	for _, adv := range []float64{o.Advantage, -o.Advantage} {
		for _, high := range o.EpsilonHigh {
			add(adv, high, 0)
		}
	}
	if o.DualClip != 0 {
		add(-o.Advantage, o.EpsilonHigh[0], o.DualClip)
	}
	return out, err
}

// at computes the objective at a ratio.
func (o ClipOptions) at(adv, high, dual, ratio float64) (ClipCase, error) {
	if !(high > 0) {
		return ClipCase{}, fmt.Errorf("epsilon_high %v; it must be above 0", high)
	}
	r, err := rl.Loss(rl.LossConfig{
		Loss: rl.GRPOClip, Aggregation: rl.TokenSum, Epsilon: o.Epsilon, EpsilonHigh: high, DualClip: dual,
	}, rl.Batch{
		Shape: rl.Shape{B: 1, T: 1}, LogProbs: []float64{math.Log(ratio)}, OldLogProbs: []float64{0},
		Advantages: []float64{adv}, Mask: []bool{true},
	})
	if err != nil {
		return ClipCase{}, err
	}
	c := ClipCase{
		Advantage: adv, EpsilonHigh: high, DualClip: dual != 0, Lower: 1 - o.Epsilon, Upper: 1 + high,
		Objective: -r.Loss, Gradient: -r.Grad[0], Clipped: "no",
	}
	c.ClippedRatio = min(max(ratio, c.Lower), c.Upper)
	c.HighestProb = min(1, c.Upper*math.Exp(o.OldLogProb))
	switch st := r.Stats; {
	case st.ClippedDual > 0:
		c.Clipped = "dual"
	case st.ClippedLow > 0:
		c.Clipped = "low"
	case st.ClippedHigh > 0:
		c.Clipped = "high"
	}
	return c, computed("the objective, its gradient or a bound of the ratio",
		[]float64{c.Objective, c.Gradient, c.Lower, c.Upper})
}

// WriteText writes the table and the conclusions.
func (r ClipResult) WriteText(w io.Writer) error {
	bounds := len(r.options.EpsilonHigh)
	page := struct {
		ClipResult
		Good                []ClipCase // for each bound
		Bad, Last           ClipCase
		OldPercent, Percent float64
		RoundedRatio        string // of the probabilities in whole percent
	}{
		ClipResult: r, Good: r.Cases[:bounds], Bad: r.Cases[bounds], Last: r.Cases[len(r.Cases)-1],
		OldPercent: 100 * r.OldProb, Percent: 100 * r.Prob, RoundedRatio: "no number",
	}
	if old := math.Round(page.OldPercent); old != 0 {
		page.RoundedRatio = fixed(math.Round(page.Percent)/old, 2)
	}
	return writePage(w, "clip", page)
}

// Figure plots the objective against the ratio for both signs of the advantage and
// marks the token's own ratio.
func (r ClipResult) Figure() (plots.ExplainFigure, error) {
	o := r.options
	right := max(2, 1.12*r.Ratio, 1.15*(1+slices.Max(o.EpsilonHigh)), 1.25*r.DualClip)
	var err error
	add := func(p *plots.ExplainPanel, name string, style int, adv, high, dual float64) {
		objective := func(ratio float64) float64 {
			c, failed := o.at(adv, high, dual, ratio)
			if err == nil {
				err = failed
			}
			return c.Objective
		}
		curve := plots.ExplainCurve{Name: name, Style: style}
		last := 0.0
		for _, x := range []float64{1e-6, 1 - o.Epsilon, 1, 1 + high, dual, right} { // all kinks are among these
			if x > last && x <= right {
				curve.X, curve.Y, last = append(curve.X, x), append(curve.Y, objective(x)), x
			}
		}
		p.Curves = append(p.Curves, curve)
		p.Points = append(p.Points, plots.ExplainPoint{X: r.Ratio, Y: objective(r.Ratio)})
	}
	panel := func(adv float64) plots.ExplainPanel {
		return plots.ExplainPanel{
			Title: fmt.Sprintf("A = %+g", adv), XLabel: "importance ratio r", YLabel: "objective", XMin: 0, XMax: right,
			Curves: []plots.ExplainCurve{
				{Name: "unclipped, r A", Reference: true, X: []float64{0, right}, Y: []float64{0, right * adv}},
			},
		}
	}
	good, bad := panel(o.Advantage), panel(-o.Advantage)
	const dualStyle = 3
	for i, high := range o.EpsilonHigh {
		add(&good, "epsilon_high "+fixed(high, 2), []int{0, 1, 2, 4}[i], o.Advantage, high, 0)
		good.YMax = max(good.YMax, 1.6*(1+high)*o.Advantage)
	}
	name, below := "epsilon_high "+fixed(o.EpsilonHigh[0], 2), ""
	if len(o.EpsilonHigh) > 1 {
		name = "any epsilon_high" // their curves are the same
	}
	bad.YMin = -right * o.Advantage
	add(&bad, name, 0, -o.Advantage, o.EpsilonHigh[0], 0)
	if r.DualClip != 0 {
		add(&bad, "dual clip, c = "+short(r.DualClip), dualStyle, -o.Advantage, o.EpsilonHigh[0], r.DualClip)
		below = "; verl's dual clip bounds it"
	}
	for _, p := range []plots.ExplainPanel{good, bad} {
		p.Points[0].Name = "r = " + fixed(r.Ratio, 2)
	}
	return plots.ExplainFigure{
		Title:   "The clipped objective of one token",
		Setting: "min(r A, clip(r, 1 - epsilon, 1 + epsilon_high) A), epsilon " + short(o.Epsilon),
		Panels:  []plots.ExplainPanel{good, bad},
		Caption: []string{
			fmt.Sprintf("r is the ratio of the token's probability now to that at sampling time; marked: %s to %s, r = %s.",
				percent(r.OldProb), percent(r.Prob), fixed(r.Ratio, 2)),
			"Where a curve is flat the token has no gradient.",
			"A > 0: epsilon_high limits how far a good token can be raised.",
			"A < 0: above 1-epsilon the unclipped term is smaller, so epsilon_high does not matter" + below + ".",
		},
	}, err
}
