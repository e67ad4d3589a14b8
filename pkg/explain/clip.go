package explain

import (
	"fmt"
	"io"
	"math"

	"grpo/pkg/rl"
)

// ClipOptions are the inputs of [Clip].
type ClipOptions struct {
	OldLogProb, LogProb float64 // of one token, when it was sampled and now
	Epsilon             float64
	EpsilonHigh         []float64 // the upper bounds to compare
	Advantage           float64   // its size; both signs are computed
	DualClip            float64   // verl's clip_ratio_c; 0 = leave it out
}

// DefaultClip is a token whose probability rose from 2% to 10%: the ratio of
// their log-probabilities, -3.9 and -2.3, is 4.95.
func DefaultClip() ClipOptions {
	return ClipOptions{OldLogProb: -3.9, LogProb: -2.3, Epsilon: 0.2, EpsilonHigh: []float64{0.2, 0.28}, Advantage: 1, DualClip: 3}
}

// ClipResult is what [Clip] computes.
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
	Advantage   float64 `json:"advantage"`
	EpsilonHigh float64 `json:"epsilon_high"`
	DualClip    bool    `json:"dual_clip"`
	Lower       float64 `json:"lower"` // 1 - epsilon
	Upper       float64 `json:"upper"` // 1 + epsilon_high
	// ClippedRatio is the ratio held to Lower..Upper.
	ClippedRatio float64 `json:"clipped_ratio"`
	// HighestProb is the probability above which a positive advantage has no
	// gradient: Upper times the old probability.
	HighestProb float64 `json:"highest_probability"`
	// Objective is min(r A, clip(r) A), and Gradient its derivative by logp.
	Objective float64 `json:"objective"`
	Gradient  float64 `json:"gradient"`
	Clipped   string  `json:"clipped"` // "no", "low", "high" or "dual"
}

// Clip computes PPO's clipped objective of one token,
//
//	J = min(r A, clip(r, 1-epsilon, 1+epsilon_high) A),   r = exp(logp - old)
//
// and its gradient, for both signs of the advantage and each upper bound.
func Clip(o ClipOptions) (ClipResult, error) {
	fail := func(err error) (ClipResult, error) { return ClipResult{}, fmt.Errorf("explain clip: %w", err) }
	switch {
	case len(o.EpsilonHigh) == 0 || len(o.EpsilonHigh) > 4:
		return fail(fmt.Errorf("%d values of epsilon_high; compare 1 to 4 upper bounds", len(o.EpsilonHigh)))
	case !(o.Advantage > 0) || math.IsInf(o.Advantage, 1):
		return fail(fmt.Errorf("advantage %v; its size must be finite and above 0 (both signs are shown)", o.Advantage))
	}
	for _, x := range []struct {
		name string
		v    float64
	}{{"old log-probability", o.OldLogProb}, {"log-probability", o.LogProb}} {
		if !(x.v <= 0) || math.IsInf(x.v, -1) {
			return fail(fmt.Errorf("%s %v; it must be finite and at most 0", x.name, x.v))
		}
	}
	out := ClipResult{
		OldLogProb: o.OldLogProb, LogProb: o.LogProb, OldProb: math.Exp(o.OldLogProb), Prob: math.Exp(o.LogProb),
		Ratio: math.Exp(o.LogProb - o.OldLogProb), Epsilon: o.Epsilon, DualClip: o.DualClip, options: o,
	}
	if math.IsInf(out.Ratio, 1) {
		return fail(fmt.Errorf("the ratio exp(%v - %v) is too large for a number", o.LogProb, o.OldLogProb))
	}
	for _, sign := range []float64{1, -1} {
		for _, high := range o.EpsilonHigh {
			c, err := o.at(sign*o.Advantage, high, 0, out.Ratio)
			if err != nil {
				return fail(err)
			}
			out.Cases = append(out.Cases, c)
		}
		if o.DualClip != 0 && sign < 0 {
			c, err := o.at(-o.Advantage, o.EpsilonHigh[0], o.DualClip, out.Ratio)
			if err != nil {
				return fail(err)
			}
			out.Cases = append(out.Cases, c)
		}
	}
	return out, nil
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
	if err := computed("the objective, its gradient or a bound of the ratio", c.Objective, c.Gradient, c.Lower, c.Upper); err != nil {
		return c, err
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
	return c, nil
}

// WriteText writes the table and what follows from it.
func (r ClipResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Clipping: how far one update may move a token's probability")
	p.gap()
	p.table("l",
		[]string{"", "log-probability", "probability"},
		[]string{"old policy (at sampling)", short(r.OldLogProb), percent(r.OldProb)},
		[]string{"policy (now)", short(r.LogProb), percent(r.Prob)},
	)
	p.line("ratio exp(%s) = %s", short(round(r.LogProb-r.OldLogProb, 9)), fixed(r.Ratio, 2))
	p.gap()
	p.line("J = min(r A, clip(r, 1-epsilon, 1+epsilon_high) A)")
	p.gap()
	table := [][]string{{"advantage", "epsilon_high", "ratio", "clip(ratio)", "J", "dJ/dlogp", "clipped"}}
	for _, c := range r.Cases {
		table = append(table, []string{
			fmt.Sprintf("%+g", c.Advantage), fixed(c.EpsilonHigh, 2), fixed(r.Ratio, 2), fixed(c.ClippedRatio, 2),
			num(c.Objective), num(c.Gradient), r.clipped(c),
		})
	}
	p.table("", table...)
	p.gap()
	p.line("What follows")
	r.writeConsequences(p)
	return p.err
}

func (r ClipResult) clipped(c ClipCase) string {
	switch {
	case c.Clipped == "dual":
		return "dual, c = " + short(r.DualClip)
	case c.DualClip:
		return c.Clipped + " (c = " + short(r.DualClip) + ")"
	}
	return c.Clipped
}

func (r ClipResult) writeConsequences(p *printer) {
	for _, c := range r.Cases {
		if c.Advantage < 0 {
			break
		}
		if c.Clipped == "high" {
			p.point("A > 0, epsilon_high %s: the ratio %s is beyond %s, so the objective stays at %s and has no gradient. From %s on (%s times the old %s) nothing raises this token's probability further, until new completions are sampled.",
				fixed(c.EpsilonHigh, 2), fixed(r.Ratio, 2), fixed(c.Upper, 2), num(c.Objective), percent(c.HighestProb), fixed(c.Upper, 2), percent(r.OldProb))
		} else {
			p.point("A > 0, epsilon_high %s: the ratio %s is not above %s, so nothing is clipped; the gradient ends where the probability reaches %s.",
				fixed(c.EpsilonHigh, 2), fixed(r.Ratio, 2), fixed(c.Upper, 2), percent(c.HighestProb))
		}
	}
	p.point("The bound is relative: a rare token gains little in absolute terms, while one above %s can never reach it (%s times that is 100%%). Raising the upper bound alone (clip-higher, DAPO) gives rare tokens more room and so keeps exploration alive.",
		percent(1/r.Cases[0].Upper), fixed(r.Cases[0].Upper, 2))
	for _, c := range r.Cases {
		if c.Advantage > 0 || c.DualClip {
			continue
		}
		if c.Clipped == "no" {
			p.point("A < 0: the minimum takes the unclipped side wherever the ratio is above %s, whatever epsilon_high is. The objective is %s and its gradient %s: the token is pushed down with the full ratio, the harder the likelier it has become. Only below %s is it left alone.",
				fixed(c.Lower, 2), num(c.Objective), num(c.Gradient), fixed(c.Lower, 2))
		} else {
			p.point("A < 0: the ratio is below %s, so the objective stays at %s and has no gradient: a bad token that has already become that much rarer is left alone.", fixed(c.Lower, 2), num(c.Objective))
		}
		break
	}
	if r.DualClip != 0 {
		last := r.Cases[len(r.Cases)-1]
		if last.Clipped == "dual" {
			p.point("Verl's dual clip puts a floor under the last case: with c = %s the objective stays at %s and has no gradient.", short(r.DualClip), num(last.Objective))
		} else {
			p.point("Verl's dual clip (c = %s) would hold A < 0 only beyond a ratio of %s.", short(r.DualClip), short(r.DualClip))
		}
	}
	p.point("The table computes with the log-probabilities. Probabilities rounded to whole percent (%s%% and %s%%) would give a ratio of %s.",
		fixed(100*r.OldProb, 0), fixed(100*r.Prob, 0), r.roundedRatio())
}

// roundedRatio is the ratio of the probabilities in whole percent.
func (r ClipResult) roundedRatio() string {
	old := math.Round(100 * r.OldProb)
	if old == 0 {
		return "no number"
	}
	return fixed(math.Round(100*r.Prob)/old, 2)
}
