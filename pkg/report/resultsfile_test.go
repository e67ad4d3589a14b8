package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// resultsSweeps are sweeps whose tables hold every kind of cell: diverged,
// unfinished and failed runs, off-policy arms, figures that do not exist.
func resultsSweeps() map[string]*sweepdir.Sweep {
	half := func(seed uint64) reporttest.FakeRun {
		f := reporttest.Around(0.93, 0.012, 30)(seed)
		if seed == 3 {
			f.State = rundir.StateInterrupted
		}
		if seed == 4 {
			f.State, f.Err = rundir.StateFailed, "a | b\nc"
		}
		return f
	}
	odd := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "a|b, `c` <d>", Run: half}, reporttest.FakeArm{Name: "not begun", Run: func(uint64) reporttest.FakeRun { return reporttest.FakeRun{State: sweepdir.Missing} }})
	odd.Manifest.Question = "Is <b> | `c`?"
	return map[string]*sweepdir.Sweep{
		"rates": reporttest.RateSweep(4), "clip": reporttest.ClipSweep(4), "controls": reporttest.RewardSweep(2), "grid": reporttest.GridSweep(4), "odd": odd,
		"one seed": reporttest.FakeSweep(1, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)}),
	}
}

func written(t *testing.T, sw *sweepdir.Sweep) (*Report, string) {
	t.Helper()
	dir := t.TempDir()
	a := mustReport(t, sw)
	paths, err := WriteResults(dir, a)
	expect.OK(t, err)
	if len(paths) != 5 {
		t.Fatalf("wrote %v", paths)
	}
	return a, dir
}

// writtenMetrics are the metrics in the tables that are written.
func writtenMetrics() []*analysis.Metric {
	return slices.DeleteFunc(slices.Clone(analysis.Metrics), func(m *analysis.Metric) bool { return m.Timed })
}

func TestResultsJSONReadsBack(t *testing.T) {
	for name, sw := range resultsSweeps() {
		t.Run(name, func(t *testing.T) {
			a, dir := written(t, sw)
			got := readResults(t, dir)
			for i := range a.Arms {
				for _, m := range writtenMetrics() {
					var back analysis.Summary
					if err := rundir.Unmarshal(got.Arms[i][m.Name], &back); err != nil {
						t.Fatalf("arm %d, %s: %v", i, m.Name, err)
					}
					if want := a.Arms[i].Of(m); !sameBits(want, back) {
						t.Errorf("arm %d, %s: %+v, was %+v", i, m.Name, back, want)
					}
				}
				if _, ok := got.Arms[i]["wall_s"]; ok {
					t.Error("the times of runs are written")
				}
			}
			var comparisons []analysis.Comparison
			expect.OK(t, rundir.Unmarshal(got.Comparisons, &comparisons))
			first, err := rundir.Marshal(a.Comparisons)
			expect.OK(t, err)
			second, err := rundir.Marshal(comparisons)
			expect.OK(t, err)
			if !bytes.Equal(first, second) {
				t.Errorf("comparisons read back as\n%s\nwere\n%s", second, first)
			}
		})
	}
}

// resultsFile is results.json: the arms field by field.
type resultsFile struct {
	Arms        []map[string]json.RawMessage
	Comparisons json.RawMessage
}

func readResults(t *testing.T, dir string) (out resultsFile) {
	t.Helper()
	expect.OK(t, json.Unmarshal([]byte(read(t, dir, sweepdir.ResultsJSON)), &out))
	return out
}

func sameBits(a, b analysis.Summary) bool {
	x := append([]float64{a.Mean, a.SD, a.Lo, a.Hi}, a.Values...)
	y := append([]float64{b.Mean, b.SD, b.Lo, b.Hi}, b.Values...)
	return a.N == b.N && slices.EqualFunc(x, y, func(v, w float64) bool {
		return math.IsNaN(v) && math.IsNaN(w) || math.Float64bits(v) == math.Float64bits(w)
	})
}

// Users' files depend on the names of the metrics and on their order.
func TestMetricNames(t *testing.T) {
	const want = "initial final best greedy test unseen late_gain correct_num error_num formatted_right formatted_wrong unformatted " +
		"steps_to_50 steps_to_90 format_reward initial_format_reward initial_greedy initial_greedy_format_reward " +
		"greedy_format_reward gain_by_format gain_by_answers greedy_gain_by_format greedy_gain_by_answers completion_length completion_length_right completion_length_wrong " +
		"initial_completion_length train_reward train_answer_reward entropy grad_norm clip_fraction sampler_logprob_max_diff updates_per_step score initial_score wall_s"
	var got []string
	for _, m := range analysis.Metrics {
		got = append(got, m.Name)
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

func TestResultsCSVReadsBack(t *testing.T) {
	for name, sw := range resultsSweeps() {
		t.Run(name, func(t *testing.T) {
			a, dir := written(t, sw)
			data, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsCSV))
			expect.OK(t, err)
			rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
			expect.OK(t, err)
			if len(rows) != len(a.Arms)+1 {
				t.Fatalf("%d rows for %d arms", len(rows), len(a.Arms))
			}
			at := map[string]int{}
			for i, head := range rows[0] {
				if _, ok := at[head]; ok {
					t.Fatalf("two columns %s", head)
				}
				at[head] = i
			}
			number := func(arm int, column string) float64 {
				i, ok := at[column]
				if !ok {
					t.Fatalf("no column %s", column)
				}
				if rows[arm+1][i] == "" {
					return math.NaN()
				}
				v, err := strconv.ParseFloat(rows[arm+1][i], 64)
				expect.OK(t, err)
				return v
			}
			for i := range a.Arms {
				r := &a.Arms[i]
				if rows[i+1][at["arm"]] != r.Arm.Name || rows[i+1][at["status"]] != r.Status {
					t.Errorf("row %d is %v", i, rows[i+1][:6])
				}
				for _, m := range writtenMetrics() {
					want := r.Of(m)
					back := analysis.Summary{
						N: int(number(i, m.Name+"_n")), Mean: number(i, m.Name+"_mean"), SD: number(i, m.Name+"_sd"),
						Lo: number(i, m.Name+"_lo"), Hi: number(i, m.Name+"_hi"),
					}
					for _, s := range a.Sweep.Manifest.Seeds {
						back.Values = append(back.Values, number(i, fmt.Sprintf("%s_seed%d", m.Name, s)))
					}
					if !sameBits(want, back) {
						t.Errorf("arm %d, %s: %+v, was %+v", i, m.Name, back, want)
					}
				}
				for k, s := range a.Sweep.Manifest.Seeds {
					got := number(i, fmt.Sprintf("diverged_at_seed%d", s))
					if want := r.DivergedAt[k]; want == nil && !math.IsNaN(got) || want != nil && got != float64(*want) {
						t.Errorf("arm %d, seed %d: diverged at %v", i, s, got)
					}
				}
			}
			for k, axis := range a.Sweep.Manifest.Axes {
				for i := range a.Arms {
					if got := rows[i+1][at[axis.Key]]; got != a.Arms[i].Arm.Point[k] {
						t.Errorf("arm %d: %s = %s", i, axis.Key, got)
					}
				}
			}
		})
	}
}

// markdownRows are the cells of the first table behind a heading.
func markdownRows(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, behind, ok := strings.Cut(text, "\n"+heading+"\n\n")
	if !ok {
		t.Fatalf("no %q in\n%s", heading, text)
	}
	var out [][]string
	bar := regexp.MustCompile(`[^\\]\|`)
	for line := range strings.SplitSeq(behind, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for rest := line[1:]; rest != ""; {
			end := bar.FindStringIndex(rest)
			if end == nil {
				t.Fatalf("a row without an end: %s", line)
			}
			cells = append(cells, strings.TrimSpace(rest[:end[1]-1]))
			rest = rest[end[1]:]
		}
		out = append(out, cells)
	}
	return out
}

// Every number of results.md is that of results.json, rounded as printed.
func TestResultsMarkdownHasTheSameNumbers(t *testing.T) {
	figures := map[string]string{
		"final [95%]": "final", "best [95%]": "best", "greedy": "greedy", "test [95%]": "test", "unseen facts": "unseen",
		"`correct_num`": "correct_num", "`error_num`": "error_num", "formatted, right": "formatted_right", "formatted, wrong": "formatted_wrong",
		"unformatted": "unformatted", "steps to 50%": "steps_to_50", "steps to 90%": "steps_to_90", "length": "completion_length",
		"length, right": "completion_length_right", "length, wrong": "completion_length_wrong", "entropy": "entropy",
		"gradient norm": "grad_norm", "clip fraction": "clip_fraction", "sampler difference": "sampler_logprob_max_diff",
	}
	numberText := regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)
	rounded := func(v float64, like string) string {
		_, decimals, _ := strings.Cut(like, ".")
		return strconv.FormatFloat(v, 'f', len(decimals), 64)
	}
	for name, sw := range resultsSweeps() {
		t.Run(name, func(t *testing.T) {
			a, dir := written(t, sw)
			data, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsMD))
			expect.OK(t, err)
			rows := markdownRows(t, string(data), "## Arms")
			if len(rows) != len(a.Arms)+2 {
				t.Fatalf("%d rows for %d arms", len(rows), len(a.Arms))
			}
			for head, figure := range figures {
				some := slices.ContainsFunc(a.Arms, func(r analysis.ArmResult) bool { return r.Of(analysis.MetricOf(figure)).N > 0 })
				if slices.Contains(rows[0], head) != some {
					t.Errorf("column %s is there: %v, has a figure: %v", head, !some, some)
				}
			}
			for i, row := range rows[2:] {
				if len(row) != len(rows[0]) {
					t.Fatalf("row %d has %d cells, the head %d: %q", i, len(row), len(rows[0]), row)
				}
				for k, cell := range row {
					head := rows[0][k]
					if head == "arm" || head == "status" || head == "seeds" {
						continue
					}
					spec := analysis.MetricOf(figures[head])
					f := a.Arms[i].Of(spec)
					var want []float64
					switch got := numberText.FindAllString(cell, -1); {
					case f.N == 0:
						if cell != analysis.Absent {
							t.Errorf("%s of arm %d: %q of nothing", head, i, cell)
						}
						continue
					case strings.Contains(cell, "["):
						want = []float64{f.Mean, f.Lo, f.Hi}
						fallthrough
					case strings.Contains(cell, "("):
						if want == nil {
							want = append([]float64{f.Mean}, stats.Finite(f.Values)...)
						}
						fallthrough
					default:
						if want == nil {
							want = []float64{f.Mean}
						}
						if len(got) != len(want) {
							t.Fatalf("%s of arm %d: %q, want %v", head, i, cell, want)
						}
						for n := range got {
							if got[n] != rounded(want[n], got[n]) {
								t.Errorf("%s of arm %d: %s in %q, want %v", head, i, got[n], cell, want[n])
							}
						}
					}
				}
			}
			for _, f := range a.Findings { // gains are in a table
				if f.Kind == analysis.GainSources && !strings.Contains(string(data), "| "+pointsOf(*f.Numbers)+" | ") {
					t.Errorf("no gain of %s", pointsOf(*f.Numbers))
				}
			}
			for _, line := range a.otherLines() {
				if !strings.Contains(string(data), "- "+escapeMarkdown(line)+"\n") {
					t.Errorf("it does not say %q", line)
				}
			}
			if !strings.Contains(string(data), "**"+escapeMarkdown(a.Verdict.Headline)+"**") {
				t.Error("no headline")
			}
		})
	}
}

// The comparisons in results.md are those of the analysis.
func TestResultsMarkdownComparisons(t *testing.T) {
	a, dir := written(t, reporttest.GridSweep(4))
	data, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsMD))
	expect.OK(t, err)
	rows := markdownRows(t, string(data), "## Differences in the final validation reward")
	var want []analysis.Comparison
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			want = append(want, c)
		}
	}
	if len(rows) != len(want)+2 || len(want) != 3 {
		t.Fatalf("%d rows for %d comparisons", len(rows)-2, len(want))
	}
	for i, c := range want {
		cell := fmt.Sprintf("%.1f [%.1f, %.1f]", 100*c.Mean, 100*c.Lo, 100*c.Hi)
		if rows[i+2][2] != cell || (rows[i+2][7] == "yes") != c.Separable {
			t.Errorf("row %d: %v, want %s", i, rows[i+2], cell)
		}
	}
}

// Times, places and command lines are in none of the tables: the same runs
// made again, elsewhere and slower, give the same bytes.
func TestResultsAreOfTheRunsAlone(t *testing.T) {
	read := func(sw *sweepdir.Sweep) map[string]string {
		_, dir := written(t, sw)
		out := map[string]string{}
		for _, name := range []string{sweepdir.ResultsCSV, sweepdir.ResultsJSON, sweepdir.ResultsMD, sweepdir.ResultsTeX, sweepdir.CurvesCSV} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			expect.OK(t, err)
			out[name] = string(data)
		}
		return out
	}
	first := read(reporttest.ClipSweep(4))
	again := reporttest.ClipSweep(4)
	again.Dir, again.Manifest.Argv = "elsewhere", []string{"grpo", "report"}
	for i, s := range again.Runs {
		s.Run.Result.WallS = float64(1000 + i)
		s.Run.Meta = &rundir.Meta{Host: "another", Started: "2026-01-01T00:00:00Z"}
		s.Run.Status.Updated, s.Run.Status.PID = "2026-01-01T00:00:00Z", 4711
		for k := range s.Run.Metrics {
			s.Run.Metrics[k].Time.ElapsedS = float64(k)
		}
	}
	for name, text := range read(again) {
		if text != first[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// Foreign text makes no column, link, image, HTML or code of its own.
func TestEscapeMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"lr=0.001, seed 1":            "lr=0.001, seed 1",
		"4.1 points [1.2, 7.0] (n=4)": "4.1 points [1.2, 7.0] (n=4)",
		"a|b\\|c":                     `a\|b\\\|c`,
		"loss -A*logp":                `loss -A\*logp`,
		"![x](http://evil/x.png)":     `![x]\(http://evil/x.png)`,
		"<img src=x> `code`":          "&lt;img src=x> 'code'",
		"line\nto continue: \x1b[2J":  `line\\nto continue: \\x1b[2J`,
	} {
		if got := escapeMarkdown(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
