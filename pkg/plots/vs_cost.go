package plots

import (
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// validationVsTokens is the validation answer reward against the tokens that were
// trained on.
func validationVsTokens(v *view) *figure {
	return v.validationVsCost("tokens", "completion tokens trained on (thousands)", tokensOf, 0,
		"Tokens of completions that dynamic sampling discarded are not counted. "+
			"A mean is at the mean of the runs' tokens at that step.")
}

// validationVsTime is about long runs only: the seconds of short ones are those of starting and of
// whatever else the machine did.
func validationVsTime(v *view) *figure {
	const shortest = 1 // minutes
	return v.validationVsCost("time", "minutes since the start, evaluations included", minutesOf, shortest,
		"Times depend on the machine, and on the runs that it trained at the same time. "+
			"A mean is at the mean of the runs' times at that step.")
}

// validationVsCost is the validation reward against a cost, nil unless a run costs more than least.
func (v *view) validationVsCost(what, label string, cost func(*rundir.Run) analysis.Series, least float64, note string) *figure {
	most := 0.0
	for _, r := range v.runs {
		if s := cost(r); len(s) > 0 {
			most = max(most, s[len(s)-1].Y)
		}
	}
	if most <= least {
		return nil
	}
	fig := v.validationChart(chart{title: "Validation answer reward against " + what, xLabel: label, xMax: most, x: cost})
	if fig != nil {
		fig.notes = []string{note}
	}
	return fig
}

// minutesOf is the time of a run up to each step, in minutes.
func minutesOf(r *rundir.Run) analysis.Series {
	s := analysis.Series{{X: 0, Y: 0}}
	for _, m := range r.Metrics {
		s.Add(m.Step, m.Time.ElapsedS/60)
	}
	return s
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
