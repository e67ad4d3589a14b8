package report

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
)

func TestAssignmentLine(t *testing.T) {
	r := &rundir.Run{Dir: "x", Result: &rundir.Result{
		Status: rundir.StateDone, LearningRate: 0.001,
		Final: rundir.Eval{Step: 200, Sampled: rundir.Counts{N: 1024, CorrectNum: 871, ErrorNum: 153}},
	}}
	tests := []struct {
		name   string
		change func()
		want   string
		ok     bool
	}{
		{"the assignment's example", func() {},
			"learning_rate: 0.001 Eval step: 200 correct_num: 871 error_num: 153", true},
		{"a small rate as Python prints it", func() { r.Result.LearningRate = 1e-5 },
			"learning_rate: 1e-5 Eval step: 200 correct_num: 871 error_num: 153", true},
		{"3e-4", func() { r.Result.LearningRate = 3e-4 },
			"learning_rate: 0.0003 Eval step: 200 correct_num: 871 error_num: 153", true},
		{"no step was made", func() { r.Result.Final.Step = 0 }, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.change()
			got, ok, err := AssignmentLine(r)
			if err != nil || got != tt.want || ok != tt.ok {
				t.Errorf("got %q, %v, %v", got, ok, err)
			}
		})
	}
}

func TestSummaryAgainstGolden(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T) *rundir.Run
	}{
		{"done", func(t *testing.T) *rundir.Run { return reporttest.SynthRun(t, 1, 200) }},
		{"half", reporttest.HalfRun},
		{"diverged", reporttest.DivergedRun},
		{"off-policy", reporttest.OffPolicyRun},
		{"fresh", reporttest.FreshRun},
		{"bare", reporttest.BareRun},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var buf bytes.Buffer
			expect.OK(t, WriteSummary(&buf, tt.run(t), "results/train-1/validation_reward.png"))
			reporttest.Golden(t, "summary-"+tt.name+".txt", buf.Bytes())
		})
	}
}

func TestMarkdownAgainstGolden(t *testing.T) {
	tests := []struct {
		name  string
		runs  func(*testing.T) []*rundir.Run
		notes []string
	}{
		{"one", func(t *testing.T) []*rundir.Run { return []*rundir.Run{reporttest.SynthRun(t, 1, 200)} }, []string{"1024 problems", `"8"`, "Wilson"}},
		{"seeds", func(t *testing.T) []*rundir.Run {
			return []*rundir.Run{reporttest.SynthRun(t, 1, 200), reporttest.SynthRun(t, 2, 200), reporttest.SynthRun(t, 3, 200), reporttest.SynthRun(t, 4, 200)}
		}, []string{"n = 4 finished runs", "standard deviation"}},
		{"mixed", func(t *testing.T) []*rundir.Run {
			return []*rundir.Run{reporttest.SynthRun(t, 1, 200), reporttest.OffPolicyRun(t), reporttest.DivergedRun(t), reporttest.FreshRun(t), reporttest.BareRun(t)}
		}, []string{"n = 3 finished runs"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var buf bytes.Buffer
			expect.OK(t, WriteMarkdown(&buf, tt.runs(t)))
			table, notes, _ := strings.Cut(buf.String(), "\n\n")
			reporttest.Golden(t, "markdown-"+tt.name+".md", []byte(table+"\n"))
			for _, fact := range tt.notes {
				if !strings.Contains(notes, fact) {
					t.Errorf("no %q in the notes: %s", fact, notes)
				}
			}
		})
	}
}

// A table's rows all have as many cells as its heading, whatever a run contains.
func TestMarkdownKeepsItsShape(t *testing.T) {
	r := reporttest.DivergedRun(t)
	r.Result.DivergedReason = "a | b\n<script>`x`"
	var buf bytes.Buffer
	expect.OK(t, WriteMarkdown(&buf, []*rundir.Run{r, reporttest.SynthRun(t, 1, 200)}))
	lines := strings.Split(buf.String(), "\n")
	cells := func(line string) int { return strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") }
	for i, line := range lines[:5] {
		if cells(line) != cells(lines[0]) {
			t.Errorf("line %d has %d bars, the heading %d: %s", i+1, cells(line), cells(lines[0]), line)
		}
	}
	if strings.Contains(buf.String(), "<script>") {
		t.Error("a run's text reached the page as HTML")
	}
}

func TestTextTable(t *testing.T) {
	table := Table{Columns: []Column{{Head: "name", Text: true}, {Head: "two\nlines"}, {Head: "x", Text: true}}}
	table.add("größer", "1", "")
	table.add("a", "1000000", "end")
	got := table.String()
	want := "" +
		"            two\n" +
		"name      lines  x\n" +
		"größer        1\n" +
		"a       1000000  end\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestABrokenConfigurationIsNotGuessed(t *testing.T) {
	r := reporttest.SynthRun(t, 1, 37)
	r.Config = []byte("train: [")
	for name, f := range map[string]func() error{
		"summary":  func() error { return WriteSummary(&bytes.Buffer{}, r) },
		"markdown": func() error { return WriteMarkdown(&bytes.Buffer{}, []*rundir.Run{r}) },
		"figures":  func() error { return drawError([]*rundir.Run{r}) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), rundir.ConfigFile) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := WriteMarkdown(&bytes.Buffer{}, nil); err == nil {
		t.Error("a table of no runs")
	}
}

// Figures have few pixels: their own tests look at them.
func TestMain(m *testing.M) {
	plots.DPI = 36
	// A draw writes and reads all files of a sweep. -rapid.checks overrides it.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func drawError(runs []*rundir.Run) error {
	_, err := plots.Runs(runs, "", nil)
	return err
}

// failingWriter fails as a closed pipe does.
type failingWriter struct{}

var errPipe = errors.New("broken pipe")

func (failingWriter) Write([]byte) (int, error) { return 0, errPipe }

func TestWriteErrorsAreTold(t *testing.T) {
	runs := []*rundir.Run{reporttest.SynthRun(t, 1, 10)}
	for name, err := range map[string]error{
		"summary":  WriteSummary(failingWriter{}, runs[0]),
		"markdown": WriteMarkdown(failingWriter{}, runs),
	} {
		if !errors.Is(err, errPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSigned(t *testing.T) {
	nan := math.NaN()
	for want, s := range map[string]analysis.Summary{
		"+0.250 [0.000, +10.000]":   {Mean: 0.25, Lo: -0.0001, Hi: 10},
		"-10.000 [-20.000, +0.001]": {Mean: -10, Lo: -20, Hi: 0.001},
		"0.000":                     {Mean: 0.0004, Lo: nan, Hi: nan},
		analysis.Absent:             {Mean: nan},
	} {
		if got := signed(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
