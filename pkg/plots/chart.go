package plots

import (
	"fmt"
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
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
	// reward charts have the axis of [shareAxis], reference levels, and the last value
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
	mean := analysis.MeanSeries(analysis.SeriesOf(a.settled(), x))
	c.mean, c.lo, c.hi = atSteps(c.mean, mean), atSteps(c.lo, mean), atSteps(c.hi, mean)
	c.seeds = analysis.SeriesOf(a.runs, func(r *rundir.Run) analysis.Series { return atSteps(y(r), x(r)) })
	return c
}

// settled are the runs that a mean is taken of: those that have ended, or all
// while none has. A run at its first steps would cut the mean of the others to
// those.
func (a arm) settled() []*rundir.Run {
	ended := slices.DeleteFunc(slices.Clone(a.runs), func(r *rundir.Run) bool { return !r.Finished() })
	if len(ended) == 0 {
		return a.runs
	}
	return ended
}

func (c chart) yAxis(v *view, all ...armCurve) yAxis {
	if c.reward {
		return shareAxis(v.curveLevels(), curvesOf(all)...)
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
	y := c.yAxis(v, all...)
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
		p.addLevels(v.curveLevels()...)
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
			p.addOwnBase(onCurveBase(v.ownBase(k.ArmResult), k.runs), 0, c.xMax)
			p.addLevels(v.curveLevels()...)
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
		p := newStepPanel(v.infos, v.xMax, a.Name(), "", y)
		for _, n := range all {
			p.addCurve(n.name, a.curveOf(nil, n.y, nil), n.style, n.options)
		}
		p.addDiverged(a.runs, nil, last.y, last.style)
		f.addPanel(v.columns(), p)
	}
	f.compact()
}

// quantity is something of a run against the step.
type quantity func(*rundir.Run) analysis.Series

// perStep is a value of each line of metrics.jsonl, nil where the line has none.
func perStep(value func(rundir.Metrics) *float64) quantity {
	return func(r *rundir.Run) analysis.Series { return analysis.MetricSeries(r, value) }
}

func validationOf(r *rundir.Run) analysis.Series {
	return analysis.EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
}

// curve is a quantity of several runs: each, their mean, and its interval.
type curve struct {
	seeds  []analysis.Series
	mean   analysis.Series
	lo, hi analysis.Series // empty where there is no interval
}

// valueRange is what the interval of a mean needs to know of a quantity: its
// unit ([stats.StudentT]'s resolution) and the range to which the interval is cut.
type valueRange struct{ resolution, least, most float64 }

// shareOf is the range of a share of n problems; n = 0 while unknown.
func shareOf(n int) *valueRange {
	r := &valueRange{most: 1}
	if n > 0 {
		r.resolution = 1 / float64(n)
	}
	return r
}

// newCurve takes a quantity of each run. The mean is over those of averaged, at the
// steps that all of these have; band asks for its interval.
func newCurve(runs, averaged []*rundir.Run, q quantity, band *valueRange) curve {
	c := curve{seeds: analysis.SeriesOf(runs, q)}
	all := analysis.SeriesOf(averaged, q)
	c.mean = analysis.MeanSeries(all)
	if band != nil {
		c.lo, c.hi = intervals(all, c.mean, *band)
	}
	return c
}

// leastSeeds is the smallest number of seeds whose interval is drawn: by Student's t, that of two is
// more than six times as wide as the distance of the two, and hides them.
const leastSeeds = 3

// intervals bound the mean over several series at each point of m as tables and
// verdicts do; there are none for fewer than [leastSeeds].
func intervals(all []analysis.Series, m analysis.Series, of valueRange) (lo, hi analysis.Series) {
	for _, p := range m {
		var values []float64
		for _, s := range all {
			if k := slices.IndexFunc(s, func(q analysis.Point) bool { return q.X == p.X }); k >= 0 {
				values = append(values, s[k].Y)
			}
		}
		f := analysis.NewSummary(values, of.resolution, of.least, of.most)
		if f.N >= leastSeeds && stats.IsFinite(f.Lo) && stats.IsFinite(f.Hi) {
			lo = append(lo, analysis.Point{X: p.X, Y: f.Lo})
			hi = append(hi, analysis.Point{X: p.X, Y: f.Hi})
		}
	}
	return lo, hi
}

// atSteps replaces the steps of s by the values that x has at them.
func atSteps(s, x analysis.Series) analysis.Series {
	var out analysis.Series
	for _, p := range s {
		if i := slices.IndexFunc(x, func(q analysis.Point) bool { return q.X == p.X }); i >= 0 {
			out = append(out, analysis.Point{X: x[i].Y, Y: p.Y})
		}
	}
	return out
}

// lastValue is the last value of the mean, for a legend: with its step where that
// is below xMax, and with the number of runs where not all of them have the
// quantity.
func (c curve) lastValue(xMax float64, runs int) string {
	if len(c.mean) == 0 {
		return ""
	}
	last := c.mean[len(c.mean)-1]
	out := analysis.Decimals(last.Y, 3)
	if last.X < xMax {
		out += fmt.Sprintf(" at step %.0f", last.X)
	}
	if len(c.seeds) < runs {
		out += ", " + runsOf(len(c.seeds), runs)
	}
	return " (" + out + ")"
}

func divergedMarks(runs []*rundir.Run, x, y quantity) analysis.Series {
	var marks analysis.Series
	for _, r := range runs {
		step, ok := divergedAt(r)
		if !ok {
			continue
		}
		mark, found := y(r).UpTo(float64(step))
		if found && x != nil {
			var at analysis.Point
			at, found = x(r).UpTo(mark.X)
			mark.X = at.Y
		}
		if found {
			marks = append(marks, mark)
		}
	}
	return marks
}

// divergedAt is the step at which a run diverged, or its last step where the
// result does not say.
func divergedAt(r *rundir.Run) (step int, ok bool) {
	if r.Result == nil || r.Result.Status != rundir.StateDiverged {
		return 0, false
	}
	if r.Result.DivergedAt != nil {
		return *r.Result.DivergedAt, true
	}
	return analysis.LastStep(r), true
}

// lastStep is the end of the x axis.
func lastStep(runs []*rundir.Run) float64 {
	x := 1
	for _, r := range runs {
		x = max(x, analysis.LastStep(r))
	}
	return float64(x)
}
