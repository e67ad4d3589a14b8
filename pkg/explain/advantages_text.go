package explain

import (
	"fmt"
	"io"
	"math"
	"slices"

	"grpo/pkg/plots"
)

// spread compares the groups with the smallest and the largest std above 0.
type spread struct {
	Low, High                                  PromptStats
	LowLocal, HighLocal, LowHybrid, HighHybrid float64 // the largest advantage
}

// WriteText writes the tables and the conclusions.
func (r AdvantageResult) WriteText(w io.Writer) error {
	page := struct {
		AdvantageResult
		ZeroStd        int      // groups of equal rewards
		Global         []string // their advantages under global
		Spread         *spread
		Weights        [][]string // of each prompt, under each form
		NearDifference float64
	}{AdvantageResult: r}
	low, high := -1, -1
	for i, x := range r.Prompts {
		var weights []string
		for _, f := range r.Forms {
			weight := "n/a" // out of the range of a float64
			if w := slices.Max(f.Advantages[i]) - slices.Min(f.Advantages[i]); !math.IsInf(w, 0) {
				weight = num(w)
			}
			weights = append(weights, weight)
		}
		page.Weights = append(page.Weights, weights)
		switch a := r.Forms[1].Advantages[i][0]; {
		case x.Std > 0:
			if low < 0 || x.Std < r.Prompts[low].Std {
				low = i
			}
			if high < 0 || x.Std > r.Prompts[high].Std {
				high = i
			}
			continue
		case a != 0:
			page.Global = append(page.Global, fmt.Sprintf("%s for \"%s\"", num(a), x.Name))
		}
		page.ZeroStd++
	}
	if low != high {
		best := func(form, group int) float64 { return slices.Max(r.Forms[form].Advantages[group]) }
		page.Spread = &spread{r.Prompts[low], r.Prompts[high], best(0, low), best(0, high), best(2, low), best(2, high)}
	}
	if len(r.Nearly) > 0 {
		near := r.Nearly[1].Rewards
		page.NearDifference = round(slices.Max(near)-slices.Min(near), 9)
	}
	return writePage(w, "advantages", page)
}

// Figure plots the advantage of the odd completion of a nearly equal group against
// the difference of its reward from the others'.
func (r AdvantageResult) Figure() (fig plots.ExplainFigure, err error) {
	if len(r.Nearly) == 0 {
		return fig, fmt.Errorf("draw advantages: no nearly equal group")
	}
	curves := []plots.ExplainCurve{
		{Name: "divided by the group's std (local)"},
		{Name: "not divided", Style: 1},
		{Name: "divided by the batch's std (hybrid)", Style: 2},
	}
	caption := []string{
		"Divided by its own std, a difference counts the same whatever its size, until it is as small as eps.",
		"A group of equal rewards is not on the axis: its advantages are 0.",
		"Hybrid: within the batch of the table.",
	}
	equal, near := r.Nearly[0].Rewards, r.Nearly[1]
	if near.Hybrid == nil {
		curves, caption = curves[:2], caption[:2]
	}
	sizes := func(g NearlyGroup) []float64 { // of the odd completion's advantage, one for each curve
		var out []float64
		for _, adv := range [][]float64{g.Local, g.Plain, g.Hybrid} {
			if adv != nil {
				out = append(out, math.Abs(adv[r.Odd]))
			}
		}
		return out
	}
	const lo, hi = -8, 0 // powers of ten of the difference
	top := 1.0
	for k := float64(lo); k <= hi; k += 0.1 {
		delta := math.Pow(10, k)
		rewards := slices.Clone(equal)
		rewards[r.Odd] -= delta
		g, err := r.options.nearlyGroup(rewards)
		if err != nil {
			return fig, err
		}
		for i, y := range sizes(g) {
			curves[i].X, curves[i].Y, top = append(curves[i].X, delta), append(curves[i].Y, y), max(top, y)
		}
	}
	p := plots.ExplainPanel{
		XLabel: "difference of the odd reward from the others'", YLabel: "size of its advantage",
		XMin: math.Pow(10, lo), XMax: math.Pow(10, hi), YMin: math.Pow(10, lo-0.5), YMax: 6 * top,
		LogX: true, LogY: true, Curves: curves,
	}
	// The group is a point of the figure if all other rewards are equal.
	usual := near.Rewards[(r.Odd+1)%len(near.Rewards)]
	others := slices.Delete(slices.Clone(near.Rewards), r.Odd, r.Odd+1)
	differs := slices.ContainsFunc(others, func(x float64) bool { return x != usual })
	if d := math.Abs(near.Rewards[r.Odd] - usual); !differs && d >= p.XMin && d <= p.XMax {
		for _, y := range sizes(near) {
			p.Points = append(p.Points, plots.ExplainPoint{X: d, Y: y})
		}
		p.Points[0].Name = list(near.Rewards, short)
	}
	return plots.ExplainFigure{
		Title: "Where dividing by the group's std explodes",
		Setting: fmt.Sprintf("a group of %d, one reward different from the others; sample std, eps %s",
			len(equal), short(r.Eps)),
		Panels:  []plots.ExplainPanel{p},
		Caption: caption,
	}, nil
}
