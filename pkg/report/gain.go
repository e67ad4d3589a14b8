package report

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// gainsTable has the gain of each arm over its base level, with its parts.
func (a *Report) gainsTable() Table {
	t := Table{Label: "Gain over the base level", Columns: []Column{
		{Head: "arm", Text: true, Wrap: "middle"}, {Head: "gain [95%]"}, {Head: "by format [95%]"},
		{Head: "by answers [95%]"}, {Head: "formatted before, after"}, {Head: "right of formatted before, after"},
		{Head: "decoding", Text: true}, {Head: "seeds"},
	}, Notes: []string{
		"Gain: the change of the validation answer reward over training, in points (1 point = 1%), and its parts by " +
			"format and by answers; means over the finished seeds, with 95% intervals by Student's t.",
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
				{Text: a.Arms[i].Name(), Sort: fmt.Sprint(i)},
				change(g.Total, 0), change(g.ByFormat, g.Total.N), change(g.ByAnswers, g.Total.N),
				shares(g.Formatted), shares(g.Right), {Text: g.Decoding}, {Text: fmt.Sprint(g.Total.N)},
			}})
		}
	}
	return t
}

// gainTable has a run's gain on each set and its parts.
func gainTable(r *rundir.Run) Table {
	t := tableOfGains("gain of the\nanswer reward")
	for _, split := range analysis.SetsOf(r) {
		for _, decoding := range decodings {
			t.addGain(splitName(split), r, split, decoding)
		}
	}
	return t
}

// gainsBySeed has the gain of each run on the validation problems and its parts, and of several runs the means with
// sample standard deviations over those that are finished.
func gainsBySeed(runs []*rundir.Run, infos []analysis.RunInfo) Table {
	t := tableOfGains("seed")
	for _, decoding := range decodings {
		var parts [3][]float64
		for i, r := range runs {
			g, ok := t.addGain(strings.TrimPrefix(infos[i].SeedText(), "seed "), r, rundir.SplitVal, decoding)
			if !ok || !r.Finished() {
				continue
			}
			for k := range parts {
				parts[k] = append(parts[k], g[k])
			}
		}
		if n := len(parts[0]); n > 1 {
			cells := []string{"mean ± sd", decoding}
			for _, values := range parts {
				m, sd, of := stats.MeanSD(values)
				if of < n { // without a formatted completion there are no parts
					cells = append(cells, analysis.Absent)
					continue
				}
				cells = append(cells, analysis.Decimals(m, 3)+" ± "+analysis.Decimals(sd, 3))
			}
			t.add(append(cells, "", "")...)
		}
	}
	return t
}

var decodings = []string{rundir.DecodingSampled, rundir.DecodingGreedy}

func tableOfGains(first string) Table {
	return Table{Columns: []Column{
		{Head: first, Text: true}, {Head: "decoding", Text: true}, {Head: "gain"},
		{Head: "by\nformat"}, {Head: "by\nanswers"}, {Head: "formatted\nbefore, after"},
		{Head: "right of formatted\nbefore, after"},
	}}
}

// addGain adds the gain of a run on a set, if it has one, and returns it with its parts by format and by answers.
func (t *Table) addGain(name string, r *rundir.Run, split, decoding string) (gain [3]float64, ok bool) {
	first := analysis.Evaluation(r, split, analysis.AtStart)
	last := analysis.Evaluation(r, split, analysis.AtEnd)
	before, after := analysis.DecodedCounts(first, decoding), analysis.DecodedCounts(last, decoding)
	if before == nil || after == nil {
		return gain, false
	}
	g, three := analysis.GainOf(before, after), func(v float64) string { return analysis.Decimals(v, 3) }
	gain = [3]float64{after.AnswerReward - before.AnswerReward, g.Format, g.Answers}
	total := three(gain[0])
	if e, ok := analysis.GainByProblem(first, last, decoding); ok {
		total = analysis.WithInterval(e.Mean, e.Lo, e.Hi)
		t.Columns[2].Head = "gain\n[95% interval]"
		t.Notes = []string{"The interval of a gain pairs the completions before and after by problem; it does not " +
			"cover the spread over seeds."}
	}
	t.add(name, decoding, total, three(g.Format), three(g.Answers),
		three(before.FormatReward)+", "+three(after.FormatReward),
		three(analysis.RightOfFormatted(before))+", "+three(analysis.RightOfFormatted(after)))
	return gain, true
}

// setRow is an arm on a set of problems; at is the index of the arm.
type setRow struct {
	*analysis.SetResult
	arm *analysis.ArmResult
	at  int
}

func setColumn(head string, m *analysis.SetMetric, cell func(analysis.Summary) string) column[setRow] {
	return plain(head, func(r setRow) string { return cell(r.Of(m)) })
}

// partColumn is a part of the gain, only if all seeds of after have it, so that the parts add up.
func partColumn(head string, part, after *analysis.SetMetric) column[setRow] {
	return plain(head, func(r setRow) string {
		if s := r.Of(part); s.N == r.Of(after).N {
			return signed(s)
		}
		return analysis.Absent
	})
}

var setColumns = []column[setRow]{
	{Column{Head: "arm", Text: true, Wrap: "middle"}, func(r setRow) Cell {
		return Cell{Text: r.arm.Name(), Sort: fmt.Sprint(r.at)}
	}},
	{Column{Head: "set", Text: true}, func(r setRow) Cell { return Cell{Text: splitName(r.Set)} }},
	plain("problems", func(r setRow) string { return fmt.Sprint(r.Problems) }),
	setColumn("before", analysis.SetBefore, mean(3)),
	setColumn("after [95%]", analysis.SetAfter, interval),
	setColumn("greedy, before", analysis.SetGreedyBefore, mean(3)),
	setColumn("greedy, after [95%]", analysis.SetGreedyAfter, interval),
	partColumn("gain by format", analysis.SetGainByFormat, analysis.SetAfter),
	partColumn("gain by answers", analysis.SetGainByAnswers, analysis.SetAfter),
	partColumn("greedy gain by format", analysis.SetGreedyGainByFormat, analysis.SetGreedyAfter),
	partColumn("greedy gain by answers", analysis.SetGreedyGainByAnswers, analysis.SetGreedyAfter),
	setColumn("`correct_num`", analysis.SetCorrect, mean(1)),
	setColumn("`error_num`", analysis.SetErrors, mean(1)),
	setColumn("formatted, right", analysis.SetFormattedRight, mean(1)),
	setColumn("formatted, wrong", analysis.SetFormattedWrong, mean(1)),
	setColumn("unformatted", analysis.SetUnformatted, mean(1)),
}

// setsTable has the results of each arm on each set; it has no rows if no arm was evaluated on
// another set than validation and test.
func (a *Report) setsTable() Table {
	var rows []setRow
	more := false
	for k := range a.Arms {
		for i := range a.Arms[k].Sets {
			s := &a.Arms[k].Sets[i]
			more = more || s.Set != rundir.SplitVal && s.Set != rundir.SplitTest
			rows = append(rows, setRow{s, &a.Arms[k], k})
		}
	}
	if !more {
		rows = nil
	}
	t := tableOf("Results by set of problems", setColumns, rows)
	t.dropEmpty()
	t.Notes = []string{
		"Share of the problems of a set answered right, before training (all seeds that were evaluated) and after the last " +
			"step (the finished ones): means with 95% intervals by Student's t. Counts are those of the last sampled evaluation.",
		"The gain by format is the change of the formatted share times the mean share of right completions among " +
			"the formatted ones, the gain by answers the change of the latter times the mean of the former; " +
			"they add up to the gain.",
	}
	return t
}
