package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

// dpoRow is a completion in the table.
type dpoRow struct {
	DPOCompletion
	Pair int
	Side string
}

// WriteText writes the tables and the conclusions.
func (r DPOResult) WriteText(w io.Writer) error {
	page := struct {
		DPOResult
		LossNames []string
		Rows      []dpoRow
		Gradients [][]float64
		Equal     bool      // policy and reference
		Weights   []float64 // margin and weight of the worst and of the best pair
		BothFell  int       // the first pair that is right although its chosen completion became less likely, or -1
		Uneven    int       // the first pair of different lengths, or -1
		Ninety    float64   // the margin for P(chosen) = 90%
	}{
		DPOResult: r, LossNames: listOf(asText[rl.PreferenceLoss])(r.LossTypes), Equal: true, Ninety: math.Log(9),
		BothFell: slices.IndexFunc(r.Pairs, func(p DPOPair) bool { return p.Margin > 0 && p.Chosen.LogRatio < 0 }),
		Uneven:   slices.IndexFunc(r.Pairs, func(p DPOPair) bool { return p.Chosen.Tokens != p.Rejected.Tokens }),
	}
	for i, pair := range r.Pairs {
		page.Rows = append(page.Rows, dpoRow{pair.Chosen, i, "chosen"}, dpoRow{pair.Rejected, i, "rejected"})
		page.Gradients = append(page.Gradients, pair.Chosen.Gradient, pair.Rejected.Gradient)
		page.Equal = page.Equal && pair.Chosen.LogRatio == 0 && pair.Rejected.LogRatio == 0
	}
	if len(r.LossTypes) == 1 && r.LossTypes[0] == rl.DPOSigmoid && r.Divergence == rl.ReverseKL && !page.Equal {
		byMargin := func(a, b DPOPair) int { return cmp.Compare(a.Margin, b.Margin) }
		worst, best := slices.MinFunc(r.Pairs, byMargin), slices.MaxFunc(r.Pairs, byMargin)
		if n := float64(len(r.Pairs)); worst.Margin < best.Margin {
			page.Weights = []float64{worst.Margin, r.Beta * (1 - worst.Prob) / n, best.Margin, r.Beta * (1 - best.Prob) / n}
		}
	}
	return writePage(w, "dpo", page)
}

// Figure plots the configured losses and a few others against the difference of the log-ratios, with
// their derivatives.
func (r DPOResult) Figure() (plots.ExplainFigure, error) {
	var losses []rl.PreferenceLoss
	for _, l := range append(slices.Clone(r.LossTypes), rl.DPOSigmoid, rl.DPOHinge, rl.DPOAPOZero, rl.DPODiscoPOP) {
		if l != rl.DPOSFT && !slices.Contains(losses, l) && r.only(l).Check() == nil {
			losses = append(losses, l)
		}
	}
	right := 5 / r.Beta
	for _, pair := range r.Pairs {
		right = max(right, 1.2*math.Abs(pair.Chosen.LogRatio-pair.Rejected.LogRatio))
	}
	const xLabel = "log-ratio of chosen minus rejected (nats)"
	value := plots.ExplainPanel{
		Title: "Loss", XLabel: xLabel, YLabel: "loss of the pair", XMin: -right, XMax: right,
		YMax: 1.2 * (1 + r.Beta*right),
	}
	slope := plots.ExplainPanel{
		Title: "Derivative", XLabel: xLabel, YLabel: "by the difference", XMin: -right, XMax: right,
		YMin: -1.6 * r.Beta, YMax: 0.6 * r.Beta,
	}
	const points = 100
	for style, l := range losses {
		a, b := plots.ExplainCurve{Name: string(l), Style: style}, plots.ExplainCurve{Name: string(l), Style: style}
		for k := 0; k <= points; k++ {
			d := right * (2*float64(k)/points - 1)
			y, dy, err := r.at(l, d)
			if err != nil {
				return plots.ExplainFigure{}, err
			}
			a.X, a.Y = append(a.X, d), append(a.Y, y)
			b.X, b.Y = append(b.X, d), append(b.Y, dy)
		}
		value.Curves, slope.Curves = append(value.Curves, a), append(slope.Curves, b)
	}
	for i, pair := range r.Pairs {
		d := pair.Chosen.LogRatio - pair.Rejected.LogRatio
		y, dy, err := r.at(losses[0], d)
		if err != nil {
			return plots.ExplainFigure{}, err
		}
		name := ""
		if i == 0 {
			name = "the differences of the pairs"
		}
		value.Points = append(value.Points, plots.ExplainPoint{Name: name, X: d, Y: y})
		slope.Points = append(slope.Points, plots.ExplainPoint{Name: name, X: d, Y: dy})
	}
	return plots.ExplainFigure{
		Title: "Losses of a preference pair",
		Setting: fmt.Sprintf("beta %s, f_divergence_type %s; one token each, log-ratios d/2 and -d/2",
			short(r.Beta), r.Divergence),
		Panels: []plots.ExplainPanel{value, slope},
		Caption: []string{
			"d is the log-ratio of the chosen completion (policy to reference) minus that of the rejected one.",
			"Where the derivative is 0, the pair has no effect on the policy.",
		},
	}, nil
}

// at is the loss of a pair of one token each with the log-ratios d/2 and -d/2, and its derivative by d.
func (r DPOResult) at(l rl.PreferenceLoss, d float64) (value, slope float64, err error) {
	got, err := rl.Preference(r.only(l), rl.PreferenceBatch{
		Shape: rl.Shape{B: 2, T: 1}, Mask: []bool{true, true}, LogProbs: []float64{d / 2, -d / 2},
		RefLogProbs: []float64{0, 0},
	})
	if err != nil {
		return 0, 0, err
	}
	return got.Loss, (got.Grad[0] - got.Grad[1]) / 2, nil
}
