package report

import (
	"fmt"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// gainsTable has the gain of each arm over its base level, with its parts.
func (a *Report) gainsTable() Table {
	t := Table{Label: "Gain over the base level", Columns: []Column{
		{Head: "arm", Text: true, Wrap: "middle"}, {Head: "gain [95%]"}, {Head: "by format [95%]"}, {Head: "by answers [95%]"},
		{Head: "formatted before, after"}, {Head: "right of formatted before, after"}, {Head: "decoding", Text: true}, {Head: "seeds"},
	}, Notes: []string{
		"Gain: the change of the validation answer reward over training, in points (1 point = 1%), and its parts by format and by " +
			"answers; means over the finished seeds, with 95% intervals by Student's t.",
	}}
	change := func(s analysis.Summary, of int) Cell {
		switch {
		case s.N == 0:
			return Cell{Text: analysis.Absent}
		case s.N < of: // without a formatted completion there are no parts
			return Cell{Text: fmt.Sprintf("%s (%d of %s)", pointsOf(s), s.N, textutil.Count(of, "seed"))}
		}
		return Cell{Text: pointsOf(s)}
	}
	shares := func(s [2]float64) Cell {
		if !stats.IsFinite(s[0]) {
			return Cell{Text: analysis.Absent}
		}
		return Cell{Text: analysis.Percent(s[0]) + ", " + analysis.Percent(s[1])}
	}
	for i := range a.Arms {
		for _, g := range a.Arms[i].Gains() {
			if g.Total.N == 0 {
				continue
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{
				{Text: a.Arms[i].Name(), Sort: fmt.Sprint(i)}, change(g.Total, 0), change(g.ByFormat, g.Total.N), change(g.ByAnswers, g.Total.N),
				shares(g.Formatted), shares(g.Right), {Text: g.Decoding}, {Text: fmt.Sprint(g.Total.N)},
			}})
		}
	}
	return t
}

// pointsOf is a summary of differences in points: "4.1 [1.2, 7.0]".
func pointsOf(s analysis.Summary) string {
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	return n.Bare(s.Mean) + n.Interval(s.Lo, s.Hi)
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
