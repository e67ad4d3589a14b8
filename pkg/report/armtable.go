package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/stats"
)

// armColumn is a column of the tables of arms that people read. cell prints an
// arm's row; a column that no arm fills is left out.
type armColumn struct {
	head string
	cell func(*analysis.ArmResult) string
	// text marks what is no number.
	text bool
}

// meanCell prints the mean of a figure, with so many decimals.
func meanCell(digits int) func(analysis.Summary) string {
	return func(f analysis.Summary) string { return analysis.Decimals(f.Mean, digits) }
}

// withInterval is "0.933 [0.912, 0.954]".
func withInterval(digits int) func(analysis.Summary) string {
	return func(f analysis.Summary) string {
		s := analysis.Decimals(f.Mean, digits)
		if stats.IsFinite(f.Lo) {
			s += fmt.Sprintf(" [%s, %s]", analysis.Decimals(f.Lo, digits), analysis.Decimals(f.Hi, digits))
		}
		return s
	}
}

// withSeeds is "955.2 (970, 949, 940, 962)": the mean and each seed.
func withSeeds(digits int) func(analysis.Summary) string {
	return func(f analysis.Summary) string {
		if f.N == 0 {
			return analysis.Absent
		}
		each := make([]string, len(f.Values))
		for i, v := range f.Values {
			each[i] = analysis.Decimals(v, 0)
			if !stats.IsFinite(v) {
				each[i] = "-"
			}
		}
		return analysis.Decimals(f.Mean, digits) + " (" + strings.Join(each, ", ") + ")"
	}
}

// threeDigits is for figures without a natural unit.
func threeDigits(f analysis.Summary) string {
	if f.N == 0 {
		return analysis.Absent
	}
	return analysis.Decimals(f.Mean, analysis.DigitsFor(f.Mean))
}

func column1(head string, m *analysis.Metric, cell func(analysis.Summary) string) armColumn {
	return armColumn{head: head, cell: func(r *analysis.ArmResult) string { return cell(r.Of(m)) }}
}

// armColumns are the columns of results.md.
var armColumns = []armColumn{
	{head: "arm", text: true, cell: func(r *analysis.ArmResult) string { return r.Name() }},
	{head: "seeds", cell: func(r *analysis.ArmResult) string { return fmt.Sprint(r.Of(analysis.FinalMetric).N) }},
	column1("final [95%]", analysis.FinalMetric, withInterval(3)),
	column1("best [95%]", analysis.BestMetric, withInterval(3)),
	column1("greedy", analysis.GreedyMetric, meanCell(3)),
	column1("test [95%]", analysis.TestMetric, withInterval(3)),
	column1("unseen facts", analysis.UnseenMetric, meanCell(3)),
	column1("`correct_num`", analysis.CorrectMetric, withSeeds(1)),
	column1("`error_num`", analysis.ErrorMetric, withSeeds(1)),
	column1("formatted, right", analysis.FormattedRightMetric, meanCell(1)),
	column1("formatted, wrong", analysis.FormattedWrongMetric, meanCell(1)),
	column1("unformatted", analysis.UnformattedMetric, meanCell(1)),
	column1("steps to 50%", analysis.StepsTo50Metric, meanCell(1)),
	column1("steps to 90%", analysis.StepsTo90Metric, meanCell(1)),
	column1("length", analysis.LengthMetric, meanCell(1)),
	column1("length, right", analysis.LengthRightMetric, meanCell(1)),
	column1("length, wrong", analysis.LengthWrongMetric, meanCell(1)),
	column1("entropy", analysis.EntropyMetric, threeDigits),
	column1("gradient norm", analysis.GradNormMetric, threeDigits),
	column1("clip fraction", analysis.ClipFractionMetric, threeDigits),
	{head: "status", text: true, cell: func(r *analysis.ArmResult) string { return r.Status }},
}

// terminalColumns are those that fit a terminal.
var terminalColumns = []armColumn{
	{head: "arm", text: true, cell: func(r *analysis.ArmResult) string { return r.Name() }},
	column1("final\n[95% interval]", analysis.FinalMetric, withInterval(3)),
	column1("best", analysis.BestMetric, meanCell(3)),
	column1("greedy", analysis.GreedyMetric, meanCell(3)),
	column1("test", analysis.TestMetric, meanCell(3)),
	{head: "correct/\nerror", cell: func(r *analysis.ArmResult) string {
		return slash(r.Of(analysis.CorrectMetric), r.Of(analysis.ErrorMetric), 1)
	}},
	{head: "formatted\nright/wrong", cell: func(r *analysis.ArmResult) string {
		return slash(r.Of(analysis.FormattedRightMetric), r.Of(analysis.FormattedWrongMetric), 1)
	}},
	column1("un-\nformatted", analysis.UnformattedMetric, meanCell(1)),
	{head: "steps to\n50%/90%", cell: func(r *analysis.ArmResult) string {
		return slash(r.Of(analysis.StepsTo50Metric), r.Of(analysis.StepsTo90Metric), 0)
	}},
	column1("length", analysis.LengthMetric, meanCell(1)),
	{head: "status", text: true, cell: func(r *analysis.ArmResult) string { return r.Status }},
}

// slash is "955.2/68.8".
func slash(x, y analysis.Summary, digits int) string {
	if x.N == 0 && y.N == 0 {
		return analysis.Absent
	}
	return analysis.Decimals(x.Mean, digits) + "/" + analysis.Decimals(y.Mean, digits)
}

// fill prints the arms' cells, leaving out columns that no arm fills.
func fill(columns []armColumn, arms []analysis.ArmResult) ([]armColumn, [][]string) {
	var kept []armColumn
	rows := make([][]string, len(arms))
	for _, c := range columns {
		cells := make([]string, len(arms))
		some := c.text || len(arms) == 0
		for i := range arms {
			cells[i] = c.cell(&arms[i])
			some = some || cells[i] != analysis.Absent
		}
		if !some {
			continue
		}
		kept = append(kept, c)
		for i := range rows {
			rows[i] = append(rows[i], cells[i])
		}
	}
	return kept, rows
}

// markdownTable prints rows under their heads; cells must be escaped.
func markdownTable(b *strings.Builder, columns []armColumn, rows [][]string) {
	b.WriteString("|")
	for _, c := range columns {
		b.WriteString(" " + strings.ReplaceAll(c.head, "\n", " ") + " |")
	}
	b.WriteString("\n|")
	for _, c := range columns {
		if c.text {
			b.WriteString(" --- |")
		} else {
			b.WriteString(" ---: |")
		}
	}
	b.WriteString("\n")
	for _, row := range rows {
		b.WriteString("|")
		for _, cell := range row {
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
}

// TableNotes say what the columns are.
func (a *Report) TableNotes() []string {
	on := "the validation problems"
	if len(a.Arms) > 0 && a.Arms[0].Problems > 0 && a.SameProblems() {
		on = fmt.Sprintf("%d validation problems", a.Arms[0].Problems)
	}
	out := []string{
		fmt.Sprintf("Final, best, greedy: share of %s answered right after the last step (sampled), at the run's best step (sampled) and after the last step decoded greedily; means over the finished seeds, with 95%% intervals by Student's t.", on),
		"The best step was chosen on the same problems, so its reward flatters. The test problems were read once, after training.",
		"Counts and lengths (tokens) are of the last sampled validation. Steps to 50% and 90% are the first evaluated steps at which a run had that share of its own best reward; they are left out where the base level was there already.",
		"Entropy (nats a token) and gradient norm are means over the last tenth of the steps.",
	}
	if levels := a.levelsText("base level (before training)"); len(levels) > 0 {
		if stats.IsFinite(a.Majority) && a.MajorityAnswer != "" {
			levels[len(levels)-1] += fmt.Sprintf(" (always %q)", a.MajorityAnswer)
		}
		s := strings.Join(levels, "; ")
		out = append(out, strings.ToUpper(s[:1])+s[1:]+".")
	}
	return out
}

// levelsText is the base level, called base, and the majority-answer baseline in
// words, by arm where the arms differ in one.
func (a *Report) levelsText(base string) []string {
	var out []string
	add := func(name string, shared float64, of func(analysis.ArmResult) float64) {
		if stats.IsFinite(shared) {
			out = append(out, name+" "+analysis.Decimals(shared, 3))
			return
		}
		var each []string
		for _, r := range a.Arms {
			if stats.IsFinite(of(r)) {
				each = append(each, r.Name()+" "+analysis.Decimals(of(r), 3))
			}
		}
		if len(each) > 0 {
			out = append(out, name+" by arm: "+strings.Join(each, ", "))
		}
	}
	add(base, a.Base, func(r analysis.ArmResult) float64 { return r.Of(analysis.InitialMetric).Mean })
	add("majority-answer baseline", a.Majority, func(r analysis.ArmResult) float64 { return r.Majority })
	return out
}
