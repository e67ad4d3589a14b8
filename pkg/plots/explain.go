package plots

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/internal/words"
	"grpo/pkg/stats"
)

// ExplainFigure is a figure of functions instead of runs: panels side by side,
// with the numbers that `grpo explain` computed.
type ExplainFigure struct {
	Title, Setting string
	Panels         []ExplainPanel
	Caption        []string // sentences
	PerRow         int      // panels of a row; 0 = all
}

// ExplainPanel is one plot. Its axes end where Min and Max say; curves are cut
// off there.
type ExplainPanel struct {
	Title, XLabel, YLabel  string
	XMin, XMax, YMin, YMax float64
	LogX, LogY             bool
	// XTicks are the labelled values of the x axis, and mark measured points on
	// the curves; nil leaves the choice to the axis.
	XTicks []float64
	Curves []ExplainCurve
	Points []ExplainPoint
}

// ExplainCurve is a curve through points. Curves of the same Style look the same
// in every panel; a reference is a thin dotted line behind the others.
type ExplainCurve struct {
	Name      string
	X, Y      []float64
	Style     int // 0, 1, 2 ...
	Reference bool
}

// ExplainPoint marks one place, hollow so that a curve stays visible below it.
type ExplainPoint struct {
	Name string // "" = no entry in the legend
	X, Y float64
}

// Looks of the curves of an ExplainFigure: colours of Okabe and Ito, and dashes
// for print without colour.
var explainLooks = []look{
	{color: blue},
	{color: vermillion, dashes: dashed},
	{color: color.NRGBA{0x00, 0x9e, 0x73, 0xff}, dashes: longDashed}, // bluish green
	{color: color.NRGBA{0xcc, 0x79, 0xa7, 0xff}, dashes: dashDotted}, // reddish purple
	{color: color.NRGBA{0xe6, 0x9f, 0x00, 0xff}, dashes: dotted},     // orange
}

var dashDotted = []vg.Length{vg.Points(6), vg.Points(2.2), vg.Points(1.4), vg.Points(2.2)}

var lookReference = look{color: dark, dashes: dotted}

// Check returns an error when there is no panel, when a range is empty or not
// finite, or when a logarithmic axis does not begin above 0.
func (f ExplainFigure) Check() error {
	_, err := f.figure()
	return err
}

// ExplainPlot writes a figure of functions as PNG, or returns the error that
// Check has.
func ExplainPlot(w io.Writer, f ExplainFigure) error {
	fig, err := f.figure()
	if err != nil {
		return err
	}
	return fig.render(w)
}

func (f ExplainFigure) figure() (figure, error) {
	if len(f.Panels) == 0 {
		return figure{}, errors.New("draw: the figure has no panel")
	}
	fig := figure{width: 7.2, panelHeight: 3.2, title: f.Title, setting: f.Setting, Caption: f.Caption}
	perRow := f.PerRow
	if perRow <= 0 {
		perRow = len(f.Panels)
	}
	if perRow < len(f.Panels) {
		fig.panelHeight = 2.5
	}
	for i, p := range f.Panels {
		drawn, err := p.panel()
		if err != nil {
			return figure{}, err
		}
		if i%perRow == 0 {
			fig.Rows = append(fig.Rows, nil)
		}
		fig.Rows[i/perRow] = append(fig.Rows[i/perRow], drawn)
	}
	return fig, nil
}

func (e ExplainPanel) panel() (*panel, error) {
	for _, axis := range []struct {
		lo, hi float64
		log    bool
	}{{e.XMin, e.XMax, e.LogX}, {e.YMin, e.YMax, e.LogY}} {
		if !(axis.lo < axis.hi) || !stats.IsFinite(axis.lo) || !stats.IsFinite(axis.hi) || axis.log && axis.lo <= 0 {
			return nil, errors.New("draw: an axis from " + words.Number(axis.lo) + " to " + words.Number(axis.hi) + " is none")
		}
	}
	p := newPlot(e.XLabel, e.YLabel)
	p.X.Tick.Marker = niceTicks{want: 4}
	if e.LogX {
		p.X.Tick.Marker = decades{}
	}
	if e.LogY {
		p.Y.Tick.Marker = decades{}
	}
	if e.XTicks != nil {
		p.X.Tick.Marker = valueTicks(e.XTicks, e.LogX)
		if e.LogY {
			p.Y.Tick.Marker = oneTwoFive{}
		}
	}
	out := &panel{title: e.Title, plot: p}
	for _, front := range []bool{false, true} {
		for _, c := range e.Curves {
			if c.Reference == front {
				continue
			}
			line := explainLooks[c.Style%len(explainLooks)].line(thick)
			if c.Reference {
				line = lookReference.line(medium + 0.2)
			}
			for _, part := range e.parts(c) {
				p.Add(&plotter.Line{XYs: part, LineStyle: line})
				if e.XTicks != nil && !c.Reference {
					p.Add(&plotter.Scatter{XYs: part, GlyphStyle: draw.GlyphStyle{Color: line.Color, Radius: vg.Points(markerRadius - 1), Shape: draw.CircleGlyph{}}})
				}
			}
		}
	}
	for _, c := range e.Curves {
		line := explainLooks[c.Style%len(explainLooks)].line(thick)
		if c.Reference {
			line = lookReference.line(medium + 0.2)
		}
		out.Legend = append(out.Legend, legendEntry{Name: c.Name, line: line})
	}
	glyph := draw.GlyphStyle{Color: black, Radius: vg.Points(markerRadius), Shape: outline{}}
	for _, pt := range e.Points {
		p.Add(&plotter.Scatter{XYs: plotter.XYs{{X: scaled(pt.X, e.LogX), Y: scaled(pt.Y, e.LogY)}}, GlyphStyle: glyph})
		if pt.Name != "" {
			out.Legend = append(out.Legend, legendEntry{Name: pt.Name, glyph: glyph})
		}
	}
	// Adding a curve widens the axes to all of it.
	p.X.Min, p.X.Max = scaled(e.XMin, e.LogX), scaled(e.XMax, e.LogX)
	p.Y.Min, p.Y.Max = scaled(e.YMin, e.LogY), scaled(e.YMax, e.LogY)
	return out, nil
}

// scaled is where a number stands on its axis. A logarithmic axis is a linear one
// of exponents: with gonum's own scale an axis label would be given room in the
// arithmetic middle of the range, which is at its end.
func scaled(x float64, log bool) float64 {
	if log {
		return math.Log10(x)
	}
	return x
}

// parts are the stretches of a curve that can be drawn on the panel's axes:
// without what is not finite there.
func (e ExplainPanel) parts(c ExplainCurve) []plotter.XYs {
	var out []plotter.XYs
	var part plotter.XYs
	for i := range min(len(c.X), len(c.Y)) {
		x, y := scaled(c.X[i], e.LogX), scaled(c.Y[i], e.LogY)
		if stats.IsFinite(x) && stats.IsFinite(y) {
			part = append(part, plotter.XY{X: x, Y: y})
			continue
		}
		if len(part) > 1 {
			out = append(out, part)
		}
		part = nil
	}
	if len(part) > 1 {
		out = append(out, part)
	}
	return out
}

// valueTicks labels the given values.
func valueTicks(values []float64, log bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: scaled(v, log), Label: words.Number(v)})
	}
	return ticks
}

// oneTwoFive labels 1, 2 and 5 times each power of ten on an axis of exponents.
type oneTwoFive struct{}

// Ticks implements [plot.Ticker].
func (oneTwoFive) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for k := math.Floor(lo); k <= hi; k++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, k)
			if at := math.Log10(v); at >= lo && at <= hi {
				ticks = append(ticks, plot.Tick{Value: at, Label: words.Number(v)})
			}
		}
	}
	return ticks
}

// decades labels powers of ten on an axis of exponents, every one or as many as
// there is room for.
type decades struct{}

// Ticks implements [plot.Ticker].
func (decades) Ticks(lo, hi float64) []plot.Tick {
	first, last := math.Ceil(lo-1e-9), math.Floor(hi+1e-9)
	step := max(1, math.Ceil((last-first)/6))
	var ticks []plot.Tick
	for k := first; k <= last; k++ {
		t := plot.Tick{Value: k}
		if math.Mod(k, step) == 0 {
			t.Label = "1e" + strconv.FormatFloat(k, 'f', 0, 64)
			if math.Abs(k) <= 4 {
				t.Label = strconv.FormatFloat(math.Pow(10, k), 'f', int(max(0, -k)), 64)
			}
		}
		ticks = append(ticks, t)
	}
	return ticks
}
