package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

// armColumn is a column of the tables of arms.
type armColumn = column[*analysis.ArmResult]

// armWords is a column of words, which is marked where a run diverged or failed.
func armWords(head string, text func(*analysis.ArmResult) string) armColumn {
	return armColumn{Column{Head: head, Text: true, Wrap: "middle"}, func(r *analysis.ArmResult) Cell {
		return Cell{Text: text(r), Bad: r.Diverged+r.Failed > 0}
	}}
}

func metricColumn(head string, m *analysis.Metric, cell func(analysis.Summary) string) armColumn {
	return plain(head, func(r *analysis.ArmResult) string { return cell(r.Of(m)) })
}

// pairColumn is "955.2/68.8" of two metrics.
func pairColumn(head string, x, y *analysis.Metric, digits int) armColumn {
	return plain(head, func(r *analysis.ArmResult) string {
		if r.Of(x).N == 0 && r.Of(y).N == 0 {
			return analysis.Absent
		}
		return analysis.Decimals(r.Of(x).Mean, digits) + "/" + analysis.Decimals(r.Of(y).Mean, digits)
	})
}

var (
	armName   = armWords("arm", func(r *analysis.ArmResult) string { return r.Name() })
	armStatus = armWords("status", func(r *analysis.ArmResult) string { return r.Status })
	armSeeds  = metricColumn("seeds", analysis.FinalMetric, func(s analysis.Summary) string { return fmt.Sprint(s.N) })
)

// armColumns are the columns of results.md and of the page. The first ones fit a
// narrow screen.
var armColumns = []armColumn{
	armName,
	metricColumn("final [95%]", analysis.FinalMetric, interval),
	armStatus, armSeeds,
	metricColumn("best [95%]", analysis.BestMetric, interval),
	metricColumn("greedy", analysis.GreedyMetric, mean(3)),
	metricColumn("test [95%]", analysis.TestMetric, interval),
	metricColumn("unseen facts", analysis.UnseenMetric, mean(3)),
	metricColumn("`correct_num`", analysis.CorrectMetric, eachSeed),
	metricColumn("`error_num`", analysis.ErrorMetric, eachSeed),
	metricColumn("mean of `eval.reward`", analysis.ScoreMetric, threeDigits),
	metricColumn("formatted, right", analysis.FormattedRightMetric, mean(1)),
	metricColumn("formatted, wrong", analysis.FormattedWrongMetric, mean(1)),
	metricColumn("unformatted", analysis.UnformattedMetric, mean(1)),
	metricColumn("steps to 50%", analysis.StepsTo50Metric, mean(1)),
	metricColumn("steps to 90%", analysis.StepsTo90Metric, mean(1)),
	metricColumn("length", analysis.LengthMetric, mean(1)),
	metricColumn("length, right", analysis.LengthRightMetric, mean(1)),
	metricColumn("length, wrong", analysis.LengthWrongMetric, mean(1)),
	metricColumn("entropy", analysis.EntropyMetric, threeDigits),
	metricColumn("gradient norm", analysis.GradNormMetric, threeDigits),
	metricColumn("clip fraction", analysis.ClipFractionMetric, threeDigits),
	metricColumn("sampler difference", analysis.SamplerDiffMetric, func(s analysis.Summary) string {
		if s.N == 0 {
			return analysis.Absent
		}
		return analysis.Significant(s.Mean, 2)
	}),
}

// gainColumn is a mean of the gain of sampled decoding, in points; that of a part only if all seeds of
// the gain have it, so that the parts add up.
func gainColumn(head string, part func(analysis.ArmGain) analysis.Summary) armColumn {
	return plain(head, func(r *analysis.ArmResult) string {
		g := r.GainIn(analysis.FinalMetric.Name)
		s := part(g)
		if s.N == 0 || s.N < g.Total.N {
			return analysis.Absent
		}
		return analysis.InPercent.Bare(s.Mean)
	})
}

// terminalColumns are those of the summary on a terminal.
var terminalColumns = []armColumn{
	armName,
	metricColumn("final\n[95% interval]", analysis.FinalMetric, interval),
	gainColumn("gain\n(points)", func(g analysis.ArmGain) analysis.Summary { return g.Total }),
	gainColumn("by\nformat", func(g analysis.ArmGain) analysis.Summary { return g.ByFormat }),
	gainColumn("by\nanswers", func(g analysis.ArmGain) analysis.Summary { return g.ByAnswers }),
	metricColumn("greedy", analysis.GreedyMetric, mean(3)),
	metricColumn("test", analysis.TestMetric, mean(3)),
	pairColumn("correct/\nerror", analysis.CorrectMetric, analysis.ErrorMetric, 1),
	metricColumn("mean of\neval.reward", analysis.ScoreMetric, threeDigits),
	armStatus,
}

// latexColumns fit a page of a paper.
var latexColumns = []armColumn{
	armName,
	metricColumn("final\n[95% interval]", analysis.FinalMetric, interval),
	metricColumn("best", analysis.BestMetric, mean(3)),
	metricColumn("greedy", analysis.GreedyMetric, mean(3)),
	metricColumn("test", analysis.TestMetric, mean(3)),
	pairColumn("correct/\nerror", analysis.CorrectMetric, analysis.ErrorMetric, 1),
	pairColumn("formatted\nright/wrong", analysis.FormattedRightMetric, analysis.FormattedWrongMetric, 1),
	metricColumn("un-\nformatted", analysis.UnformattedMetric, mean(1)),
	pairColumn("steps to\n50%/90%", analysis.StepsTo50Metric, analysis.StepsTo90Metric, 0),
	metricColumn("length", analysis.LengthMetric, mean(1)),
	armStatus,
}

// armTable is the table of arms with the given columns, without those that no arm
// fills.
func armTable(label string, columns []armColumn, arms []analysis.ArmResult) Table {
	rows := make([]*analysis.ArmResult, len(arms))
	for i := range arms {
		rows[i] = &arms[i]
	}
	t := tableOf(label, columns, rows)
	for i := range t.Rows {
		t.Rows[i].Cells[0].Sort = fmt.Sprint(i)
	}
	t.dropEmpty()
	return t
}

// armsTable is the table of arms of results.md and of the page.
func (a *Report) armsTable() Table {
	t := armTable("Results by arm", armColumns, a.Arms)
	t.Notes = a.tableNotes()
	if a.Best >= 0 {
		t.Rows[a.Best].Badge = a.BestBadge
	}
	return t
}

// tableNotes say what the columns are.
func (a *Report) tableNotes() []string {
	on := "the validation problems"
	if len(a.Arms) > 0 && a.Arms[0].Problems > 0 && a.SameProblems() {
		on = fmt.Sprintf("%d validation problems", a.Arms[0].Problems)
	}
	out := []string{
		fmt.Sprintf("Final, best, greedy: share of %s answered right after the last step (sampled), at the run's best "+
			"step (sampled) and after the last step decoded greedily; means over the finished seeds, with 95%% "+
			"intervals by Student's t.", on),
		"The best step was chosen on the same problems, so its reward is biased upward. The test problems were read " +
			"once, after training.",
		"Counts and lengths (tokens) are of the last sampled validation. Steps to 50% and 90% are the first evaluated " +
			"steps at which a run had that share of its own best reward; they are left out where the base level was already there.",
		"Entropy (nats per token) and gradient norm are means over the last tenth of the steps. Sampler difference: " +
			"the largest difference (nats) between the log-probabilities of sampler and learner over the tokens and " +
			"steps of a run, mean over the seeds.",
	}
	if note := analysis.CurveNote(analysis.RunsOf(a.Sweep.Runs)); note != "" {
		out = append(out, asSentence(note))
	}
	if levels := a.levelsText("base level (before training)"); len(levels) > 0 {
		if stats.IsFinite(a.Majority) && a.MajorityAnswer != "" {
			levels[len(levels)-1] += fmt.Sprintf(" (always %q)", a.MajorityAnswer)
		}
		out = append(out, capital(strings.Join(levels, "; "))+".")
	}
	return out
}

// levelsText is the base level, called base, and the majority-answer baseline, by
// arm where the arms differ in one.
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

// mostPairs is the largest family of which the table has the pairs without the best arm: those of six arms.
const mostPairs = 15

// comparisonsTable is the table of the paired differences in the final reward, or in
// all other metrics.
func (a *Report) comparisonsTable(final bool) Table {
	head, interval, confidence := "mean difference [95% interval]", "95% interval", "95%"
	if a.HasLookLevels() {
		head, confidence = "mean difference [interval]", "that"
		interval = "interval, at 100% less the level of its last planned look,"
	}
	t := Table{Label: "Paired differences", Columns: []Column{
		{Head: "A − B", Text: true}, {Head: "metric", Text: true, Wrap: "short"},
		{Head: head}, {Head: "each seed"}, {Head: "seeds"}, {Head: "p"},
		{Head: "p, adjusted"}, {Head: "separable", Text: true}, {Head: "at most"}, {Head: "on test"},
	}, Notes: []string{
		"Mean of the differences paired over seeds, with its " + interval + " and p value by Student's t over n = seeds " +
			"pairs; p adjusted over the family (docs/statistics.md).",
		"At most: with " + confidence + " confidence the true difference has no larger size. On test: the same difference on the test " +
			"problems of the same runs.",
		"Rewards in points (1 point = 1%).",
	}}
	isLeftOut := func(c analysis.Comparison) bool { return c.Aside && c.Family > mostPairs }
	if final && slices.ContainsFunc(a.Comparisons, isLeftOut) {
		t.Notes = append(t.Notes, "The pairs without the best arm are in results.json.")
	}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		if c.N == 0 || (c.Metric == "final") != final || isLeftOut(*c) {
			continue
		}
		x, y, n := c.A, c.B, analysis.InPercent
		if c.Kind == analysis.KindPair {
			x, y, n = a.Arms[c.ArmA].Name(), a.Arms[c.ArmB].Name(), a.metricNumbers(c)
		}
		each := bareEach(n, c.Diffs)
		for len(each) > 1 && each[len(each)-1] == "-" { // seeds of a later look
			each = each[:len(each)-1]
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{
			{Text: x + " − " + y, Sort: fmt.Sprint(i)}, {Text: metricLabel(c.Metric)},
			{Text: n.Bare(c.Mean) + n.Interval(c.Lo, c.Hi)}, {Text: strings.Join(each, ", ")}, {Text: fmt.Sprint(c.N)},
			{Text: analysis.PValue(c.P), Sort: exact(c.P)}, {Text: analysis.PValue(c.PAdjusted), Sort: exact(c.PAdjusted)},
			{Text: map[bool]string{true: "yes", false: "no"}[c.Separable]},
			{Text: n.Bare(c.Bound), Sort: exact(c.Bound)}, {Text: onTest(c, n)},
		}})
	}
	return t
}

// onTest is the difference on the test problems.
func onTest(c *analysis.Comparison, n analysis.NumberFormat) string {
	if c.Test == nil {
		return analysis.Absent
	}
	return n.Bare(c.Test.Mean) + n.Interval(c.Test.Lo, c.Test.Hi)
}
