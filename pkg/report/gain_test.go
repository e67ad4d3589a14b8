package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// withSets adds evaluations on unseen facts and on a file to the runs of a sweep.
func withSets(sw *sweepdir.Sweep) *sweepdir.Sweep {
	for _, s := range sw.Runs {
		if s.Run == nil || s.Run.Result == nil {
			continue
		}
		for k, split := range []string{rundir.SplitUnseen, "hard|set"} {
			first, last := s.Run.Result.Initial, s.Run.Result.Final
			first.Split, last.Split = split, split
			first.Greedy = last.Greedy
			if k == 1 {
				s.Run.Result.Sets = []rundir.SetResult{{Name: split, Initial: first, Final: last}}
				continue
			}
			s.Run.Evals = append([]rundir.Eval{first}, s.Run.Evals...)
			s.Run.Result.Unseen = &last
		}
	}
	return sw
}

// Validation, unseen facts and files are next to each other in results.md, results.csv,
// results.json and on the page, under names that can't break a table.
func TestSetsInResults(t *testing.T) {
	a, dir := written(t, withSets(reporttest.BaselineSweep(4)))
	md, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsMD))
	expect.OK(t, err)
	rows := markdownRows(t, string(md), "## Sets of problems")
	if len(rows) != 2+2*4 {
		t.Fatalf("%d rows, want 4 sets of 2 arms:\n%s", len(rows), md)
	}
	for i, want := range []string{"validation", "unseen facts", `hard\|set`, "test"} {
		if got := rows[2+i][1]; got != want {
			t.Errorf("row %d is about %q, want %q", i, got, want)
		}
	}
	csv, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsCSV))
	expect.OK(t, err)
	for _, column := range []string{"set_unseen_before_mean", "set_hard|set_after_seed4", "set_hard|set_correct_num_n", "gain_by_answers_lo"} {
		if !strings.Contains(string(csv), ","+column+",") {
			t.Errorf("no column %s", column)
		}
	}
	var sets []analysis.SetResult
	expect.OK(t, rundir.Unmarshal(readResults(t, dir).Arms[1]["sets"], &sets))
	set, want := sets[2], a.Arms[1].Sets[2].Of(analysis.SetAfter)
	if got := set.Of(analysis.SetAfter); set.Set != "hard|set" || got.Mean != want.Mean || got.N != 4 {
		t.Errorf("%s: %+v, want %+v", set.Set, got, want)
	}
	page := filepath.Join(dir, "page.html")
	expect.OK(t, WriteHTML(page, a, nil))
	if html, _ := os.ReadFile(page); !strings.Contains(string(html), "Results by set of problems") {
		t.Error("the page has no table of sets")
	}
}

// Seeds of one setting have their gains, and the means over those that are finished.
func TestGainsBySeed(t *testing.T) {
	runs := []*rundir.Run{poolRun("x", 1, nil), poolRun("y", 2, nil), poolRun("z", 3, nil)}
	for i, right := range [][2]int{{256, 512}, {128, 768}, {256, 1024}} { // of 1024, before and after
		runs[i].Evals = nil
		for k, e := range []*rundir.Eval{&runs[i].Result.Initial, &runs[i].Result.Final} {
			e.Greedy = nil
			e.Sampled = rundir.Counts{N: 1024, CorrectNum: right[k], FormattedRight: right[k], FormattedWrong: 1024 - right[k],
				AnswerReward: float64(right[k]) / 1024, FormatReward: 1}
			runs[i].Evals = append(runs[i].Evals, *e)
		}
	}
	runs[2].Result = nil // not finished
	var b bytes.Buffer
	expect.OK(t, WriteMarkdown(&b, runs))
	want := strings.Join([]string{
		"| 1 | sampled | 0.250 | 0.000 | 0.250 | 1.000, 1.000 | 0.250, 0.500 |",
		"| 2 | sampled | 0.625 | 0.000 | 0.625 | 1.000, 1.000 | 0.125, 0.750 |",
		"| 3 | sampled | 0.750 | 0.000 | 0.750 | 1.000, 1.000 | 0.250, 1.000 |",
		"| mean ± sd | sampled | 0.438 ± 0.265 | 0.000 ± 0.000 | 0.438 ± 0.265 |  |  |\n",
	}, "\n")
	if !strings.Contains(b.String(), want) {
		t.Errorf("want\n%s\nin\n%s", want, b.String())
	}
}

// The shares in the sentence on a gain are of the seeds of the gain.
func TestGainOfHalfASweep(t *testing.T) {
	a := mustReport(t, reporttest.FakeSweep(3, reporttest.FakeArm{Name: "x", Run: func(seed uint64) reporttest.FakeRun {
		if seed == 3 {
			return reporttest.FakeRun{Initial: .9, Final: .9, State: rundir.StateRunning}
		}
		return reporttest.FakeRun{Initial: .25, Final: .75}
	}}))
	i := slices.IndexFunc(a.Findings, func(f analysis.Finding) bool { return f.Kind == analysis.GainSources })
	got := a.sentence(&a.Findings[i])
	for _, want := range []string{"(formatted 53.0%, then 100.0%)", "(right among the formatted 47.1%, then 75.0%)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// Without a formatted completion in one of the seeds, the parts of the others do not add up to the gain of all.
func TestGainWithoutPartsInASeed(t *testing.T) {
	sw := withSets(reporttest.FakeSweep(3, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.7, .01, 1)}))
	r := sw.Runs[1].Run
	for _, before := range []*rundir.Eval{&r.Result.Initial, &r.Result.Sets[0].Initial} {
		none := &before.Sampled
		*none = rundir.Counts{N: none.N, ErrorNum: none.N, Unformatted: none.N}
	}
	a := mustReport(t, sw)
	f := a.FindingsOf(analysis.GainSources)[0]
	if got := a.sentence(f); !strings.Contains(got, "in some of the seeds no completion was formatted before training") || strings.Contains(got, "by format") {
		t.Error(got)
	}
	sets := a.setsTable()
	if text := sets.Markdown(); strings.Count(text, " | n/a | n/a | 0.000 ") != 2 {
		t.Error(text)
	}
	runs := analysis.RunsOf(sw.Runs)
	table := gainsBySeed(runs, make([]analysis.RunInfo, len(runs)))
	if text := table.Markdown(); !strings.Contains(text, " | n/a | n/a |  |  |") || !strings.Contains(text, "| mean ± sd | sampled | 0.") {
		t.Error(text)
	}
}

// The summary of a run has a row for each set, and what its gain is made of.
func TestSetsInSummary(t *testing.T) {
	r := withSets(reporttest.BaselineSweep(1)).Runs[0].Run
	r.Config = []byte("name: x\n")
	var b strings.Builder
	expect.OK(t, WriteSummary(&b, r))
	for _, want := range []string{"\nhard|set", "\nunseen facts", "gain of the"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Names in headings and notes can't break a table either.
func TestMarkdownOfNames(t *testing.T) {
	table := Table{Columns: []Column{{Head: "mean of `eval.reward`,\nhard|set"}}, Notes: []string{"Always <b>.", "By arm: *a*|b."}}
	table.add("x")
	want := "| mean of `eval.reward`, hard\\|set |\n| ---: |\n| x |\n\nAlways &lt;b>. By arm: \\*a\\*\\|b.\n"
	if got := table.Markdown(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
