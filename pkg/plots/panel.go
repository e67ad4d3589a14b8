package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

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

// newStepPanel is a plot over steps of runs whose y axis starts at 0.
func newStepPanel(infos []analysis.RunInfo, xMax float64, yLabel string) *panel {
	p := newPanel(stepLabel(infos), yLabel)
	p.X.Min, p.X.Max, p.Y.Min = 0, xMax, 0
	return p
}

// newRowsPanel is a plot with a horizontal row for each name, from the top down;
// row i lies at y = n - i.
func newRowsPanel(xLabel string, names []string) *panel {
	p := newPanel(xLabel, "")
	p.horizontal = true
	p.Y.Min, p.Y.Max = 0.4, float64(len(names))+0.6
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.X.Tick.Marker = niceTicks{want: 5}
	rules := plotter.NewGrid()
	rules.Horizontal.Width = 0
	rules.Vertical = draw.LineStyle{Color: pale, Width: vg.Points(0.7)}
	p.Add(rules)
	ticks := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		ticks[i] = plot.Tick{Value: float64(len(names) - i), Label: name}
	}
	p.Y.Tick.Marker = ticks
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

// level is a reference line across a plot.
type level struct {
	name  string // in the legend, without its value
	at    float64
	style style
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
