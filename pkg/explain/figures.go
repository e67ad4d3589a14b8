package explain

import (
	"fmt"
	"math"

	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

// Figure draws the objective against the ratio for both signs of the advantage,
// with the token's own ratio marked.
func (r ClipResult) Figure() (plots.ExplainFigure, error) {
	o := r.options
	right := max(2, 1.12*r.Ratio, 1.15*(1+largest(o.EpsilonHigh)))
	if r.DualClip != 0 {
		right = max(right, 1.25*r.DualClip)
	}
	const dualStyle = 3
	curve := func(adv, high, dual float64) (plots.ExplainCurve, error) {
		c := plots.ExplainCurve{}
		for _, x := range clipAxis(o, high, dual, right) {
			at, err := o.at(adv, high, dual, x)
			if err != nil {
				return c, err
			}
			c.X, c.Y = append(c.X, x), append(c.Y, at.Objective)
		}
		return c, nil
	}
	fig := plots.ExplainFigure{
		Title:   "The clipped objective of one token",
		Setting: fmt.Sprintf("min(r A, clip(r, 1 - epsilon, 1 + epsilon_high) A), epsilon %s", short(o.Epsilon)),
		Caption: []string{
			fmt.Sprintf("r is the ratio of the token's probability now to that at sampling time; marked: %s to %s, r = %s.", percent(r.OldProb), percent(r.Prob), fixed(r.Ratio, 2)),
			"Where a curve is flat the token has no gradient.",
			"A > 0: epsilon_high says how far a good token may be raised.",
			"A < 0: the unclipped side is the smaller one above 1-epsilon, so that epsilon_high does not matter; verl's dual clip bounds it.",
		},
	}
	if r.DualClip == 0 {
		fig.Caption[3] = "A < 0: the unclipped side is the smaller one above 1-epsilon, so that epsilon_high does not matter."
	}
	for _, sign := range []float64{1, -1} {
		adv := sign * o.Advantage
		p := plots.ExplainPanel{
			Title: fmt.Sprintf("A = %+g", adv), XLabel: "importance ratio r", YLabel: "objective", XMin: 0, XMax: right,
			YMin: 0, YMax: 0,
			Curves: []plots.ExplainCurve{{Name: "unclipped, r A", Reference: true, X: []float64{0, right}, Y: []float64{0, right * adv}}},
		}
		highs := o.EpsilonHigh
		if sign < 0 {
			highs = highs[:1] // the others are the same curve
		}
		for i, high := range highs {
			c, err := curve(adv, high, 0)
			if err != nil {
				return fig, err
			}
			c.Name, c.Style = fmt.Sprintf("epsilon_high %s", fixed(high, 2)), []int{0, 1, 2, 4}[i]
			if sign < 0 && len(o.EpsilonHigh) > 1 {
				c.Name = "any epsilon_high"
			}
			p.Curves = append(p.Curves, c)
			at, err := o.at(adv, high, 0, r.Ratio)
			if err != nil {
				return fig, err
			}
			p.Points = append(p.Points, plots.ExplainPoint{X: r.Ratio, Y: at.Objective})
			p.YMax = max(p.YMax, 1.6*(1+high)*adv)
		}
		if sign < 0 {
			p.YMin, p.YMax = right*adv, 0
			if r.DualClip != 0 {
				c, err := curve(adv, highs[0], r.DualClip)
				if err != nil {
					return fig, err
				}
				c.Name, c.Style = fmt.Sprintf("dual clip, c = %s", short(r.DualClip)), dualStyle
				p.Curves = append(p.Curves, c)
				at, err := o.at(adv, highs[0], r.DualClip, r.Ratio)
				if err != nil {
					return fig, err
				}
				p.Points = append(p.Points, plots.ExplainPoint{X: r.Ratio, Y: at.Objective})
			}
		}
		p.Points[0].Name = fmt.Sprintf("r = %s", fixed(r.Ratio, 2))
		fig.Panels = append(fig.Panels, p)
	}
	return fig, nil
}

// clipAxis are ratios from near 0 to right with every kink among them.
func clipAxis(o ClipOptions, high, dual, right float64) []float64 {
	xs := []float64{1e-6}
	for _, x := range []float64{1 - o.Epsilon, 1, 1 + high, dual, right} {
		if x > xs[len(xs)-1] && x <= right {
			xs = append(xs, x)
		}
	}
	return xs
}

// Figure draws the advantage of the odd completion of a nearly equal group
// against how far its reward is from the others'.
func (r AdvantageResult) Figure() (plots.ExplainFigure, error) {
	var fig plots.ExplainFigure
	if len(r.Nearly) == 0 {
		return fig, fmt.Errorf("draw advantages: there is no nearly equal group")
	}
	o := AdvantageOptions{Eps: r.Eps}
	for _, p := range r.Prompts {
		o.Prompts = append(o.Prompts, p.Prompt)
	}
	equal, near := r.Nearly[0].Rewards, r.Nearly[1]
	const lo, hi = -8, 0 // powers of ten of the difference
	curves := []plots.ExplainCurve{{Name: "divided by the group's std (local)"}, {Name: "not divided", Style: 1}, {Name: "divided by the batch's std (hybrid)", Style: 2}}
	for k := float64(lo); k <= hi; k += 0.1 {
		delta := math.Pow(10, k)
		rewards := append([]float64(nil), equal...)
		rewards[r.Odd] -= delta
		g, err := o.nearlyGroup(rewards)
		if err != nil {
			return fig, err
		}
		for i, adv := range [][]float64{g.Local, g.Plain, g.Hybrid} {
			if adv != nil {
				curves[i].X, curves[i].Y = append(curves[i].X, delta), append(curves[i].Y, math.Abs(adv[r.Odd]))
			}
		}
	}
	if near.Hybrid == nil {
		curves = curves[:2]
	}
	top := 1.0
	for _, c := range curves {
		top = max(top, largest(c.Y))
	}
	p := plots.ExplainPanel{
		XLabel: "how far the odd reward is from the others'", YLabel: "size of its advantage",
		XMin: math.Pow(10, lo), XMax: math.Pow(10, hi), YMin: math.Pow(10, lo-0.5), YMax: 6 * top, LogX: true, LogY: true, Curves: curves,
	}
	if d, ok := oddDifference(near.Rewards, r.Odd); ok && d >= p.XMin && d <= p.XMax {
		p.Points = append(p.Points,
			plots.ExplainPoint{Name: listShort(near.Rewards), X: d, Y: math.Abs(near.Local[r.Odd])},
			plots.ExplainPoint{X: d, Y: math.Abs(near.Plain[r.Odd])})
		if near.Hybrid != nil {
			p.Points = append(p.Points, plots.ExplainPoint{X: d, Y: math.Abs(near.Hybrid[r.Odd])})
		}
	}
	return plots.ExplainFigure{
		Title:   "Where dividing by the group's std explodes",
		Setting: fmt.Sprintf("a group of %d, one reward unlike the others; sample std, eps %s", len(equal), short(r.Eps)),
		Panels:  []plots.ExplainPanel{p},
		Caption: []string{
			"Divided by its own std, a difference counts as much as any other until it is as small as eps.",
			"A group of quite equal rewards is not on the axis: its advantages are 0.",
			"Hybrid: within the batch of the table.",
		}[:2+len(curves)-2],
	}, nil
}

// oddDifference is how far the odd reward is from the others; ok is false where
// the others are not equal, so that the group is none of the figure's.
func oddDifference(rewards []float64, odd int) (d float64, ok bool) {
	usual := rewards[(odd+1)%len(rewards)]
	for i, r := range rewards {
		if i != odd && r != usual {
			return 0, false
		}
	}
	return math.Abs(rewards[odd] - usual), true
}

// Figure draws the share of a long response against its length.
func (r AggregationResult) Figure() (plots.ExplainFigure, error) {
	var fig plots.ExplainFigure
	if len(r.Lengths) < 2 {
		return fig, fmt.Errorf("draw aggregation: one response has no other to weigh against (give two lengths or more)")
	}
	first, second := r.Lengths[0], r.Lengths[1]
	lo := min(10, float64(second))
	hi := math.Pow(10, math.Ceil(math.Log10(float64(10*max(first, second)))))
	hi = max(lo+1, min(hi, maxTokens/2))
	forms := []struct {
		a    rl.Aggregation
		name string
	}{{rl.MaskedMeanSeq, "sequence-level (masked_mean)"}, {rl.TokenMean, "token-level (token-mean), and with a constant"}}
	p := plots.ExplainPanel{
		XLabel: "length of the second response (tokens)", YLabel: "its share of the batch's loss",
		XMin: lo, XMax: hi, YMin: 0, YMax: 1, LogX: true,
	}
	for i, f := range forms {
		c := plots.ExplainCurve{Name: f.name, Style: i}
		for k := 0; k <= 40; k++ {
			n := int(math.Round(lo * math.Pow(hi/lo, float64(k)/40)))
			share, err := secondShare(f.a, first, n)
			if err != nil {
				return fig, err
			}
			c.X, c.Y = append(c.X, float64(n)), append(c.Y, share)
		}
		p.Curves = append(p.Curves, c)
		share, err := secondShare(f.a, first, second)
		if err != nil {
			return fig, err
		}
		pt := plots.ExplainPoint{X: float64(second), Y: share}
		if i == 0 {
			pt.Name = fmt.Sprintf("%d tokens", second)
		}
		p.Points = append(p.Points, pt)
	}
	return plots.ExplainFigure{
		Title:   "How much a long response weighs",
		Setting: fmt.Sprintf("two responses, the first of %s", count(first, "token")),
		Panels:  []plots.ExplainPanel{p},
		Caption: []string{"Share: the weights of the response's tokens over the sum of all weights in the batch's loss."},
	}, nil
}

// secondShare is the share of the second of two responses.
func secondShare(a rl.Aggregation, first, second int) (float64, error) {
	s, mask, err := lengthMask([]int{first, second}, 0)
	if err != nil {
		return 0, err
	}
	w, err := tokenWeight(a, float64(s.T), s, mask)
	if err != nil {
		return 0, err
	}
	x, y := float64(first)*w[0], float64(second)*w[1]
	return y / (x + y), nil
}
