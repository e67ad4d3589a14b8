package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// chart is a figure of one quantity with a curve for each arm: over each other
// while they can be told apart, else in a panel each with the others in grey
// behind.
type chart struct {
	title          string
	xLabel, yLabel string
	x              func(*rundir.Run) analysis.Series // nil: the step itself
	y              func(*rundir.Run) analysis.Series
	xMax           float64
	yMax           float64     // 0: as high as the data
	band           *valueRange // of the interval around the mean; nil: none
	levels         bool        // base level and majority baseline
	values         bool        // the last value behind an arm's name
	log            bool        // the y axis may be logarithmic
}

const stepLabel = "GRPO step (rollout batches)"

// Sizes of figures, inches.
const (
	PageWidth   = 7.2
	pageHeight  = 4.0
	WideWidth   = 9.6
	panelInches = 2.1 // height of a panel among many
)

// arms are the arms of v that the chart has something of, with their curves.
func (c chart) arms(v *sweepView) (arms []armView, curves []curve) {
	for _, a := range v.arms {
		var k curve
		if c.x == nil {
			k = a.curveOf(c.y, c.band)
		} else {
			k = a.against(c.x, c.y, c.band)
		}
		if len(k.seeds) > 0 {
			arms, curves = append(arms, a), append(curves, k)
		}
	}
	return arms, curves
}

func (c chart) draw(v *sweepView) (figure, bool) {
	arms, curves := c.arms(v)
	if len(arms) == 0 {
		return figure{}, false
	}
	fig := figure{title: c.title}
	scale := c.scale(curves)
	if v.panels() {
		c.drawPanels(&fig, v, arms, curves, scale)
	} else {
		c.drawOverlay(&fig, v, arms, curves, scale)
	}
	return fig, true
}

func (c chart) newPlot(scale yScale, xLabel, yLabel string) *plot.Plot {
	p := newPlot(xLabel, yLabel)
	p.X.Min, p.X.Max = 0, c.xMax
	scale.apply(p)
	return p
}

func (c chart) drawOverlay(fig *figure, v *sweepView, arms []armView, curves []curve, scale yScale) {
	p := c.newPlot(scale, c.xLabel, c.yLabel)
	pan := &panel{plot: p}
	levels := c.addLevels(p, v)
	style := curveStyle{width: thick, seedOpacity: 0.5, markers: 10}
	if len(arms) > 2 {
		style.seedOpacity = 0.32
	}
	marks := false
	for i, a := range arms {
		style.offset = i
		entry := curves[i].on(scale).addTo(p, a.look, style)
		entry.Name = a.label
		if c.values {
			entry.Name += c.lastValue(curves[i])
		}
		pan.Legend = append(pan.Legend, entry)
	}
	for _, a := range arms {
		marks = c.addMarks(p, a, scale, a.look.color) || marks
	}
	pan.Legend = append(pan.Legend, levels...)
	if marks {
		pan.Legend = append(pan.Legend, legendEntry{Name: "diverged", glyph: divergedGlyph(dark)})
	}
	fig.width, fig.panelHeight, fig.Rows = PageWidth, pageHeight, [][]*panel{{pan}}
}

func (c chart) drawPanels(fig *figure, v *sweepView, arms []armView, curves []curve, scale yScale) {
	marks := false
	var levels []legendEntry
	own := curveStyle{width: thick, seedOpacity: 0.55}
	for i, a := range arms {
		p := c.newPlot(scale, "", "")
		p.X.Tick.Marker = niceTicks{want: 2, integer: true}
		levels = c.addLevels(p, v)
		if base := a.Of(analysis.InitialMetric).Mean; c.levels && v.basesDiffer() && stats.IsFinite(base) {
			own := level{"base level of the arm", base, lookBase.line(medium)}
			addLevel(p, own.at, c.xMax, own.style)
			levels = append([]legendEntry{{Name: own.name, line: own.style}}, levels...)
		}
		for k := range arms {
			if k != i {
				curve{mean: curves[k].mean}.on(scale).addTo(p, lookOther, curveStyle{width: thin})
			}
		}
		curves[i].on(scale).addTo(p, lookPlain, own)
		marks = c.addMarks(p, a, scale, blue) || marks
		value := ""
		if c.values {
			value = c.lastValue(curves[i])
		}
		fig.addPanel(v.columns(), &panel{title: a.Name(), value: value, plot: p})
	}
	sample := legendEntry{Name: "the arm named above the panel", line: lookPlain.line(thick)}
	if c.band != nil && v.severalSeeds() {
		sample.shaded = lookPlain
	}
	fig.legend = append(fig.legend, sample, legendEntry{Name: "the other arms, means", line: lookOther.line(thin)})
	fig.legend = append(fig.legend, levels...)
	if marks {
		fig.legend = append(fig.legend, legendEntry{Name: "diverged", glyph: divergedGlyph(blue)})
	}
	fig.width, fig.panelHeight = WideWidth, panelInches
	fig.xLabel, fig.yLabel = c.xLabel, c.yLabel
	fig.fitTitles()
}

// addPanel puts a panel behind the others in rows of so many columns.
func (f *figure) addPanel(columns int, p *panel) {
	if n := len(f.Rows); n == 0 || len(f.Rows[n-1]) == columns {
		f.Rows = append(f.Rows, nil)
	}
	n := len(f.Rows) - 1
	f.Rows[n] = append(f.Rows[n], p)
}

// fitTitles shortens the panels' titles to two lines of the width of a panel,
// of which the value at the end takes its part.
func (f *figure) fitTitles() {
	columns := len(f.Rows[0])
	width := vg.Length(f.width)*vg.Inch - 2*vg.Points(margin) - f.yLabelWidth()
	width = (width - vg.Points(panelGap)*vg.Length(columns-1)) / vg.Length(columns)
	for _, row := range f.Rows {
		for _, p := range row {
			p.title = twoLines(panelText, p.title, p.value, width)
		}
	}
}

// lastValue is the last value of the mean, with its step where that is not the
// last one.
func (c chart) lastValue(k curve) string {
	last, ok := k.last()
	if !ok {
		return ""
	}
	out := analysis.Decimals(last.Y, 3)
	if c.x == nil && last.X < c.xMax {
		out += fmt.Sprintf(" at step %.0f", last.X)
	}
	return " (" + out + ")"
}

func (c chart) addMarks(p *plot.Plot, a armView, scale yScale, col color.NRGBA) bool {
	marks := scale.place(a.divergedMarks(c.x, c.y))
	return addMarkers(p, marks, divergedGlyph(col))
}

// addLevels draws the levels that all arms share. The curves of arms that start
// apart show where they do: each begins at its own base level.
func (c chart) addLevels(p *plot.Plot, v *sweepView) []legendEntry {
	if !c.levels {
		return nil
	}
	var legend []legendEntry
	for _, l := range v.levels() {
		addLevel(p, l.at, c.xMax, l.style)
		legend = append(legend, l.entry())
	}
	return legend
}

// level is a reference line.
type level struct {
	name  string
	at    float64
	style draw.LineStyle
}

func (l level) entry() legendEntry {
	return legendEntry{Name: fmt.Sprintf("%s (%s)", l.name, analysis.Decimals(l.at, 3)), line: l.style}
}

// levels are the base level and the majority-answer baseline where all arms
// share them.
func (v *sweepView) levels() []level {
	all := []level{
		{"base level", v.Base, lookBase.line(medium)},
		{"majority answer", v.Majority, lookMajority.line(medium + 0.2)},
	}
	return slices.DeleteFunc(all, func(l level) bool { return !stats.IsFinite(l.at) })
}

// basesDiffer says whether each arm has a base level of its own.
func (v *sweepView) basesDiffer() bool {
	return !stats.IsFinite(v.Base) && slices.ContainsFunc(v.Arms, func(a analysis.ArmResult) bool { return a.Of(analysis.InitialMetric).N > 0 })
}

// yScale is the y axis of all panels of a figure.
type yScale struct {
	lo, hi float64
	log    bool
	floor  bool // some values are below lo and drawn at it
}

const (
	// logRange is the ratio of the largest to the smallest value from which on an
	// axis is logarithmic.
	logRange = 30
	// mostLog is the largest value of a logarithmic axis: beyond, the next tick
	// would be infinite.
	mostLog = 1e300
	// logDecades is how far a logarithmic axis goes down from its largest value.
	logDecades = 6
)

func (c chart) scale(curves []curve) yScale {
	hi, least := 0.0, math.Inf(1)
	zeros := false
	for _, k := range curves {
		for _, s := range k.seeds {
			for _, p := range s {
				hi = max(hi, p.Y)
				if p.Y > 0 {
					least = min(least, p.Y)
				} else {
					zeros = true
				}
			}
		}
	}
	switch {
	case c.yMax > 0:
		return yScale{hi: c.yMax}
	case hi <= 0:
		return yScale{hi: 1}
	case !c.log || hi/least <= logRange:
		if higher := hi * 1.05; stats.IsFinite(higher) {
			hi = higher
		}
		return yScale{hi: hi}
	}
	hi = min(hi, mostLog)
	s := yScale{log: true, floor: zeros}
	bottom := hi / math.Pow(10, logDecades)
	if least < bottom {
		least, s.floor = bottom, true
	}
	s.lo, s.hi = niceBelow(least), niceAbove(hi)
	return s
}

func (s yScale) apply(p *plot.Plot) {
	p.Y.Min, p.Y.Max = s.lo, s.hi
	if s.log {
		// Logarithms on a linear axis: gonum's own logarithmic scale takes the
		// middle of the numbers for that of the axis when it makes room for the
		// label.
		p.Y.Min, p.Y.Max = math.Log10(s.lo), math.Log10(s.hi)
		p.Y.Tick.Marker = logTicks{}
	}
}

// cut moves values beyond the ends of the axis to the ends.
func (s yScale) cut(all analysis.Series) analysis.Series {
	out := slices.Clone(all)
	for i := range out {
		out[i].Y = min(max(out[i].Y, s.lo), s.hi)
	}
	return out
}

// place puts values where the axis has them: as they are, or, on a logarithmic
// axis, their logarithms, with those beyond its ends moved to the ends.
func (s yScale) place(all analysis.Series) analysis.Series {
	if !s.log {
		return all
	}
	out := s.cut(all)
	for i := range out {
		out[i].Y = math.Log10(out[i].Y)
	}
	return out
}

// on is the curve on the axis of a figure, which cuts the interval off: that of
// two seeds may be many times as wide as the data.
func (k curve) on(s yScale) curve {
	k.lo, k.hi = s.cut(k.lo), s.cut(k.hi)
	if !s.log {
		return k
	}
	out := curve{mean: s.place(k.mean), lo: s.place(k.lo), hi: s.place(k.hi)}
	for _, one := range k.seeds {
		out.seeds = append(out.seeds, s.place(one))
	}
	return out
}
