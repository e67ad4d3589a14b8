package plots

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"grpo/pkg/rundir"
)

// goldenDPI keeps the golden pictures small.
const goldenDPI = 72

type builder func([]*rundir.Run) (*figure, error)

func renderSmall(t *testing.T, build builder, runs []*rundir.Run) []byte {
	t.Helper()
	fig, err := build(runs)
	expect.OK(t, err)
	fig.dpi = goldenDPI
	data, err := fig.encode("png")
	expect.OK(t, err)
	return data
}

func TestFiguresAgainstGolden(t *testing.T) {
	one := func(t *testing.T) []*rundir.Run { return []*rundir.Run{reporttest.SynthRun(t, 1, 200)} }
	odd := func(t *testing.T) []*rundir.Run {
		return []*rundir.Run{reporttest.SynthRun(t, 1, 200), reporttest.SynthRun(t, 2, 70), reporttest.DivergedRun(t), reporttest.BareRun(t)}
	}
	// Unseen facts evaluated with every validation are curves, not points.
	dense := func(t *testing.T) []*rundir.Run {
		var runs []*rundir.Run
		for seed := uint64(1); seed <= 4; seed++ {
			r := reporttest.SynthRun(t, seed, 200)
			r.Evals = nil
			for step := 0; step <= 200; step += 10 {
				r.Evals = append(r.Evals, reporttest.SynthEval(seed, step, rundir.SplitVal), reporttest.SynthEval(seed, step, rundir.SplitUnseen))
			}
			runs = append(runs, r)
		}
		return runs
	}
	often := func(t *testing.T) []*rundir.Run {
		return []*rundir.Run{sampledOften(reporttest.SynthRun(t, 1, 50)), sampledOften(reporttest.SynthRun(t, 2, 50))}
	}
	tests := []struct {
		name  string
		build builder
		runs  func(*testing.T) []*rundir.Run
	}{
		{"validation-seeds", runsValidation, dense},
		{"validation-one", runsValidation, one},
		{"validation-odd", runsValidation, odd},
		{"training-one", runsTraining, one},
		{"training-odd", runsTraining, odd},
		{"pass-at-k", runsPassAtK, often},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reporttest.Golden(t, tt.name+".png", renderSmall(t, tt.build, tt.runs(t)))
		})
	}
}

func TestFiguresAreTheSameBytes(t *testing.T) {
	runs := []*rundir.Run{reporttest.SynthRun(t, 1, 50), reporttest.SynthRun(t, 2, 50), reporttest.SynthRun(t, 3, 50)}
	for name, build := range map[string]builder{"validation": runsValidation, "training": runsTraining} {
		first := renderSmall(t, build, runs)
		old := runtime.GOMAXPROCS(1)
		second := renderSmall(t, build, runs)
		runtime.GOMAXPROCS(old)
		if !bytes.Equal(first, second) {
			t.Errorf("%s: the second drawing differs", name)
		}
	}
}

// Runs of every age and kind can be drawn, or the error names what is missing.
func TestFiguresOfUnusualRuns(t *testing.T) {
	allNaN := func(t *testing.T) *rundir.Run {
		r := reporttest.SynthRun(t, 1, 20)
		for i := range r.Metrics {
			r.Metrics[i] = rundir.Metrics{Step: i + 1, GradNorm: math.NaN(), Entropy: math.Inf(1), AnswerReward: math.NaN()}
		}
		return r
	}
	huge := func(t *testing.T) *rundir.Run {
		r := reporttest.SynthRun(t, 1, 20)
		r.Metrics[10].GradNorm = math.MaxFloat64
		r.Metrics[11].Entropy = 1e12
		return r
	}
	empty := func(t *testing.T) *rundir.Run {
		r := reporttest.SynthRun(t, 1, 20)
		for i := range r.Evals {
			r.Evals[i].Sampled = rundir.Counts{AnswerReward: math.NaN()}
			r.Evals[i].Greedy = nil
		}
		return r
	}
	tests := []struct {
		name                    string
		run                     func(*testing.T) *rundir.Run
		wantValidation, wantTrn string // part of the error, "" = draws
	}{
		{"fresh", reporttest.FreshRun, "", "no run has a line of metrics"},
		{"bare", reporttest.BareRun, "no run has a validation", "no run has a line of metrics"},
		{"one step", func(t *testing.T) *rundir.Run { return reporttest.SynthRun(t, 1, 1) }, "", ""},
		{"half", reporttest.HalfRun, "", ""},
		{"diverged", reporttest.DivergedRun, "", ""},
		{"off-policy", reporttest.OffPolicyRun, "", ""},
		{"nothing is finite", allNaN, "", ""},
		{"exploded", huge, "", ""},
		{"evaluations of no problem", empty, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range []struct {
				build builder
				want  string
			}{{runsValidation, tt.wantValidation}, {runsTraining, tt.wantTrn}} {
				runs := []*rundir.Run{tt.run(t)}
				if f.want == "" {
					renderSmall(t, f.build, runs)
					continue
				}
				expect.Error(t, expect.Err(f.build(runs)), f.want)
			}
		})
	}
}

func TestPNGSaysItsResolution(t *testing.T) {
	inFull(t)
	all, err := Runs([]*rundir.Run{reporttest.SynthRun(t, 1, 20)}, "Another title", nil)
	expect.OK(t, err)
	buf := bytes.NewBuffer(all[0].PNG)
	img, err := png.Decode(bytes.NewReader(buf.Bytes()))
	expect.OK(t, err)
	if got := img.Bounds().Dx(); got != 1440 {
		t.Errorf("%d pixels wide, want 7.2 inches at 200 dpi", got)
	}
	at := bytes.Index(buf.Bytes(), []byte("pHYs"))
	if at != 37 {
		t.Fatalf("pHYs at byte %d, want it right behind IHDR", at)
	}
	if got := binary.BigEndian.Uint32(buf.Bytes()[at+4:]); got != 7874 {
		t.Errorf("%d pixels a metre, want 7874 (200 dpi)", got)
	}
}

func TestWriteFigureKeepsTheOldOneOnAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), rundir.ValidationPlot)
	expect.OK(t, os.WriteFile(path, []byte("old"), 0o644))
	err := WriteFigure(path, func(io.Writer) error { return errors.New("no data") })
	if err == nil {
		t.Fatal("no error")
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %q", got)
	}
}

func TestMeanNeedsEverySeed(t *testing.T) {
	a := analysis.Series{{X: 0, Y: 1}, {X: 10, Y: 2}, {X: 20, Y: 3}}
	b := analysis.Series{{X: 0, Y: 3}, {X: 20, Y: 5}, {X: 30, Y: 9}}
	want := analysis.Series{{X: 0, Y: 2}, {X: 20, Y: 4}}
	if got := analysis.MeanSeries([]analysis.Series{a, b}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-z(]{1,12}`)).Draw(t, "words")
		width := vg.Points(rapid.Float64Range(20, 300).Draw(t, "width"))
		lines := wrap(captionText, strings.Join(words, " "), width)
		if got := strings.Join(lines, " "); got != strings.Join(words, " ") {
			t.Fatalf("the text became %q", got)
		}
		for _, line := range lines {
			if strings.Contains(line, " ") && captionText.Width(line) > width {
				t.Fatalf("%q is wider than %v", line, width)
			}
		}
	})
}

// However many entries there are, a legend stays inside its width, unless a
// single entry is wider than that.
func TestLegendFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z ]{1,30}`), 1, 12).Draw(t, "names")
		width := vg.Points(rapid.Float64Range(250, 600).Draw(t, "width"))
		entries := make([]legendEntry, len(names))
		for i, name := range names {
			entries[i].name = name
		}
		columns := legendColumns(entries, width)
		var total vg.Length
		for i, w := range columns {
			if i > 0 {
				total += vg.Points(entryGap)
			}
			total += w
		}
		if total > width+1e-9 {
			t.Fatalf("columns of %v take %v of %v", columns, total, width)
		}
		rows := (len(entries) + len(columns) - 1) / len(columns)
		if legendHeight(entries, width) < vg.Length(rows)*lineHeight(legendText) {
			t.Fatalf("%d rows do not fit into the height", rows)
		}
	})
}

func TestTicks(t *testing.T) {
	tests := []struct {
		name   string
		ticks  niceTicks
		lo, hi float64
		want   string
	}{
		{"reward", niceTicks{want: 5}, 0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{"200 steps", niceTicks{want: 4, integer: true}, 0, 200, "0 50 100 150 200"},
		{"one step", niceTicks{want: 4, integer: true}, 0, 1, "0 1"},
		{"small norms", niceTicks{want: 4}, 0, 0.0212, "0.000 0.005 0.010 0.015 0.020"},
		{"lengths", niceTicks{want: 4}, 0, 28.3, "0 5 10 15 20 25"},
		{"an explosion", niceTicks{want: 4}, 0, 9.9e8, "0 2e8 4e8 6e8 8e8"},
		{"below zero", niceTicks{want: 4}, -1, 1, "−1.0 −0.5 0.0 0.5 1.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var labels []string
			for _, tick := range tt.ticks.Ticks(tt.lo, tt.hi) {
				labels = append(labels, tick.Label)
			}
			if got := strings.Join(labels, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
