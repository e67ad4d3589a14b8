package plots

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// panel is one plot with its title and legend above it.
type panel struct {
	*plot.Plot
	title  string
	value  string // at the end of the title
	legend []legendEntry
	side   []sideText
	y      yAxis // of curves
	// From the back to the front: bands of intervals, lines of seeds, everything else.
	bands, behind layer
	// horizontal panels have their values along x and a row for each name.
	horizontal bool
}

// sideText is lines of text on the right of the data at a height of the y axis.
type sideText struct {
	y     float64
	name  string // of the values that it is about, for [Drawing.Alt]
	lines []string
}

// newPanel is an empty plot with light horizontal rules.
func newPanel(xLabel, yLabel string) *panel {
	p := plot.New()
	p.BackgroundColor = nil // that of the figure
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = labelText.Font
		axis.Tick.Label.Font = tickText.Font
		axis.Tick.Length = vg.Points(4)
		axis.Tick.LineStyle.Width = vg.Points(0.7)
		axis.LineStyle.Width = vg.Points(0.7)
		axis.Label.Padding = vg.Points(3)
	}
	p.X.Label.Text, p.Y.Label.Text = xLabel, yLabel
	p.X.Tick.Marker = niceTicks{want: 4, integer: true}
	p.Y.Tick.Marker = niceTicks{want: 4}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: pale, Width: vg.Points(0.7)}
	p.Add(grid)
	out := &panel{Plot: p}
	p.Add(&out.bands, &out.behind)
	return out
}

// layer is drawn where it was added to a plot, with what is put into it later: whatever the order of
// the arms, no band hides a line and no seed hides a mean. The axes have their ranges from elsewhere.
type layer []plot.Plotter

// Plot implements [plot.Plotter].
func (l *layer) Plot(c draw.Canvas, p *plot.Plot) {
	for _, one := range *l {
		one.Plot(c, p)
	}
}

// stepLabel is the x label of curves over training.
func stepLabel(infos []analysis.RunInfo) string { return algorithm(infos) + " step (rollout batches)" }

// algorithm is what the runs train with: DPO, or GRPO and its relatives.
func algorithm(infos []analysis.RunInfo) string {
	if len(infos) > 0 && !slices.ContainsFunc(infos, func(r analysis.RunInfo) bool { return !r.IsDPO() }) {
		return "DPO"
	}
	return "GRPO"
}

// newStepPanel is a plot over steps of runs.
func newStepPanel(infos []analysis.RunInfo, xMax float64, title, yLabel string, y yAxis) *panel {
	p := newPanel(stepLabel(infos), yLabel)
	p.title = title
	p.X.Min, p.X.Max = 0, xMax
	p.setY(y)
	return p
}

// xys are the points of a series as gonum's plotters take them.
func xys(s analysis.Series) plotter.XYs {
	out := make(plotter.XYs, len(s))
	for i, p := range s {
		out[i] = plotter.XY(p)
	}
	return out
}

func (p *panel) addLine(s analysis.Series, style draw.LineStyle) {
	if len(s) > 0 {
		p.Add(&plotter.Line{XYs: xys(s), LineStyle: style})
	}
}

// addBehind is [panel.addLine] for a line behind those of the means.
func (p *panel) addBehind(s analysis.Series, style draw.LineStyle) {
	if len(s) > 0 {
		p.behind = append(p.behind, &plotter.Line{XYs: xys(s), LineStyle: style})
	}
}

// addBand fills the area between lo and hi behind all lines, if they have several points.
func (p *panel) addBand(lo, hi analysis.Series, s style) bool {
	if len(lo) < 2 {
		return false
	}
	outline := slices.Clone(hi)
	for _, q := range slices.Backward(lo) {
		outline = append(outline, q)
	}
	p.bands = append(p.bands, &plotter.Polygon{XYs: []plotter.XYs{xys(outline)}, Color: alpha(s.color, bandOpacity)})
	return true
}

// markers are points of a plot. Unlike [plotter.Scatter] they don't ask for room
// at the edges, which would make panels with a marker there smaller than others.
type markers struct {
	plotter.XYs
	glyph draw.GlyphStyle
}

// Plot implements [plot.Plotter].
func (m markers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, q := range m.XYs {
		c.DrawGlyphNoClip(m.glyph, vg.Point{X: x(q.X), Y: y(q.Y)})
	}
}

// DataRange implements [plot.DataRanger].
func (m markers) DataRange() (xmin, xmax, ymin, ymax float64) { return plotter.XYRange(m.XYs) }

func (p *panel) addMarkers(s analysis.Series, glyph draw.GlyphStyle) {
	if len(s) > 0 {
		p.Add(markers{xys(s), glyph})
	}
}

// addLevels draws reference lines along the rows or columns of the plot, and none
// for a level that is not finite.
func (p *panel) addLevels(all ...level) {
	for _, l := range all {
		if stats.IsFinite(l.at) {
			p.addLine(p.across(l.at, math.Inf(-1), math.Inf(1)), l.style.line(medium))
			p.addEntry(legendEntry{name: l.name + " (" + analysis.Decimals(l.at, 3) + ")", line: l.style.line(medium)})
		}
	}
}

// across is a line at a value, from one place of the other axis to another, at most
// to the ends of that axis.
func (p *panel) across(value, from, to float64) analysis.Series {
	axis := &p.X
	if p.horizontal {
		axis = &p.Y
	}
	return analysis.Series{p.point(max(from, axis.Min), value), p.point(min(to, axis.Max), value)}
}

// point is a value at a place of the other axis.
func (p *panel) point(place, value float64) analysis.Point {
	if p.horizontal {
		return analysis.Point{X: value, Y: place}
	}
	return analysis.Point{X: place, Y: value}
}

// level is a reference line across a plot.
type level struct {
	name  string // in the legend, without its value
	at    float64
	style style
}

// named is one of several quantities in a panel.
type named struct {
	name    string // empty: not in the legend
	y       quantity
	style   style
	options curveOptions
}

// curveOptions is how much of a curve is drawn.
type curveOptions struct {
	width       float64 // of the mean's line
	seedOpacity float64 // of the line of each seed
	markers     int     // about this many markers on the mean
	offset      int     // arms that overlap have their markers at different points
}

const allMarkers = 1 << 20

// addCurve draws a curve: the band, each seed thin, the mean thick with a marker at
// some of its points. A curve without data draws nothing.
func (p *panel) addCurve(name string, c curve, s style, o curveOptions) {
	if len(c.seeds) == 0 {
		return
	}
	entry := legendEntry{name: name, line: s.line(o.width)}
	if p.addBand(p.y.place(c.lo), p.y.place(c.hi), s) {
		entry.band = alpha(s.color, bandOpacity)
	}
	if len(c.seeds) > 1 || len(c.mean) == 0 {
		for _, one := range c.seeds {
			p.addBehind(p.y.place(one), s.faint(o.seedOpacity))
		}
	}
	mean := p.y.place(c.mean)
	p.addLine(mean, entry.line)
	if o.markers > 0 && s.marker != nil {
		entry.glyph = s.glyph(markerRadius)
		p.addMarkers(some(mean, o.markers, o.offset), entry.glyph)
	}
	p.addEntry(entry)
}

// some picks about n points, evenly spread, starting near the offset-th part of
// their distance.
func some(s analysis.Series, n, offset int) analysis.Series {
	if len(s) <= n+n/2 {
		return s
	}
	every := max(1, len(s)/n)
	var out analysis.Series
	for i := (offset * every / overlayMax) % every; i < len(s); i += every {
		out = append(out, s[i])
	}
	return out
}

// addDiverged marks the points at which runs diverged: the point of the run's own series
// y at the step of the divergence, or its last one before. x replaces the step where it is
// not nil.
func (p *panel) addDiverged(runs []*rundir.Run, x, y quantity, s style) {
	if marks := divergedMarks(runs, x, y); len(marks) > 0 {
		p.addMarkers(p.y.place(marks), divergedGlyph(s.color))
		p.addEntry(legendEntry{name: "diverged", glyph: divergedGlyph(dark)})
	}
}

// yAxis is the y axis of all panels of a figure.
type yAxis struct {
	lo, hi float64
	log    bool
	floor  bool // some values are below lo and drawn at it
}

const (
	// logRange is the ratio of the largest to the smallest value from which an
	// axis is logarithmic.
	logRange = 30
	// mostLog is the largest value of a logarithmic axis: the next tick would be
	// infinite.
	mostLog = 1e300
	// logDecades is how far a logarithmic axis goes down from its largest value.
	logDecades = 6
)

// newYAxis fits the seeds of curves, from 0 or, where log allows it and they range
// widely, on a logarithmic axis.
func newYAxis(log bool, curves ...curve) yAxis {
	hi, least := 0.0, math.Inf(1)
	zeros := false
	for _, c := range curves {
		for _, p := range slices.Concat(c.seeds...) {
			hi = max(hi, p.Y)
			if p.Y > 0 {
				least = min(least, p.Y)
			} else {
				zeros = true
			}
		}
	}
	switch {
	case hi <= 0:
		return yAxis{hi: 1}
	case !log || hi/least <= logRange:
		return yAxis{hi: min(hi, math.MaxFloat64/1.05) * 1.05}
	}
	hi = min(hi, mostLog)
	y := yAxis{log: true, floor: zeros}
	if bottom := hi / math.Pow(10, logDecades); least < bottom {
		least, y.floor = bottom, true
	}
	y.lo, y.hi = niceBelow(least), niceAbove(hi)
	return y
}

// shareAxis is the axis of shares: from 0 to 1, or to 0.5 or 0.2 where the seeds of the curves and the levels stay
// below. It does not fit them: so the figures of one task have one scale.
func shareAxis(levels []level, curves ...curve) yAxis {
	most := 0.0
	for _, c := range curves {
		for _, p := range slices.Concat(c.seeds...) {
			most = max(most, p.Y)
		}
	}
	for _, l := range levels {
		if stats.IsFinite(l.at) {
			most = max(most, l.at)
		}
	}
	for _, hi := range []float64{0.2, 0.5} {
		if most <= 0.95*hi {
			return yAxis{hi: hi}
		}
	}
	return yAxis{hi: 1}
}

// signedAxis fits the seeds of curves with values of either sign, and 0.
func signedAxis(curves ...curve) yAxis {
	var y yAxis
	for _, c := range curves {
		for _, p := range slices.Concat(c.seeds...) {
			y.lo, y.hi = min(y.lo, p.Y), max(y.hi, p.Y)
		}
	}
	if y.lo == y.hi {
		y.hi = 1
	}
	room := 0.05 * (y.hi - y.lo)
	if y.lo < 0 {
		y.lo -= room
	}
	if y.hi > 0 {
		y.hi += room
	}
	return y
}

// setY gives the panel its y axis.
func (p *panel) setY(y yAxis) {
	p.y = y
	p.Y.Min, p.Y.Max = y.lo, y.hi
	if y.log {
		p.Y.Min, p.Y.Max = math.Log10(y.lo), math.Log10(y.hi)
		p.Y.Tick.Marker = logTicks{}
	}
}

// place moves values beyond the ends of the axis to the ends, because the interval
// of two seeds may be many times as wide as the data, and takes logarithms on a
// logarithmic axis.
func (y yAxis) place(s analysis.Series) analysis.Series {
	out := slices.Clone(s)
	for i := range out {
		out[i].Y = min(max(out[i].Y, y.lo), y.hi)
		if y.log {
			out[i].Y = math.Log10(out[i].Y)
		}
	}
	return out
}

// notes states where the axis is unusual.
func (y yAxis) notes() []string {
	var out []string
	if y.log {
		out = append(out, "Logarithmic axis.")
	}
	if y.floor {
		out = append(out, "Smaller values and 0 are at its lower end.")
	}
	return out
}

// legendEntry is a name with a sample of its line and marker.
type legendEntry struct {
	name  string
	line  draw.LineStyle  // zero width: no line
	glyph draw.GlyphStyle // nil shape: no marker
	band  color.NRGBA     // of a band behind the line; transparent: none
}

// addEntry adds an entry to the panel's legend unless its name is empty or there
// already.
func (p *panel) addEntry(e legendEntry) { p.legend = union(p.legend, e) }

func union(all []legendEntry, more ...legendEntry) []legendEntry {
	for _, e := range more {
		if e.name != "" && !slices.ContainsFunc(all, func(have legendEntry) bool { return have.name == e.name }) {
			all = append(all, e)
		}
	}
	return all
}

// addOwnBase draws the base level of one arm, where it is finite.
func (p *panel) addOwnBase(base, from, to float64) {
	if stats.IsFinite(base) {
		p.addLine(p.across(base, from, to), baseStyle.line(medium))
		p.addEntry(legendEntry{name: "base level of the arm", line: baseStyle.line(medium)})
	}
}

// niceBelow and niceAbove are the nearest of 1, 2 and 5 times a power of ten that
// are not above and not below a positive v.
func niceBelow(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-12))
	for _, m := range []float64{5, 2} {
		if m*power <= v {
			return m * power
		}
	}
	return power
}

func niceAbove(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-12))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-12) {
			return m * power
		}
	}
	return 10 * power
}
