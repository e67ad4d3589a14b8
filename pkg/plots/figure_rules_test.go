package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"gonum.org/v1/plot/vg/vgimg"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// captionLines is how many lines a figure's caption takes.
func captionLines(f *figure) int {
	return len(wrap(captionText, strings.Join(f.caption, " "), vg.Length(f.width)*vg.Inch-2*vg.Points(margin)))
}

// No caption takes more than two lines, whatever a sweep or a run is like.
func TestCaptionsHaveTwoLines(t *testing.T) {
	untrusted := strings.Repeat("a name that goes on ", 20)
	long := reporttest.RateArms()
	for i := range long {
		long[i].Label, long[i].Norm, long[i].Clip = untrusted, math.Pow(10, float64(-2*i)), true
	}
	half := reporttest.RateArms()
	half[0].Left, half[1].Left, half[3].Absent, half[4].Absent = 1, 2, 3, 12
	wide, widened := reporttest.GridArms([]string{"1e-4", "1e-3"}, []string{"1", "2", "3", "4", "5", "6", "7"})
	widened[3].Diverged, widened[9].Absent = 50, 1
	axes := reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
	failed := mustAnalyse(t, reporttest.DrawnSweep(12, axes, half...))
	for i := range failed.Arms {
		failed.Arms[i].Failed = 3
	}
	looks := reporttest.DrawnSweep(12, axes, half...)
	looks.Manifest.Looks = []sweepdir.Look{{Seeds: 4, Level: .025}, {Seeds: 12, Level: .025}}
	for name, a := range map[string]*analysis.Analysis{
		"looks": mustAnalyse(t, looks),
		"rates": mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...)), "long names": mustAnalyse(t, reporttest.DrawnSweep(12, axes, long...)), "half": mustAnalyse(t, reporttest.DrawnSweep(12, axes, half...)),
		"failed": failed, "map": mustAnalyse(t, reporttest.DrawnSweep(12, wide, widened...)), "panels": mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(9)...)),
		"one seed": mustAnalyse(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(2)...)),
	} {
		v := newView(a)
		for _, f := range v.figures() {
			if fig := v.draw(f); fig != nil {
				if n := captionLines(fig); n > 2 || n == 0 {
					t.Errorf("%s, %s: %d lines: %q", name, f.file, n, fig.caption)
				}
			}
		}
	}
	broken := reporttest.DivergedRun(t)
	broken.Result.DivergedReason = untrusted
	for name, runs := range map[string][]*rundir.Run{
		"one": {reporttest.SynthRun(t, 1, 200)}, "half": {reporttest.HalfRun(t)}, "diverged": {broken},
		"several": {reporttest.SynthRun(t, 1, 200), reporttest.SynthRun(t, 2, 70), broken, reporttest.FreshRun(t)},
	} {
		for figureName, build := range map[string]builder{"validation": runsValidation, "training": runsTraining} {
			fig, err := build(runs)
			expect.OK(t, err)
			if n := captionLines(fig); n > 2 {
				t.Errorf("%s of %s: %d lines: %q", figureName, name, n, fig.caption)
			}
		}
	}
}

// names are the names in all legends of a figure.
func names(f *figure) string {
	entries := slices.Clone(f.legend)
	for _, p := range slices.Concat(f.rows...) {
		entries = append(entries, p.legend...)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.name)
	}
	return strings.Join(out, "; ")
}

// Arms that start apart, as those of another prompt do, have no common base
// level: not in a figure, not in a table.
func TestBaseLevelOfArmsThatStartApart(t *testing.T) {
	apart := func(n int) *analysis.Analysis {
		return mustAnalyse(t, reporttest.StartApart(reporttest.DrawnSweep(3, nil, reporttest.ManyArms(n)...)))
	}
	same := mustAnalyse(t, reporttest.DrawnSweep(3, nil, reporttest.ManyArms(2)...))
	if !stats.IsFinite(same.Base) {
		t.Error("arms that start together have no base level")
	}
	if got := names(built(t, same, "validation_reward.png")); !strings.Contains(got, "base level (") {
		t.Errorf("no base level in %q", got)
	}
	a := apart(2)
	if stats.IsFinite(a.Base) {
		t.Errorf("the base level is %v", a.Base)
	}
	if got := names(built(t, a, "validation_reward.png")); strings.Contains(got, "base level") {
		t.Errorf("%q has a common base level, which no arm has", got)
	}
	if got := names(built(t, a, "final_by_arm.png")); !strings.Contains(got, "base level of the arm") {
		t.Errorf("no base level by arm in %q", got)
	}
	if got := names(built(t, apart(7), "validation_reward.png")); !strings.Contains(got, "base level of the arm") {
		t.Errorf("no base level by arm in the panels: %q", got)
	}
}

// The unseen facts have a majority answer of their own, and the line of
// validation says whose it is.
func TestMajorityOfTheUnseenFacts(t *testing.T) {
	fig, err := runsValidation([]*rundir.Run{reporttest.SynthRun(t, 1, 200)})
	expect.OK(t, err)
	got := names(fig)
	for _, want := range []string{`validation: majority answer "8" (0.077)`, `unseen facts: majority answer "63" (0.035)`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	fig, err = runsValidation([]*rundir.Run{reporttest.SynthRun(t, 1, 70)})
	expect.OK(t, err)
	if got := names(fig); !strings.Contains(got, `; majority answer "8" (0.077)`) || strings.Contains(got, "unseen") {
		t.Errorf("without the unseen facts: %q", got)
	}
}

// With eval.final_size the base level of a curve is its own, and a run's figure shows the other problems too.
func TestLastEvaluationOfMoreProblems(t *testing.T) {
	last := func(e rundir.Eval, right int) rundir.Eval {
		c := rundir.Counts{N: 2048, CorrectNum: right, AnswerReward: float64(right) / 2048}
		e.Split, e.Sampled, e.Greedy = rundir.SplitFinal, c, &c
		return e
	}
	sw := reporttest.DrawnSweep(3, nil, reporttest.ManyArms(2)...)
	mean := 0.0
	for _, s := range sw.Runs {
		mean += s.Run.Evals[0].Sampled.AnswerReward / float64(len(sw.Runs))
		first, end := last(s.Run.Evals[0], 1024), last(s.Run.Evals[len(s.Run.Evals)-1], 1536)
		s.Run.Evals = append(s.Run.Evals, first, end)
		s.Run.Result.Initial, s.Run.Result.Final = first, end
	}
	a := mustAnalyse(t, sw)
	level := "base level (" + analysis.Decimals(mean, 3) + ")"
	if got := names(built(t, a, "validation_reward.png")); !strings.Contains(got, level) {
		t.Errorf("the curve's %s is not in %q", level, got)
	}
	if got := names(built(t, a, "final_by_arm.png")); !strings.Contains(got, "base level (0.500)") {
		t.Errorf("the base level of the last evaluation is not in %q", got)
	}
	fig, err := runsValidation([]*rundir.Run{sw.Runs[0].Run})
	expect.OK(t, err)
	got := names(fig)
	for _, want := range []string{
		"2048 problems, sampled (0.750)", "2048 problems, greedy (0.750)",
		"base level, sampled (" + analysis.Decimals(sw.Runs[0].Run.Evals[0].Sampled.AnswerReward, 3) + ")",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// A line joins only arms that did not diverge: none leads to one that did or
// across it.
func TestNoLineToADivergedArm(t *testing.T) {
	tests := []struct {
		name     string
		diverged []int
		want     [][]float64 // x of each line
	}{
		{"none", []int{0, 0, 0}, [][]float64{{0, 1, 2}}},
		{"the last", []int{0, 0, 4}, [][]float64{{0, 1}}},
		{"in the middle", []int{0, 0, 1, 0, 0}, [][]float64{{0, 1}, {3, 4}}},
		{"all", []int{4, 4}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []estimate
			for i, n := range tt.diverged {
				all = append(all, estimate{place: float64(i), mean: 0.5, diverged: n > 0})
			}
			lines := unbroken(all)
			if len(lines) != len(tt.want) {
				t.Fatalf("%d lines, want %d", len(lines), len(tt.want))
			}
			for i, line := range lines {
				for k, p := range line {
					if len(line) != len(tt.want[i]) || p.X != tt.want[i][k] {
						t.Errorf("line %d is %v, want %v", i, line, tt.want[i])
					}
				}
			}
		})
	}
}

// Markers leave what is below them visible: none paints with white.
func TestMarkersHaveNoHalo(t *testing.T) {
	shapes := []draw.GlyphDrawer{shape{}, shape{corners: 3, filled: true}, cross{}, unseenSampledStyle.marker, unseenGreedyStyle.marker}
	for _, s := range armStyles {
		shapes = append(shapes, s.marker)
	}
	for _, shape := range shapes {
		var r recorder.Canvas
		c := draw.NewCanvas(&r, 100, 100)
		c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: 4, Shape: shape}, vg.Point{X: 50, Y: 50})
		painted := false
		for _, a := range r.Actions {
			if set, ok := a.(*recorder.SetColor); ok {
				painted = true
				if cr, cg, cb, _ := set.Color.RGBA(); cr == 0xffff && cg == 0xffff && cb == 0xffff {
					t.Errorf("%T paints with white", shape)
				}
			}
		}
		if !painted {
			t.Errorf("%T has no color", shape)
		}
	}
	// A line through a hollow marker is seen within it.
	img := vgimg.New(100, 100)
	c := draw.New(img)
	c.StrokeLine2(draw.LineStyle{Color: vermillion, Width: 2}, 0, 50, 100, 50)
	c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: 8, Shape: shape{}}, vg.Point{X: 50, Y: 50})
	b := img.Image().Bounds()
	if got := color.NRGBAModel.Convert(img.Image().At(b.Dx()/2, b.Dy()/2)); got != vermillion {
		t.Errorf("the line is %v below the marker", got)
	}
}

// A caption describes how the evaluations were sampled.
func TestCaptionsNameTheSettings(t *testing.T) {
	run := reporttest.SynthRun(t, 1, 200)
	run.Config = []byte("eval: {temperature: 0.7, max_tokens: 32}\n")
	fig, err := runsValidation([]*rundir.Run{run})
	expect.OK(t, err)
	if text := strings.Join(fig.caption, " "); !strings.Contains(text, "temperature 0.7, at most 32 tokens") {
		t.Errorf("caption %s", text)
	}
	if got := names(fig); !strings.HasPrefix(got, "sampled, temperature 0.7") {
		t.Errorf("legend %s", got)
	}
}

// The figure of the entropy reports that arms with their own temperatures can't be
// compared.
func TestEntropyOfTemperatures(t *testing.T) {
	sw := reporttest.FakeSweep(2,
		reporttest.FakeArm{Name: "t=1", Run: reporttest.Around(0.94, 0.01, 1)},
		reporttest.FakeArm{Name: "t=1.3", Run: reporttest.Around(0.85, 0.01, 2)})
	for i, e := range sw.Manifest.Runs {
		sw.Manifest.Runs[i].Config = "rollout: {sampling_temperature: " + []string{"1", "1.3"}[e.Arm] + "}\n"
	}
	fig := built(t, mustAnalyse(t, sw), "entropy.png")
	if text := strings.Join(fig.caption, " "); !strings.Contains(text, "temperature (1, 1.3): not comparable") {
		t.Errorf("caption %s", text)
	}
	for i := range sw.Manifest.Runs {
		sw.Manifest.Runs[i].Config = "rollout: {sampling_temperature: 1.3}\n"
	}
	fig = built(t, mustAnalyse(t, sw), "entropy.png")
	if text := strings.Join(fig.caption, " "); strings.Contains(text, "comparable") {
		t.Errorf("arms of one temperature: %s", text)
	}
}

// Named arms that are crossed with a key are lines of their own in the figure
// against the key.
func TestLinesOver(t *testing.T) {
	tests := []struct {
		name string
		sw   *sweepdir.Sweep
		want string
	}{
		{"a sweep of rates is one line", reporttest.RateSweep(2), "[{ [0 1 2 3 4]}]"},
		{"tuned arms", reporttest.TunedSweep(2), "[{loss 0 [0 1]} {loss 1 [2 3]}]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := mustAnalyse(t, tt.sw)
			if got := fmt.Sprint(newView(a).linesOver(0, -1)); got != tt.want {
				t.Errorf("lines %s, want %s", got, tt.want)
			}
			built(t, a, "final_vs_lr.png")
		})
	}
}

// The main figures are those that [Sweep] draws for a study.
func TestMainFiles(t *testing.T) {
	a := mustAnalyse(t, reporttest.RateSweep(2))
	all, err := Sweep(a, SweepOptions{DPI: 36, MainOnly: true})
	expect.OK(t, err)
	var drawn []string
	for _, d := range all {
		drawn = append(drawn, d.File)
	}
	if got := MainFiles(a); !slices.Equal(got, drawn) || len(got) != 3 {
		t.Errorf("main files %v, drawn %v", got, drawn)
	}
}

// The caption of a run that diverged has its reason in full or not at all.
func TestCaptionOfADivergedRun(t *testing.T) {
	at := 20
	for _, test := range []struct{ reason, want string }{
		{"the gradient is not finite", "Diverged at step 20: the gradient is not finite."},
		{"validation reward fell to 0.051 from 0.162 at step 0", "Diverged at step 20."},
	} {
		run := &rundir.Run{Result: &rundir.Result{Status: rundir.StateDiverged, DivergedAt: &at, DivergedReason: test.reason}}
		if got := unfinished([]*rundir.Run{run}, make([]analysis.RunInfo, 1)); len(got) != 1 || got[0] != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
