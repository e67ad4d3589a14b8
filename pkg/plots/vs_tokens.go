package plots

import (
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// validationVsTokens is the validation answer reward against the tokens that were
// trained on.
func validationVsTokens(v *view) *figure {
	most := 0.0
	for _, r := range v.runs {
		if s := tokensOf(r); len(s) > 0 {
			most = max(most, s[len(s)-1].Y)
		}
	}
	if most <= 0 {
		return nil
	}
	fig := v.validationChart(chart{
		title: "Validation answer reward against tokens", xLabel: "completion tokens trained on (thousands)",
		xMax: most, x: tokensOf,
	})
	if fig != nil {
		fig.notes = []string{"Tokens of completions that dynamic sampling discarded are not counted. " +
			"A mean is at the mean of the runs' tokens at that step."}
	}
	return fig
}

// tokensOf is the number of completion tokens trained on up to each step, in
// thousands: a cost that is the same on every machine. It has no points where
// the configuration does not say the size of a batch.
func tokensOf(r *rundir.Run) analysis.Series {
	info, _ := analysis.ReadInfo(r)
	if info.Rollout.Size <= 0 {
		return nil
	}
	s := analysis.Series{{X: 0, Y: 0}}
	total := 0.0
	for _, m := range r.Metrics {
		total += float64(info.Rollout.Size) * m.Length / 1000
		s.Add(m.Step, total)
	}
	return s
}
