package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"

	"pgregory.net/rapid"

	"grpo/pkg/sweepdir"
)

func drawnStudy(t *testing.T) (sweepdir.Study, []*Report) {
	rates := mustReport(t, reporttest.DrawnSweep(2, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms()...))
	arms := mustReport(t, reporttest.DrawnSweep(3, nil, reporttest.ManyArms(2)...))
	return sweepdir.Study{
		Format: sweepdir.FormatVersion, Hash: "0badcafe", Name: "assignment", Title: "Four experiments", Argv: []string{"grpo", "assignment", "--seeds", "2"},
		Parts: []sweepdir.Part{
			{Name: "lr", Question: "Which learning rate?"},
			{Name: "base line", Question: "Does a baseline help?", Chosen: "learning rate 1e-3, the best validation reward of part lr."},
			{Name: "stdnorm", Question: "Standard deviation?"},
		},
	}, []*Report{rates, arms, nil}
}

func writeStudy(t *testing.T) (dir string, st sweepdir.Study, parts []*Report) {
	t.Helper()
	dir = t.TempDir()
	st, parts = drawnStudy(t)
	r, err := WriteStudyReport(dir, st, parts)
	expect.OK(t, err)
	var names []string
	for _, p := range r.Files {
		names = append(names, filepath.Base(p))
	}
	if want := []string{"results.csv", "results.json", "results.md", "results.tex", "report.html"}; !slices.Equal(names, want) {
		t.Errorf("wrote %v, want %v", names, want)
	}
	return dir, st, parts
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	expect.OK(t, err)
	return string(data)
}

func TestStudyPage(t *testing.T) {
	dir, _, parts := writeStudy(t)
	page := read(t, dir, "report.html")
	inOrder(t, page, "<h1>Four experiments</h1>", "3 questions, 16 runs, of which 16 have ended",
		parts[0].Verdict.Headline, html.EscapeString(parts[1].Verdict.Headline), notStarted, // the answers in short
		"1. Which learning rate?", "data:image/svg&#43;xml;base64,", `href="lr/validation_reward.png"`,
		`href="lr/final_vs_lr.png"`, parts[0].Verdict.Headline, `: Results by arm"`, `href="lr/report.html"`,
		"2. Does a baseline help?", "Taken over: learning rate 1e-3", `href="base%20line/validation_reward.png"`, `href="base%20line/report.html"`,
		"3. Standard deviation?", notStarted,
		"How it was made", "grpo assignment --seeds 2", "Resolved base configuration of parts 1, 2", "seed: 1")
	for _, s := range []string{"entropy.png", `: Runs"`, `"Runs"`} {
		if strings.Contains(page, s) {
			t.Errorf("%s belongs into the part's own report", s)
		}
	}
}

func TestStudyMarkdown(t *testing.T) {
	dir, _, parts := writeStudy(t)
	md := read(t, dir, "results.md")
	inOrder(t, md, "# Four experiments\n", "1. Which learning rate? **", "2. Does a baseline help? **", "3. Standard deviation? **"+notStarted,
		"\n## 1. Which learning rate?\n\n**"+escapeMarkdown(parts[0].Verdict.Headline), "](lr/validation_reward.png)", "](lr/final_vs_lr.png)", "\n### Arms\n",
		"](lr/paired_difference.png)", "](lr/report.html)",
		"\n## 2. Does a baseline help?\n\nTaken over: learning rate 1e-3", "](base%20line/final_by_arm.png)", "\n## 3. Standard deviation?\n\n"+notStarted)
	if n := strings.Count("\n"+md, "\n# "); n != 1 {
		t.Errorf("%d headings of the first level", n)
	}
}

// results.csv and results.json of a study hold the parts' own numbers.
func TestStudyTables(t *testing.T) {
	dir, st, parts := writeStudy(t)
	records, err := csv.NewReader(strings.NewReader(read(t, dir, "results.csv"))).ReadAll()
	expect.OK(t, err)
	head, row := records[0], 1
	if head[0] != "part" || len(records) != 1+5+2 {
		t.Fatalf("%d rows under %q", len(records)-1, head[0])
	}
	for i, a := range parts {
		if a == nil {
			continue
		}
		table := a.resultsTable()
		own, err := csv.NewReader(bytes.NewReader(table.CSV())).ReadAll()
		expect.OK(t, err)
		for _, cells := range own[1:] {
			filled := 1
			for k, name := range own[0] {
				if got := records[row][slices.Index(head, name)]; got != cells[k] {
					t.Errorf("%s, %s, %s: %q, want %q", st.Parts[i].Name, cells[0], name, got, cells[k])
				}
				if cells[k] != "" {
					filled++
				}
			}
			for _, cell := range records[row] {
				if cell != "" {
					filled--
				}
			}
			if records[row][0] != st.Parts[i].Name || filled != 0 {
				t.Errorf("row %d is of part %q, with %d cells too few", row, records[row][0], filled)
			}
			row++
		}
	}
	var got struct {
		Parts []struct {
			Chosen  string
			Results *resultsFile
		}
	}
	expect.OK(t, json.Unmarshal([]byte(read(t, dir, sweepdir.ResultsJSON)), &got))
	if len(got.Parts) != 3 || got.Parts[2].Results != nil || got.Parts[1].Chosen == "" {
		t.Fatalf("read back as %+v", got)
	}
	var final analysis.Summary
	if err := rundir.Unmarshal(got.Parts[0].Results.Arms[2]["final"], &final); err != nil || final.Mean != parts[0].Arms[2].Of(analysis.FinalMetric).Mean {
		t.Errorf("%v: the final reward is %+v", err, final)
	}
}

func TestStudyErrors(t *testing.T) {
	st, parts := drawnStudy(t)
	expect.Error(t, expect.Err(WriteStudyReport(t.TempDir(), st, parts[:2])), "2 analyses for 3 parts")
	if _, err := WriteStudyReport(filepath.Join(t.TempDir(), "nowhere"), st, []*Report{nil, nil, nil}); err == nil || !strings.Contains(err.Error(), "write study") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestStudyIsTheSameBytes(t *testing.T) {
	a, _, _ := writeStudy(t)
	b, _, _ := writeStudy(t)
	for _, name := range []string{"results.csv", "results.json", "results.md", "report.html"} {
		if read(t, a, name) != read(t, b, name) {
			t.Errorf("%s differs", name)
		}
	}
}

// Merged heads hold every name once, each table's in its own order where the
// tables agree.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f", "g"}
		pick := func(label string) []string {
			keep := rapid.SliceOfN(rapid.Bool(), len(names), len(names)).Draw(t, label)
			var out []string
			for i, name := range names {
				if keep[i] {
					out = append(out, name)
				}
			}
			return out
		}
		one, two := pick("one"), pick("two")
		got := merge(merge([]string{"part"}, one), two)
		if got[0] != "part" {
			t.Fatalf("got %v", got)
		}
		for _, table := range [][]string{one, two} {
			at := -1
			for _, name := range table {
				i := slices.Index(got, name)
				if i <= at {
					t.Fatalf("%v and %v give %v", one, two, got)
				}
				at = i
			}
		}
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != len(got) {
			t.Fatalf("%v has a name twice", got)
		}
	})
}
