package plots

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
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

// ExplainCurve is a curve through points. Curves of the same Style are drawn
// alike in every panel; a reference is a thin dotted line behind the others.
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

// Check returns an error when there is no panel, when a range is empty or not
// finite, or when a logarithmic axis does not begin above 0.
func (f ExplainFigure) Check() error {
	_, err := f.figure()
	return err
}

// ExplainPlot writes a figure of functions as "png", "svg" or "pdf", or returns the error of Check.
func ExplainPlot(w io.Writer, f ExplainFigure, format string) error {
	fig, err := f.figure()
	if err != nil {
		return err
	}
	data, err := fig.encode(format)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func (f ExplainFigure) figure() (*figure, error) {
	if len(f.Panels) == 0 {
		return nil, errors.New("draw: the figure has no panel")
	}
	fig := &figure{width: pageWidth, panelHeight: 3.2, title: f.Title, setting: f.Setting, caption: f.Caption}
	perRow := cmp.Or(f.PerRow, len(f.Panels))
	if perRow < len(f.Panels) {
		fig.panelHeight = 2.5
	}
	for _, e := range f.Panels {
		p, err := e.panel()
		if err != nil {
			return nil, err
		}
		fig.addPanel(perRow, p)
	}
	return fig, nil
}

func (e ExplainPanel) panel() (*panel, error) {
	for _, axis := range []struct {
		lo, hi float64
		log    bool
	}{{e.XMin, e.XMax, e.LogX}, {e.YMin, e.YMax, e.LogY}} {
		finite := stats.IsFinite(axis.lo) && stats.IsFinite(axis.hi)
		if !finite || axis.lo >= axis.hi || axis.log && axis.lo <= 0 {
			return nil, fmt.Errorf("draw: panel %q: an axis can't go from %s to %s",
				e.Title, textutil.Number(axis.lo), textutil.Number(axis.hi))
		}
	}
	p := newPanel(e.XLabel, e.YLabel)
	p.title = e.Title
	p.X.Tick.Marker = niceTicks{want: 4}
	if e.LogX {
		p.X.Tick.Marker = logTicks{}
	}
	if e.LogY {
		p.Y.Tick.Marker = logTicks{}
	}
	if e.XTicks != nil {
		var ticks plot.ConstantTicks
		for _, v := range e.XTicks {
			ticks = append(ticks, plot.Tick{Value: scaled(v, e.LogX), Label: textutil.Rounded(v)})
		}
		p.X.Tick.Marker = ticks
	}
	for _, c := range e.Curves {
		p.addEntry(legendEntry{name: c.Name, line: c.line()})
	}
	for _, reference := range []bool{true, false} { // references are behind the others
		for _, c := range e.Curves {
			if c.Reference != reference {
				continue
			}
			for _, part := range e.parts(c) {
				p.addLine(part, c.line())
				if e.XTicks != nil && !reference {
					p.addMarkers(part, glyph(c.line().Color, markerRadius-1, draw.CircleGlyph{}))
				}
			}
		}
	}
	hollow := glyph(black, markerRadius, shape{})
	for _, pt := range e.Points {
		p.addMarkers(analysis.Series{{X: scaled(pt.X, e.LogX), Y: scaled(pt.Y, e.LogY)}}, hollow)
		p.addEntry(legendEntry{name: pt.Name, glyph: hollow})
	}
	// Adding a curve widens the axes to all of it.
	p.X.Min, p.X.Max = scaled(e.XMin, e.LogX), scaled(e.XMax, e.LogX)
	p.Y.Min, p.Y.Max = scaled(e.YMin, e.LogY), scaled(e.YMax, e.LogY)
	return p, nil
}

func (c ExplainCurve) line() draw.LineStyle {
	if c.Reference {
		return referenceStyle.line(medium)
	}
	return armStyles[c.Style%len(armStyles)].line(thick)
}

// scaled is the place of a number on its axis, see [logTicks].
func scaled(x float64, log bool) float64 {
	if log {
		return math.Log10(x)
	}
	return x
}

// parts are the stretches of a curve that are finite on the panel's axes.
func (e ExplainPanel) parts(c ExplainCurve) []analysis.Series {
	parts := []analysis.Series{nil}
	for i := range min(len(c.X), len(c.Y)) {
		x, y := scaled(c.X[i], e.LogX), scaled(c.Y[i], e.LogY)
		if !stats.IsFinite(x) || !stats.IsFinite(y) {
			parts = append(parts, nil)
			continue
		}
		last := &parts[len(parts)-1]
		*last = append(*last, analysis.Point{X: x, Y: y})
	}
	return slices.DeleteFunc(parts, func(s analysis.Series) bool { return len(s) < 2 })
}

// WriteFigure draws a figure into memory and then moves it to path in one atomic
// step: a failed report leaves the old figure.
func WriteFigure(path string, render func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := render(&buf); err != nil {
		return err
	}
	return rundir.WriteFileAtomic(path, buf.Bytes())
}
