package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// finalMap draws the last validation over two swept keys as a map with numbers, for
// more lines than one plot has room for.
func (v *view) finalMap(x, y int) *figure {
	xAxis, yAxis := v.manifest().Axes[x], v.manifest().Axes[y]
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, a := range v.Arms {
		if f := a.Of(analysis.FinalMetric); f.N > 0 {
			lo, hi = min(lo, f.Mean), max(hi, f.Mean)
		}
	}
	if lo > hi || v.phone && len(xAxis.Values) > 5 { // five cells side by side fit on a phone
		return nil
	}
	var all cells
	gaps := false
	for _, a := range v.Arms {
		f := a.Of(analysis.FinalMetric)
		c := cell{
			x: slices.Index(xAxis.Values, a.Arm.Point[x]), y: slices.Index(yAxis.Values, a.Arm.Point[y]),
			color: pale, lines: []string{"–"},
		}
		if f.N == 0 {
			gaps = true
			all = append(all, c)
			continue
		}
		c.color, c.lines[0] = viridis(1), analysis.Decimals(f.Mean, 3)
		if hi > lo {
			c.color = viridis((f.Mean - lo) / (hi - lo))
		}
		if stats.IsFinite(f.SD) {
			c.lines = append(c.lines, "± "+analysis.Decimals(f.SD, 3))
		}
		if a.Diverged > 0 {
			c.lines = append(c.lines, fmt.Sprintf("× %d of %d", a.Diverged, a.Trained()))
		}
		all = append(all, c)
	}
	p := newPanel(axisName(xAxis), axisName(yAxis))
	setOrder(&p.X, xAxis)
	setOrder(&p.Y, yAxis)
	p.Add(all)
	fig := &figure{
		title: "Final validation answer reward over " + axisName(xAxis) + " and " + axisName(yAxis),
		width: v.width(pageWidth), panelHeight: 0.6 + 0.56*float64(len(yAxis.Values)), rows: [][]*panel{{p}},
		caption: []string{"One seed an arm; ×: diverged.", v.finalPoint()},
		notes:   []string{"Color: the mean, from the lowest (dark) to the highest (light) of the map."},
	}
	if len(xAxis.Values) > 8 {
		fig.width = v.width(wideWidth)
	}
	if v.severalSeeds() {
		fig.caption[0] = meanOver(v.seedCounts(true)) + " ± sample standard deviation; ×: diverged runs."
	}
	if gaps {
		fig.notes = append(fig.notes, "–: no run has ended.")
	}
	return fig
}

// setOrder gives an axis the values as ticks at 0, 1, 2, ...
func setOrder(axis *plot.Axis, of sweepdir.Axis) {
	ticks := make(plot.ConstantTicks, len(of.Values))
	for i, s := range of.Values {
		ticks[i] = plot.Tick{Value: float64(i), Label: of.Shown(s)}
	}
	axis.Tick.Marker, axis.Tick.Length, axis.LineStyle.Width = ticks, 0, 0
	axis.Min, axis.Max = -0.5, float64(len(of.Values))-0.5
}

// cell is a place of the map.
type cell struct {
	x, y  int
	color color.NRGBA
	lines []string
}

// cells are colored squares with text, centered on whole numbers.
type cells []cell

// Plot implements [plot.Plotter].
func (all cells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, one := range all {
		x0, x1 := x(float64(one.x)-0.5), x(float64(one.x)+0.5)
		y0, y1 := y(float64(one.y)-0.5), y(float64(one.y)+0.5)
		corners := []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}, {X: x0, Y: y0}}
		c.FillPolygon(one.color, corners)
		c.StrokeLines(draw.LineStyle{Color: white, Width: vg.Points(2)}, corners)
		drawCentered(c, (x0+x1)/2, (y0+y1)/2, draw.XCenter, textOn(one.color), one.lines)
	}
}

// viridis is the color at t in [0, 1] of a sequence that grows evenly lighter, also
// for people who can't tell some of its colors apart and in print without color
// (S. van der Walt and N. Smith, matplotlib 1.5, 2015).
func viridis(t float64) color.NRGBA {
	stops := []color.NRGBA{ // at 0, 1/4, 1/2, 3/4 and 1
		{0x44, 0x01, 0x54, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x21, 0x91, 0x8c, 0xff},
		{0x5e, 0xc9, 0x62, 0xff}, {0xfd, 0xe7, 0x25, 0xff},
	}
	t *= float64(len(stops) - 1)
	i := min(int(t), len(stops)-2)
	a, b, f := stops[i], stops[i+1], t-float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// onLight is one step off black, so that the dark style sheet does not recolor it.
var onLight = color.NRGBA{0x00, 0x00, 0x01, 0xff}

// textOn is black or white, whichever is more legible on c (relative luminance
// of WCAG 2.1, without its gamma: the threshold is far from both).
func textOn(c color.NRGBA) color.Color {
	if 0.2126*float64(c.R)+0.7152*float64(c.G)+0.0722*float64(c.B) > 130 {
		return onLight
	}
	return white
}
