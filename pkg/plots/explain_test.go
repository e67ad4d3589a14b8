package plots

import (
	"bytes"
	"image/png"
	"io"
	"math"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
)

func explainSample() ExplainFigure {
	var exp ExplainCurve
	for x := 0.0; x <= 4; x += 0.25 {
		exp.X, exp.Y = append(exp.X, math.Pow(10, x)), append(exp.Y, x/4)
	}
	exp.Name, exp.Style = "curve", 1
	return ExplainFigure{
		Title: "A figure of functions", Setting: "the setting", Caption: []string{"A caption.", "Another sentence of it."},
		Panels: []ExplainPanel{
			{
				Title: "Linear", XLabel: "x", YLabel: "y", XMin: 0, XMax: 5, YMin: -2, YMax: 0,
				Curves: []ExplainCurve{
					{Name: "reference", Reference: true, X: []float64{0, 5}, Y: []float64{0, -5}},
					{Name: "clipped", X: []float64{0, 1.5, 5}, Y: []float64{0, -1.5, -1.5}},
				},
				Points: []ExplainPoint{{Name: "a point", X: 4, Y: -1.5}},
			},
			{Title: "Logarithmic", XLabel: "length", YLabel: "share", XMin: 1, XMax: 1e4, YMin: 0, YMax: 1, LogX: true, Curves: []ExplainCurve{exp}},
		},
	}
}

func TestExplainFigureAgainstGolden(t *testing.T) {
	fig, err := explainSample().figure()
	expect.OK(t, err)
	fig.dpi = goldenDPI
	data, err := fig.encode("png")
	expect.OK(t, err)
	reporttest.Golden(t, "explain.png", data)
}

func TestExplainPlotIsAPNG(t *testing.T) {
	var buf bytes.Buffer
	inFull(t)
	expect.OK(t, ExplainPlot(&buf, explainSample(), "png"))
	img, err := png.Decode(&buf)
	expect.OK(t, err)
	if got := img.Bounds().Dx(); got != 1440 {
		t.Errorf("%d pixels wide, want 7.2 inches at 200 dpi", got)
	}
}

func TestExplainFigureRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*ExplainPanel)
		want string
	}{
		{"empty range", func(p *ExplainPanel) { p.XMax = p.XMin }, "from 0 to 0"},
		{"reversed", func(p *ExplainPanel) { p.YMin, p.YMax = 1, 0 }, "from 1 to 0"},
		{"infinite", func(p *ExplainPanel) { p.XMax = math.Inf(1) }, "from 0 to +Inf"},
		{"NaN", func(p *ExplainPanel) { p.YMax = math.NaN() }, "from -2 to NaN"},
		{"logarithm of 0", func(p *ExplainPanel) { p.LogX = true }, "from 0 to 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := explainSample()
			tt.set(&f.Panels[0])
			expect.Error(t, ExplainPlot(io.Discard, f, "png"), tt.want)
		})
	}
	if err := ExplainPlot(io.Discard, ExplainFigure{}, "png"); err == nil {
		t.Error("a figure without a panel")
	}
}

// A curve is broken where it has no finite number on its axes.
func TestExplainCurveParts(t *testing.T) {
	c := ExplainCurve{X: []float64{1, 2, 3, 4, 5, 6}, Y: []float64{1, 10, 0, 1, math.NaN(), 1}}
	if got := (ExplainPanel{}).parts(c); len(got) != 1 || len(got[0]) != 4 {
		t.Errorf("linear: %v", got)
	}
	got := ExplainPanel{LogY: true}.parts(c)
	if len(got) != 1 || len(got[0]) != 2 || got[0][1] != (analysis.Point{X: 2, Y: 1}) {
		t.Errorf("logarithmic: %v", got)
	}
}
