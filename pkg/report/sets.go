package report

import (
	"fmt"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// setColumns are the columns of the table of sets.
var setColumns = []struct {
	head   string
	metric *analysis.SetMetric
	cell   func(analysis.Summary) string
}{
	{"before", analysis.SetBefore, mean(3)},
	{"after [95%]", analysis.SetAfter, interval},
	{"greedy, before", analysis.SetGreedyBefore, mean(3)},
	{"greedy, after [95%]", analysis.SetGreedyAfter, interval},
	{"gain by format", analysis.SetGainByFormat, signed},
	{"gain by answers", analysis.SetGainByAnswers, signed},
	{"greedy gain by format", analysis.SetGreedyGainByFormat, signed},
	{"greedy gain by answers", analysis.SetGreedyGainByAnswers, signed},
	{"`correct_num`", analysis.SetCorrect, mean(1)},
	{"`error_num`", analysis.SetErrors, mean(1)},
	{"formatted, right", analysis.SetFormattedRight, mean(1)},
	{"formatted, wrong", analysis.SetFormattedWrong, mean(1)},
	{"unformatted", analysis.SetUnformatted, mean(1)},
}

// setsTable has the results of each arm on each set; it is empty if no arm was evaluated on
// another set than validation and test.
func (a *Report) setsTable() Table {
	t := Table{Label: "Results by set of problems", Columns: []Column{
		{Head: "arm", Text: true, Wrap: "middle"}, {Head: "set", Text: true}, {Head: "problems"},
	}, Notes: []string{
		"Share of the problems of a set answered right, before training and after the last step: means over the " +
			"finished seeds, with 95% intervals by Student's t. Counts are those of the last sampled evaluation.",
		"The gain by format is the change of the formatted share times the mean share of right completions among " +
			"the formatted ones, the gain by answers the change of the latter times the mean of the former; " +
			"they add up to the gain.",
	}}
	for _, c := range setColumns {
		t.head(c.head)
	}
	more := false
	for k := range a.Arms {
		for i := range a.Arms[k].Sets {
			s := &a.Arms[k].Sets[i]
			more = more || s.Set != rundir.SplitVal && s.Set != rundir.SplitTest
			cells := []string{a.Arms[k].Name(), splitName(s.Set), fmt.Sprint(s.Problems)}
			for _, c := range setColumns {
				cells = append(cells, c.cell(s.Of(c.metric)))
			}
			t.add(cells...)
			t.Rows[len(t.Rows)-1].Cells[0].Sort = fmt.Sprint(k)
		}
	}
	if !more {
		t.Rows = nil
	}
	t.dropEmpty()
	return t
}

// signed is "+0.123 [+0.101, +0.145]".
func signed(s analysis.Summary) string {
	if !stats.IsFinite(s.Mean) {
		return analysis.Absent
	}
	plus := func(v float64) string {
		text := fmt.Sprintf("%+.3f", v)
		if text[1:] == "0.000" { // no sign of a number that rounds to 0
			return text[1:]
		}
		return text
	}
	out := plus(s.Mean)
	if stats.IsFinite(s.Lo) {
		out += " [" + plus(s.Lo) + ", " + plus(s.Hi) + "]"
	}
	return out
}
