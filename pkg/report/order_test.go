package report

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/plots"
	"grpo/pkg/sweepdir"
)

// orderedSweeps are sweeps of every shape: few and many arms, a grid, controls, divergence, missing runs.
func orderedSweeps() map[string]*sweepdir.Sweep {
	half := reporttest.RateArms()
	half[0].Left, half[4].Absent = 1, 4
	axes := reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
	return map[string]*sweepdir.Sweep{
		"two arms": reporttest.BaselineSweep(2), "rates": reporttest.RateSweep(4), "grid": reporttest.GridSweep(3),
		"clip": reporttest.ClipSweep(4), "controls": reporttest.RewardSweep(4), "tuned": reporttest.TunedSweep(3),
		"eight arms": reporttest.DrawnSweep(4, nil, reporttest.ManyArms(8)...),
		"half":       reporttest.DrawnSweep(4, axes, half...),
	}
}

// A page, results.md and the summary on a terminal begin with the headline; figures and the table of
// arms come before any list.
func TestHeadlineFigureTable(t *testing.T) {
	dir := t.TempDir()
	for name, sw := range orderedSweeps() {
		t.Run(name, func(t *testing.T) {
			a := mustReport(t, sw)
			figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{PageOnly: true})
			expect.OK(t, err)
			path := filepath.Join(dir, sweepdir.ReportHTML)
			expect.OK(t, WriteHTML(path, a, figures))
			page := read(t, dir, sweepdir.ReportHTML)
			before, _, _ := strings.Cut(page[strings.Index(page, "<main"):], "<table")
			inOrder(t, before, `<p class="headline">`, "<figure", "<img")
			if strings.Contains(before, "<li>") || strings.Contains(before, "<details") {
				t.Error("a list or something folded is before the table of arms")
			}
			for _, list := range regexp.MustCompile(`(?s)<ul.*?</ul>`).FindAllStringIndex(page, -1) {
				if open := strings.LastIndex(page[:list[0]], "<details"); open < strings.LastIndex(page[:list[0]], "</details>") {
					t.Errorf("a list is not folded: %.60s", page[list[0]:])
				}
			}
			shown := shownText(page)
			for _, s := range append(append(a.otherLines(), a.Verdict.Caveats...), a.Verdict.Missing...) {
				if !strings.Contains(shown, s) {
					t.Errorf("the page does not say %q", s)
				}
			}
			md := a.Markdown()
			inOrder(t, md, "\n**", "\n![validation_reward.png](validation_reward.png)\n", "\n## Arms\n", "\n## What this does not say\n\n- ")
			if head, _, _ := strings.Cut(md, "\n## Arms\n"); strings.Contains(head, "\n- ") {
				t.Error("results.md has a list before the table of arms")
			}
			var b strings.Builder
			expect.OK(t, WriteSweepSummary(&b, a, "folder"))
			inOrder(t, b.String(), a.Verdict.Headline, "\narm ", "95%", "folder/report.html")
			if strings.Contains(b.String(), "\n- ") {
				t.Errorf("the summary has a list:\n%s", b.String())
			}
			if lines := strings.Count(b.String(), "\n"); lines > len(a.Arms)+len(a.Verdict.Missing)+9 {
				t.Errorf("the summary has %d lines:\n%s", lines, b.String())
			}
		})
	}
}

// Every gain of a verdict is in the table of gains, number by number.
func TestGainsTable(t *testing.T) {
	a := mustReport(t, reporttest.RateSweep(4))
	table := a.gainsTable()
	for i, r := range a.Arms {
		g := r.Gains()[0]
		row := table.Rows[2*i].Cells
		if row[0].Text != r.Name() || row[1].Text != pointsOf(g.Total) || row[2].Text != pointsOf(g.ByFormat) || row[3].Text != pointsOf(g.ByAnswers) {
			t.Errorf("%s: row %+v", r.Name(), row)
		}
		if sum := g.ByFormat.Mean + g.ByAnswers.Mean; sum-g.Total.Mean > 1e-9 || g.Total.Mean-sum > 1e-9 {
			t.Errorf("%s: the parts add up to %v of %v", r.Name(), sum, g.Total.Mean)
		}
	}
}

// Readers see the values of an axis as they were typed; names and the files for programs have the
// canonical ones.
func TestValuesAsTyped(t *testing.T) {
	arms := reporttest.RateArms()[:2]
	axes := reporttest.RatesAxis("0.0001", "0.0003")
	axes[0].Written = []string{"1e-4", "3e-4"}
	for i, rate := range axes[0].Values {
		arms[i].Name, arms[i].Label, arms[i].Point = "lr="+rate, axes[0].Label+" "+rate, []string{rate}
	}
	a := mustReport(t, reporttest.DrawnSweep(3, axes, arms...))
	path := filepath.Join(t.TempDir(), sweepdir.ReportHTML)
	figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{PageOnly: true})
	if err == nil {
		err = WriteHTML(path, a, figures)
	}
	expect.OK(t, err)
	var summary strings.Builder
	expect.OK(t, WriteSweepSummary(&summary, a, "folder"))
	shown := map[string]string{
		"page": shownText(read(t, filepath.Dir(path), sweepdir.ReportHTML)), "results.md": a.Markdown(), "summary": summary.String(),
		"LaTeX": string(latexFile(a.latexTables("lr")...)), "headline": a.Verdict.Headline, "lines": strings.Join(a.Verdict.Lines, " "),
	}
	for _, d := range figures {
		svg := string(d.Page.Data)
		if shown[d.File] = svg; d.File == "final_vs_lr.png" && !strings.Contains(svg, ">3e-4</text>") {
			t.Error("the axis has other ticks")
		}
	}
	for where, text := range shown {
		if strings.Contains(text, "rate 0.0003") || strings.Contains(text, ">0.0003<") || strings.HasPrefix(text, "0.000") {
			t.Errorf("%s has a rate that was typed as 3e-4", where)
		}
	}
	inOrder(t, shown["summary"], "earning rate 3e-4", "learning rate 1e-4", "learning rate 3e-4")
	table := a.resultsTable()
	if csv := string(table.CSV()); !strings.Contains(csv, "lr=0.0003,learning rate 0.0003,false,0.0003,") {
		t.Errorf("results.csv:\n%.300s", csv)
	}
}
