package plots

import (
	"image/color"
	"math"
	"strings"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"gonum.org/v1/plot/vg/vgimg"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// captionLines is how many lines a figure's caption takes.
func captionLines(f figure) int {
	return len(wrap(captionText, strings.Join(f.Caption, " "), vg.Length(f.width)*vg.Inch-2*vg.Points(margin)))
}

// No caption takes more than two lines, whatever a sweep or a run is like.
func TestCaptionsHaveTwoLines(t *testing.T) {
	hostile := strings.Repeat("a name that goes on ", 20)
	long := reporttest.RateArms()
	for i := range long {
		long[i].Label, long[i].Norm, long[i].Clip = hostile, math.Pow(10, float64(-2*i)), true
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
	for name, a := range map[string]*analysis.Analysis{
		"rates": mustAnalyse(t, reporttest.DrawnSweep(4, axes, reporttest.RateArms()...)), "long names": mustAnalyse(t, reporttest.DrawnSweep(12, axes, long...)), "half": mustAnalyse(t, reporttest.DrawnSweep(12, axes, half...)),
		"failed": failed, "map": mustAnalyse(t, reporttest.DrawnSweep(12, wide, widened...)), "panels": mustAnalyse(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(9)...)),
		"one seed": mustAnalyse(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(2)...)),
	} {
		v := NewSweepView(a)
		for _, f := range v.figures() {
			if fig, ok := f.build(v); ok {
				if n := captionLines(fig); n > 2 || n == 0 {
					t.Errorf("%s, %s: %d lines: %q", name, f.file, n, fig.Caption)
				}
			}
		}
	}
	broken := reporttest.DivergedRun(t)
	broken.Result.DivergedReason = hostile
	for name, runs := range map[string][]*rundir.Run{
		"one": {reporttest.SynthRun(t, 1, 200)}, "half": {reporttest.HalfRun(t)}, "diverged": {broken},
		"several": {reporttest.SynthRun(t, 1, 200), reporttest.SynthRun(t, 2, 70), broken, reporttest.FreshRun(t)},
	} {
		for figureName, build := range map[string]builder{"validation": ValidationFigure, "training": trainingFigure} {
			fig, err := build(runs, PlotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n := captionLines(fig); n > 2 {
				t.Errorf("%s of %s: %d lines: %q", figureName, name, n, fig.Caption)
			}
		}
	}
}

// names are the names in all legends of a figure.
func names(f figure) string {
	var out []string
	for _, e := range f.legend {
		out = append(out, e.Name)
	}
	for _, row := range f.Rows {
		for _, p := range row {
			for _, e := range p.Legend {
				out = append(out, e.Name)
			}
		}
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
	fig, err := ValidationFigure([]*rundir.Run{reporttest.SynthRun(t, 1, 200)}, PlotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := names(fig)
	for _, want := range []string{`validation: majority answer "8" (0.077)`, `unseen facts: majority answer "63" (0.035)`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	fig, err = ValidationFigure([]*rundir.Run{reporttest.SynthRun(t, 1, 70)}, PlotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(fig); !strings.Contains(got, `; majority answer "8" (0.077)`) || strings.Contains(got, "unseen") {
		t.Errorf("without the unseen facts: %q", got)
	}
}

// A line joins only arms that did not diverge: none leads to one that did or
// across it.
func TestNoLineToADivergedArm(t *testing.T) {
	arm := func(diverged int, final float64) *analysis.ArmResult {
		r := &analysis.ArmResult{Diverged: diverged}
		r.Set(analysis.FinalMetric, analysis.NewSummary([]float64{final}, 0, 0, 1))
		return r
	}
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
			var dots []dot
			for i, n := range tt.diverged {
				dots = append(dots, dot{row: arm(n, 0.5), at: float64(i)})
			}
			lines, crosses := dotLines(dots)
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
			for _, c := range crosses {
				if tt.diverged[int(c.X)] == 0 {
					t.Errorf("a cross at %v, which did not diverge", c.X)
				}
			}
		})
	}
}

// Markers leave what is below them visible: none paints with white.
func TestMarkersHaveNoHalo(t *testing.T) {
	shapes := []draw.GlyphDrawer{outline{}, outline{3}, outline{4}, cross{}, diamond{}, nabla{}, seedGlyph(blue).Shape, divergedGlyph(blue).Shape,
		lookUnseenSampled.marker, lookUnseenGreedy.marker}
	for _, l := range armLooks {
		shapes = append(shapes, l.marker)
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
			t.Errorf("%T has no colour", shape)
		}
	}
	// A line through a hollow marker is seen within it.
	img := vgimg.New(100, 100)
	c := draw.New(img)
	c.StrokeLine2(draw.LineStyle{Color: vermillion, Width: 2}, 0, 50, 100, 50)
	c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: 8, Shape: outline{}}, vg.Point{X: 50, Y: 50})
	b := img.Image().Bounds()
	if got := color.NRGBAModel.Convert(img.Image().At(b.Dx()/2, b.Dy()/2)); got != vermillion {
		t.Errorf("the line is %v below the marker", got)
	}
}
