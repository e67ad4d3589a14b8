package plots

import (
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// chart is a figure of one quantity with a curve for each arm: in one plot while
// the arms can be distinguished, else in a panel each with the others in grey behind.
type chart struct {
	title          string
	xLabel, yLabel string
	x              quantity // nil: the step itself
	y              quantity
	xMax           float64
	band           *valueRange // of the interval of the mean; nil: none
	log            bool        // the y axis may be logarithmic
	// reward charts have an axis from 0 to 1, reference levels, and the last value
	// after an arm's name.
	reward bool
}

// armCurve is an arm with its curve.
type armCurve struct {
	arm
	curve
}

// curves are the arms of v that the chart has data of.
func (c chart) curves(v *view) []armCurve {
	var out []armCurve
	for _, a := range v.arms {
		if k := a.curveOf(c.x, c.y, c.band); len(k.seeds) > 0 {
			out = append(out, armCurve{a, k})
		}
	}
	return out
}

// curveOf is a quantity of an arm against the step, or against x.
func (a arm) curveOf(x, y quantity, band *valueRange) curve {
	c := newCurve(a.runs, a.settled(), y, band)
	if x == nil {
		return c
	}
	mean := analysis.MeanSeries(analysis.NonEmpty(analysis.ForEach(a.settled(), x)))
	c.mean, c.lo, c.hi = atSteps(c.mean, mean), atSteps(c.lo, mean), atSteps(c.hi, mean)
	c.seeds = analysis.NonEmpty(analysis.ForEach(a.runs, func(r *rundir.Run) analysis.Series {
		return atSteps(y(r), x(r))
	}))
	return c
}

// settled are the runs that a mean is taken of: those that have ended, or all
// while none has. A run at its first steps would cut the mean of the others to
// those.
func (a arm) settled() []*rundir.Run {
	var ended []*rundir.Run
	for _, r := range a.runs {
		if r.Finished() {
			ended = append(ended, r)
		}
	}
	if len(ended) == 0 {
		return a.runs
	}
	return ended
}

func (c chart) yAxis(all ...armCurve) yAxis {
	if c.reward {
		return yAxis{hi: 1}
	}
	return newYAxis(c.log, curvesOf(all)...)
}

func curvesOf(all []armCurve) []curve {
	out := make([]curve, len(all))
	for i, k := range all {
		out[i] = k.curve
	}
	return out
}

// draw is nil where no arm has data.
func (c chart) draw(v *view) *figure {
	all := c.curves(v)
	if len(all) == 0 {
		return nil
	}
	fig := &figure{title: c.title, width: v.width(pageWidth), panelHeight: pageHeight}
	y := c.yAxis(all...)
	if v.panels() {
		c.addPanels(fig, v, all, y)
	} else {
		fig.addPanel(1, c.overlay(v, all, y))
	}
	fig.caption = y.notes()
	return fig
}

func (c chart) newPanel(y yAxis) *panel {
	p := newPanel(c.xLabel, c.yLabel)
	p.X.Min, p.X.Max = 0, c.xMax
	p.setY(y)
	return p
}

// overlay draws all arms in one plot.
func (c chart) overlay(v *view, all []armCurve, y yAxis) *panel {
	p := c.newPanel(y)
	options := curveOptions{width: thick, seedOpacity: 0.5, markers: 10}
	if len(all) > 2 {
		options.seedOpacity = 0.32
	}
	for i, k := range all {
		options.offset = i
		p.addCurve(v.legendName(k.label, c.lastValue(k.curve)), k.curve, k.style, options)
	}
	if c.reward {
		p.addLevels(v.levels()...)
	}
	for _, k := range all {
		p.addDiverged(k.runs, c.x, c.y, k.style)
	}
	return p
}

// oneArm is for the only arm of a plot.
var oneArm = curveOptions{width: thick, seedOpacity: 0.55}

// addPanels draws each arm in a panel of its own, in front of the others' means.
func (c chart) addPanels(fig *figure, v *view, all []armCurve, y yAxis) {
	for i, k := range all {
		p := c.newPanel(y)
		p.title, p.value = k.Name(), c.lastValue(k.curve)
		for j, other := range all {
			if j != i {
				p.addBehind(y.place(other.mean), otherStyle.line(thin))
			}
		}
		p.addCurve("the arm named above the panel", k.curve, plainStyle, oneArm)
		p.addEntry(legendEntry{name: "the other arms, means", line: otherStyle.line(thin)})
		if c.reward {
			p.addOwnBase(v.ownBase(k.ArmResult), 0, c.xMax)
			p.addLevels(v.levels()...)
		}
		p.addDiverged(k.runs, c.x, c.y, plainStyle)
		fig.addPanel(v.columns(), p)
	}
	fig.width, fig.panelHeight = v.width(wideWidth), panelInches
	fig.xLabel, fig.yLabel = c.xLabel, c.yLabel
	fig.compact()
}

// compact moves to the figure what its many panels share, and fits their titles.
func (f *figure) compact() {
	for _, p := range slices.Concat(f.rows...) {
		p.X.Label.Text, p.Y.Label.Text = "", ""
		p.X.Tick.Marker = niceTicks{want: 2, integer: true}
		p.title = twoLines(panelText, p.title, p.value, f.columnWidth())
	}
	f.shareLegend()
}

func (c chart) lastValue(k curve) string {
	switch {
	case !c.reward:
		return ""
	case c.x != nil:
		return k.lastValue(0, 0)
	}
	return k.lastValue(c.xMax, 0)
}

// addPairs gives each arm a panel with several quantities.
func (f *figure) addPairs(v *view, y yAxis, all ...named) {
	last := all[len(all)-1]
	for _, a := range v.arms {
		p := newStepPanel(v.infos, v.xMax, "")
		p.setY(y)
		p.title = a.Name()
		for _, n := range all {
			p.addCurve(n.name, a.curveOf(nil, n.y, nil), n.style, n.options)
		}
		p.addDiverged(a.runs, nil, last.y, last.style)
		f.addPanel(v.columns(), p)
	}
	f.compact()
}
