package report

import (
	"fmt"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// gainSources is a gain with its parts: "rose by 60.2 points [...], of which 12.0 points
// [...] by format (formatted 70.1%, then 98.2%) and ... by answers (right among these
// 20.0%, then 85.1%)".
func (a *Report) gainSources(f *analysis.Finding) string {
	before, after, format, formatAfter := analysis.InitialMetric, analysis.FinalMetric,
		analysis.InitialFormatMetric, analysis.FormatMetric
	s := a.arm(f) + " rose by " + points(f)
	if f.Metric == analysis.GreedyMetric.Name {
		s = "greedy decoding rose by " + points(f)
		before, after, format, formatAfter = analysis.InitialGreedyMetric, analysis.GreedyMetric,
			analysis.InitialGreedyFormatMetric, analysis.GreedyFormatMetric
	}
	if len(f.Parts) == 0 || f.Parts[0].Kind == analysis.GainSources {
		s += ", which can't be split into format and answers: no completion was formatted before training"
	}
	// The shares are of the seeds of the gain: a run that has not ended has one before training only.
	mean := func(m *analysis.Metric) float64 { return a.meanOf(m, f, f.Arms[0]) }
	for i := range f.Parts {
		p := &f.Parts[i]
		switch p.Kind {
		case analysis.GainByFormat:
			s += fmt.Sprintf(", %s (formatted %s, then %s)",
				a.sentence(p), analysis.Percent(mean(format)), analysis.Percent(mean(formatAfter)))
		case analysis.GainByAnswers:
			// All seeds have the same number of problems: the quotient of means is the share over all.
			of := func(answers, format *analysis.Metric) string {
				return analysis.Percent(mean(answers) / mean(format))
			}
			s += fmt.Sprintf(" and %s (right among the formatted %s, then %s)", a.sentence(p),
				of(before, format), of(after, formatAfter))
		default:
			s += "; " + a.sentence(p)
		}
	}
	return s
}

// gainTable has the parts of a run's gain on each set.
func gainTable(r *rundir.Run) Table {
	t := Table{Columns: []Column{
		{Head: "gain of the\nanswer reward", Text: true}, {Head: "decoding", Text: true}, {Head: "gain"},
		{Head: "by\nformat"}, {Head: "by\nanswers"}, {Head: "formatted\nbefore, after"},
		{Head: "right of formatted\nbefore, after"},
	}}
	for _, split := range analysis.SetsOf(r) {
		first := analysis.Evaluation(r, split, analysis.AtStart)
		last := analysis.Evaluation(r, split, analysis.AtEnd)
		for _, decoding := range []string{rundir.DecodingSampled, rundir.DecodingGreedy} {
			before, after := analysis.DecodedCounts(first, decoding), analysis.DecodedCounts(last, decoding)
			if before == nil || after == nil {
				continue
			}
			g, three := analysis.GainOf(before, after), func(v float64) string { return analysis.Decimals(v, 3) }
			t.add(splitName(split), decoding,
				three(after.AnswerReward-before.AnswerReward), three(g.Format), three(g.Answers),
				three(before.FormatReward)+", "+three(after.FormatReward),
				three(analysis.RightOfFormatted(before))+", "+three(analysis.RightOfFormatted(after)))
		}
	}
	return t
}
