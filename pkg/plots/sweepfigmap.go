package plots

import (
	"fmt"
	"image/color"
	"math"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/stats"
)

// viridis is a sequence of colours that grows evenly lighter, also for people
// who can't tell some of them apart and in print without colour (S. van der
// Walt and N. Smith, matplotlib 1.5, 2015), at 0, 1/4, 1/2, 3/4 and 1.
var viridis = [...]color.NRGBA{
	{0x44, 0x01, 0x54, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x21, 0x91, 0x8c, 0xff},
	{0x5e, 0xc9, 0x62, 0xff}, {0xfd, 0xe7, 0x25, 0xff},
}

// viridisAt is the colour at t in [0, 1].
func viridisAt(t float64) color.NRGBA {
	t = max(0, min(1, t)) * float64(len(viridis)-1)
	i := min(int(t), len(viridis)-2)
	f := t - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	a, b := viridis[i], viridis[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// textOn is black or white, whichever is read better on c (relative luminance
// of WCAG 2.1, without its gamma: the threshold lies far from both).
func textOn(c color.NRGBA) color.Color {
	if 0.2126*float64(c.R)+0.7152*float64(c.G)+0.0722*float64(c.B) > 130 {
		return black
	}
	return white
}

// cell is a place of the map.
type cell struct {
	x, y  int
	color color.NRGBA
	lines []string // the first is bold
}

// cells is a plotter of coloured squares with text, centred on whole numbers.
type cells []cell

var (
	cellText1 = textStyle(10, true)
	cellText2 = textStyle(8.5, false)
)

// Plot implements [plot.Plotter].
func (all cells) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for _, one := range all {
		x0, x1 := tx(float64(one.x)-0.5), tx(float64(one.x)+0.5)
		y0, y1 := ty(float64(one.y)-0.5), ty(float64(one.y)+0.5)
		corners := []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}, {X: x0, Y: y0}}
		c.FillPolygon(one.color, corners)
		c.StrokeLines(draw.LineStyle{Color: white, Width: vg.Points(2)}, corners)
		var height vg.Length
		for i := range one.lines {
			height += lineHeight(one.style(i))
		}
		top := (y0+y1)/2 + height/2
		for i, line := range one.lines {
			style := one.style(i)
			style.Color = textOn(one.color)
			style.XAlign, style.YAlign = draw.XCenter, draw.YTop
			c.FillText(style, vg.Point{X: (x0 + x1) / 2, Y: top}, line)
			top -= lineHeight(style)
		}
	}
}

// DataRange implements [plot.DataRanger].
func (all cells) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymin = math.Inf(1), math.Inf(1)
	xmax, ymax = math.Inf(-1), math.Inf(-1)
	for _, c := range all {
		xmin, xmax = min(xmin, float64(c.x)-0.5), max(xmax, float64(c.x)+0.5)
		ymin, ymax = min(ymin, float64(c.y)-0.5), max(ymax, float64(c.y)+0.5)
	}
	return xmin, xmax, ymin, ymax
}

func (cell) style(line int) text.Style {
	if line == 0 {
		return cellText1
	}
	return cellText2
}

// finalMap draws the last validation over two swept keys as a map with
// numbers, for more lines than a plot carries.
func (v *sweepView) finalMap(x, y int) (figure, bool) {
	axes := v.manifest().Axes
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, a := range v.Arms {
		if a.Of(analysis.FinalMetric).N > 0 {
			lo, hi = min(lo, a.Of(analysis.FinalMetric).Mean), max(hi, a.Of(analysis.FinalMetric).Mean)
		}
	}
	if lo > hi {
		return figure{}, false
	}
	var all cells
	gaps := false
	for i := range v.Arms {
		a := &v.Arms[i]
		c := cell{x: indexOf(axes[x].Values, a.Arm.Point[x]), y: indexOf(axes[y].Values, a.Arm.Point[y])}
		if a.Of(analysis.FinalMetric).N == 0 {
			c.color, c.lines = pale, []string{"–"}
			gaps = true
			all = append(all, c)
			continue
		}
		share := 1.0
		if hi > lo {
			share = (a.Of(analysis.FinalMetric).Mean - lo) / (hi - lo)
		}
		c.color, c.lines = viridisAt(share), []string{analysis.Decimals(a.Of(analysis.FinalMetric).Mean, 3)}
		if stats.IsFinite(a.Of(analysis.FinalMetric).SD) {
			c.lines = append(c.lines, "± "+analysis.Decimals(a.Of(analysis.FinalMetric).SD, 3))
		}
		if a.Diverged > 0 {
			c.lines = append(c.lines, fmt.Sprintf("× %d of %d", a.Diverged, len(a.Runs)))
		}
		all = append(all, c)
	}
	p := newPlot(axisName(axes[x].Label, axes[x].Key), axisName(axes[y].Label, axes[y].Key))
	for _, axis := range []struct {
		axis   *plot.Axis
		values []string
	}{{&p.X, axes[x].Values}, {&p.Y, axes[y].Values}} {
		axis.axis.LineStyle.Width, axis.axis.Tick.Length = 0, 0
		axis.axis.Tick.Marker = order(axis.values)
	}
	p.Add(all)
	fig := figure{
		title: "Final validation answer reward over " + axisName(axes[x].Label, axes[x].Key) + " and " + axisName(axes[y].Label, axes[y].Key),
		width: PageWidth, panelHeight: 0.6 + 0.56*float64(len(axes[y].Values)),
		Rows: [][]*panel{{{plot: p}}},
	}
	if len(axes[x].Values) > 8 {
		fig.width = WideWidth
	}
	n := len(v.manifest().Seeds)
	fig.Caption = []string{fmt.Sprintf("Mean over n = %d seeds ± sample standard deviation; ×: diverged runs. %s", n, v.finalPoint())}
	if n == 1 {
		fig.Caption[0] = "One seed an arm; ×: diverged. " + v.finalPoint()
	}
	fig.Notes = append(fig.Notes, "Colour: the mean, from the lowest (dark) to the highest (light) of the map.")
	if gaps {
		fig.Notes = append(fig.Notes, "–: no run has ended.")
	}
	return v.close(fig), true
}

// order has the values of an axis as ticks at 0, 1, 2, ...
func order(values []string) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i, s := range values {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: s})
	}
	return ticks
}

func indexOf(values []string, value string) int {
	for i, s := range values {
		if s == value {
			return i
		}
	}
	return -1
}
