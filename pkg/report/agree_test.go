package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"

	"pgregory.net/rapid"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// randomSweep draws a sweep whose arms differ by chance, by a little or by a lot,
// with and without a reference, axes, diverged and unfinished runs.
func randomSweep(t *rapid.T) *sweepdir.Sweep {
	var arms []reporttest.FakeArm
	rates := rapid.Bool().Draw(t, "rates")
	for i := range rapid.IntRange(1, 4).Draw(t, "arms") {
		mean := rapid.SampledFrom([]float64{.01, .5, .9, .91, .93, 1}).Draw(t, "mean")
		sd := rapid.SampledFrom([]float64{0, .001, .02, .3}).Draw(t, "sd")
		diverges := rapid.IntRange(0, 5).Draw(t, "diverges") == 0
		unfinished := rapid.IntRange(0, 9).Draw(t, "unfinished")
		run := reporttest.Around(mean, sd, uint64(rapid.IntRange(1, 1000).Draw(t, "noise")))
		arm := reporttest.FakeArm{Name: fmt.Sprintf("arm-%d", i), Run: func(seed uint64) reporttest.FakeRun {
			f := run(seed)
			f.Final = reporttest.Clamp(f.Final)
			if diverges {
				f.Diverged = 20
			}
			if int(seed) == unfinished {
				f.State = "running"
			}
			return f
		}}
		if rates {
			arm.Point = []string{fmt.Sprintf("1e-%d", 5-i)}
			arm.Set = []sweepdir.Override{{Key: analysis.RateKey, Value: arm.Point[0]}}
		}
		arms = append(arms, arm)
	}
	sw := reporttest.FakeSweep(rapid.IntRange(1, 5).Draw(t, "seeds"), arms...)
	m := &sw.Manifest
	if rates {
		axis := sweepdir.Axis{Key: analysis.RateKey, Label: "learning rate", Short: "lr", Log: true}
		for _, a := range m.Arms {
			axis.Values = append(axis.Values, a.Point[0])
		}
		m.Axes = []sweepdir.Axis{axis}
	}
	if rapid.Bool().Draw(t, "reference") {
		m.Reference = rapid.SampledFrom(m.Arms).Draw(t, "which").Name
	}
	return sw
}

// Sentences, tables and figures show the same differences: the same arms in the
// same order, the same sign, the same number of seeds needed.
func TestEveryPlaceShowsTheSameDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		analysed, err := analysis.Analyse(randomSweep(t))
		expect.OK(t, err)
		a := New(analysed)
		checkDifferences(t, a)
		checkSigns(t, a)
		checkBadge(t, a)
	})
}

func checkDifferences(t *rapid.T, a *Report) {
	points := analysis.FormatOf(analysis.FinalMetric, 0)
	var finals []analysis.Comparison
	for _, c := range decodedComparisons(t, a) {
		if c.Metric == "final" {
			finals = append(finals, c)
		}
	}
	_, table, _ := strings.Cut(a.Markdown(), "## Differences in the final validation reward\n\n")
	markdown := strings.Split(table, "\n")
	html := a.comparisonsTable(true).Rows
	values := finalsOfCSV(t, a)
	for _, c := range finals {
		difference := points.Bare(c.Mean) + points.Interval(c.Lo, c.Hi)
		most := points.Bare(c.Bound)

		for k, d := range c.Diffs {
			x, y := values[c.A][k], values[c.B][k]
			if stats.IsFinite(d) && d != x-y {
				t.Fatalf("results.csv %v - %v, results.json %v", x, y, d)
			}
		}
		if c.N == 0 {
			continue
		}
		row := html[0].Cells
		html, markdown = html[1:], markdown[1:]
		cells := strings.Split(strings.Trim(markdown[1], "| "), " | ")
		if cells[0] != c.A+" − "+c.B || cells[2] != difference || cells[8] != most {
			t.Fatalf("results.md %q, results.json %s - %s: %s, %s", cells, c.A, c.B, difference, most)
		}
		if row[0].Text != c.A+" − "+c.B || row[2].Text != difference || row[8].Text != most {
			t.Fatalf("page %q, results.json %s - %s: %s, %s", Row{Cells: row}.texts(nil), c.A, c.B, difference, most)
		}
		side := plots.DifferenceText(c)
		if got := strings.NewReplacer("−", "-", "+", "").Replace(side[0]); got != difference {
			t.Fatalf("figure %q, results.json %s", side, difference)
		}
		if c.N > 1 && !c.Separable && !strings.Contains(side[1], "at most "+most+" points") {
			t.Fatalf("figure %q, at most: %s", side, most)
		}
		checkSentence(t, a, c, len(finals) == 1)
	}
}

// checkSentence holds the sentences to a comparison of results.json.
func checkSentence(t *rapid.T, a *Report, c analysis.Comparison, alone bool) {
	points := analysis.FormatOf(analysis.FinalMetric, 0)
	difference := points.Difference(c.Summary())
	x, y := quote(c.A), quote(c.B)
	begins, inHeadline := x+" and "+y, "not separable"
	switch {
	case c.Separable && c.Mean > 0:
		inHeadline = "by " + difference
		begins = x + " beats " + y + " " + inHeadline
	case c.Separable:
		inHeadline = "(difference " + difference + ")"
		begins = x + " is beaten by " + y + " " + inHeadline
	case c.N > 1 && (c.Mean != 0 || c.SD != 0):
		inHeadline = "difference " + difference
	}
	if !strings.HasPrefix(c.Text, begins) {
		t.Fatalf("%q does not begin with %q", c.Text, begins)
	}
	bound := "at most " + points.Bare(c.Bound) + " points"
	if open := c.N > 1 && !c.Separable; open != strings.Contains(c.Text, bound) {
		t.Fatalf("%q, %s: %v", c.Text, bound, open)
	}
	if c.Aside {
		return
	}
	headline := a.Verdict.Headline
	race := slices.ContainsFunc(a.Findings, func(f analysis.Finding) bool { return f.Kind == analysis.Race || f.Kind == analysis.BestRate })
	switch {
	case race:
		at := func(name string) int {
			return slices.IndexFunc(a.Arms, func(r analysis.ArmResult) bool { return r.Arm.Name == name })
		}
		winner, loser := at(c.A), at(c.B)
		if c.Mean < 0 {
			winner, loser = loser, winner
		}
		if short := a.short(loser); c.Separable && a.Arms[winner].Diverged == 0 &&
			!strings.Contains(headline, short+" is clearly worse than") && !strings.Contains(headline, "are clearly worse") {
			t.Fatalf("headline %q: %s is not clearly worse", headline, short)
		}
	case a.RateAxis() == nil && (alone || c.Separable && (a.Best >= 0 || a.Sweep.Manifest.Reference != "")) && c.N > 1 && (c.Separable || c.SD > 0) &&
		!strings.Contains(headline, inHeadline):
		t.Fatalf("headline %q lacks %q", headline, inHeadline)
	}
}

var signedDifference = regexp.MustCompile(`\(difference ([^][;,)]+?(?: \[[^]]*\])?)[;,)]`)

// checkSigns: every signed difference of the verdict is that of a comparison, in
// the order in which the tables have it.
func checkSigns(t *rapid.T, a *Report) {
	shown := map[string]bool{}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		n := analysis.FormatOf(analysis.FinalMetric, 0)
		if c.Kind == analysis.KindPair {
			n = a.metricNumbers(c)
		}
		shown[n.Difference(c.Summary())] = true
	}
	for _, match := range signedDifference.FindAllStringSubmatch(a.Verdict.text(), -1) {
		if !shown[match[1]] {
			t.Fatalf("no comparison has the difference %q\n%s", match[1], a.Verdict.text())
		}
	}
}

// checkBadge: an arm is called the best only where it beats every other, and none has a higher mean: one
// that diverged may have, over seeds that the best arm has not finished.
func checkBadge(t *rapid.T, a *Report) {
	beatsAll, others := true, 0
	for i, r := range a.Arms {
		if i == a.Best || r.Of(analysis.FinalMetric).N == 0 || a.Best < 0 {
			continue
		}
		others++
		best := a.Arms[a.Best].Arm.Name
		higher := r.Of(analysis.FinalMetric).Mean > a.Arms[a.Best].Of(analysis.FinalMetric).Mean
		beatsAll = beatsAll && !higher && slices.ContainsFunc(a.Comparisons, func(c analysis.Comparison) bool {
			return c.Metric == "final" && c.Separable && (c.A == best && c.B == r.Arm.Name && c.Mean > 0 || c.B == best && c.A == r.Arm.Name && c.Mean < 0)
		})
	}
	want := others > 0 && beatsAll
	if got := a.BestBadge == analysis.BadgeBest; got != want {
		t.Fatalf("badge %q, beats all of %d others: %v", a.BestBadge, others, beatsAll)
	}
	claims := strings.Contains(a.Verdict.Headline, "has the best") || strings.Contains(strings.Join(a.Verdict.Lines, "\n"), " is best: ")
	if claims && !want {
		t.Fatalf("%q without a separable best", a.Verdict.text())
	}
	for k, row := range a.armsTable().Rows {
		if (row.Badge == analysis.BadgeBest) != (want && k == a.Best) {
			t.Fatalf("row %d has the badge %q", k, row.Badge)
		}
	}
}

func decodedComparisons(t *rapid.T, a *Report) (out []analysis.Comparison) {
	text, err := rundir.Marshal(a.Results().Comparisons)
	expect.OK(t, err)
	expect.OK(t, rundir.Unmarshal(text, &out))
	return out
}

// finalsOfCSV reads the final reward of each seed, by arm, from results.csv.
func finalsOfCSV(t *rapid.T, a *Report) map[string][]float64 {
	table := a.resultsTable()
	records, err := csv.NewReader(bytes.NewReader(table.CSV())).ReadAll()
	expect.OK(t, err)
	out := map[string][]float64{}
	for _, record := range records[1:] {
		for _, seed := range a.Sweep.Manifest.Seeds {
			v, _ := strconv.ParseFloat(record[slices.Index(records[0], fmt.Sprintf("final_seed%d", seed))], 64)
			out[record[0]] = append(out[record[0]], v)
		}
	}
	return out
}
