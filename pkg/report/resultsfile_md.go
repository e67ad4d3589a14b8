package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/stats"
)

// Markdown is results.md: question, verdict, the table of arms, the comparisons
// of the final reward, and what the numbers are. Like the other tables it does
// not say when, where or by which command line it was made; report.html does.
func (a *Report) Markdown() string {
	m := &a.Sweep.Manifest
	var b strings.Builder
	title := m.Title
	if title == "" {
		title = m.Name
	}
	fmt.Fprintf(&b, "# %s\n\n", escapeMarkdown(title))
	if m.Question != "" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(m.Question))
	}
	fmt.Fprintf(&b, "**%s**\n", escapeMarkdown(a.Verdict.Headline))
	bullets := func(head string, lines []string) {
		if len(lines) == 0 {
			return
		}
		b.WriteString("\n")
		if head != "" {
			fmt.Fprintf(&b, "%s\n\n", head)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", escapeMarkdown(line))
		}
	}
	bullets("", a.Verdict.Lines)
	bullets("## What is missing", a.Verdict.Missing)
	bullets("## What this does not say", a.Verdict.Caveats)

	b.WriteString("\n## Arms\n\n")
	columns, rows := fill(armColumns, a.Arms)
	for _, row := range rows {
		for i := range row {
			row[i] = escapeMarkdown(row[i])
		}
	}
	markdownTable(&b, columns, rows)
	b.WriteString("\n" + strings.Join(a.TableNotes(), " ") + "\n")
	a.markdownComparisons(&b)
	return b.String()
}

// markdownComparisons is the table of differences in the final reward.
func (a *Report) markdownComparisons(b *strings.Builder) {
	columns := []armColumn{
		{head: "A", text: true}, {head: "B", text: true}, {head: "mean of A - B, points [95% interval]"}, {head: "each seed"}, {head: "seeds"},
		{head: "p"}, {head: "p, adjusted"}, {head: "separable", text: true}, {head: "seeds needed"},
	}
	points := analysis.FormatOf(analysis.FinalMetric, 0)
	var rows [][]string
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		if c.Metric != "final" {
			continue
		}
		cells := a.comparisonCells(c, points)
		rows = append(rows, []string{
			escapeMarkdown(cells.a), escapeMarkdown(cells.b), cells.difference, cells.each,
			fmt.Sprint(c.N), analysis.PValue(c.P), analysis.PValue(c.PHolm), cells.separable, cells.needed,
		})
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n## Differences in the final validation reward\n\n")
	markdownTable(b, columns, rows)
	b.WriteString("\n" + comparisonNote + "\n")
}

const comparisonNote = "Mean of the differences paired over seeds, with its 95% interval and p value by Student's t over n = seeds pairs; p adjusted by Holm's method. " +
	"Seeds needed: for a power of 80%, if the true difference and spread are those seen here."

// comparisonCells are the cells of a comparison in the tables.
type comparisonCells struct{ a, b, difference, each, separable, needed string }

func (a *Report) comparisonCells(c *analysis.Comparison, n analysis.NumberFormat) comparisonCells {
	out := comparisonCells{a: c.A, b: c.B, difference: n.Bare(c.Mean) + n.Interval(c.Lo, c.Hi), separable: "no", needed: c.Needed()}
	if c.Kind == analysis.KindPair {
		out.a, out.b = a.Arms[c.ArmA].Name(), a.Arms[c.ArmB].Name()
	}
	if c.Separable {
		out.separable = "yes"
	}
	each := make([]string, len(c.Diffs))
	for i, d := range c.Diffs {
		each[i] = "-"
		if stats.IsFinite(d) {
			each[i] = n.Bare(d)
		}
	}
	out.each = strings.Join(each, ", ")
	return out
}
