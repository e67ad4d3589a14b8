package plots

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// Audit draws pass@k of the initial policy and of the trained ones over k, and marks where the curves cross.
func Audit(a *analysis.Audit) (Drawing, error) {
	p := newPanel("k (completions of a problem, logarithmic axis)", "pass@k (share of the problems)")
	p.setY(yAxis{hi: 1})
	var ticks plot.ConstantTicks
	var base, trained curve
	seeds := make([]analysis.Series, len(a.Seeds))
	for _, at := range a.PassAt {
		x := math.Log2(float64(at.K))
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.Itoa(at.K)})
		base.add(x, at.Base)
		trained.add(x, at.Trained)
		for s := range seeds {
			if s < len(at.Each) {
				seeds[s] = append(seeds[s], analysis.Point{X: x, Y: at.Each[s]})
			}
		}
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = 0, max(1, math.Log2(float64(a.Samples)))
	base.seeds, trained.seeds = []analysis.Series{base.mean}, seeds
	over := "Mean, and 95% interval over the problems."
	switch n := len(a.Seeds); n {
	case 1:
	case 2: // an interval over two seeds says nothing
		trained.lo, trained.hi = nil, nil
		over = "Mean; the band is the 95% interval over the problems. Thin lines: each of two seeds."
	default:
		over = fmt.Sprintf("Mean, and 95%% interval over n = %d seeds and the problems; thin lines: each seed.", n)
	}
	points := curveOptions{width: thick, seedOpacity: 0.5, markers: allMarkers}
	p.addCurve("before training", base, atKBefore, points)
	p.addCurve("after training", trained, atKAfter, points)
	if at := crossings(base.mean, trained.mean); len(at) > 0 && a.Crossing != nil {
		hollow := glyph(black, markerRadius+2, shape{})
		p.addMarkers(at[:1], hollow)
		p.addEntry(legendEntry{name: "the curves cross", glyph: hollow})
	}
	fig := &figure{width: pageWidth, panelHeight: pageHeight, title: "Right within k completions",
		setting: fmt.Sprintf("%s of %s, %d completions of each", textutil.Count(a.Problems, "problem"),
			textutil.Printable(a.Split, 0), a.Samples),
		caption: []string{over}}
	fig.addPanel(1, p)
	return fig.drawing(rundir.PassAtKPlot, fig.forPhone(), SweepOptions{})
}

// add appends a mean with its interval.
func (c *curve) add(x float64, i analysis.Interval) {
	c.mean = append(c.mean, analysis.Point{X: x, Y: i.Mean})
	c.lo = append(c.lo, analysis.Point{X: x, Y: i.Lo})
	c.hi = append(c.hi, analysis.Point{X: x, Y: i.Hi})
}
