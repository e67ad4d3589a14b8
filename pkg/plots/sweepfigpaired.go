package plots

import (
	"fmt"
	"image/color"
	"strings"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/stats"
)

// Figures whose rows are arms or comparisons, with words on the right.

// seedGlyph is one seed beside a mean.
func seedGlyph(c color.Color) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: vg.Points(2.3), Shape: outline{}}
}

// capWidth is the length of the ends of an error bar, in points.
const capWidth = 8

// rowInches is the height of a row of a forest plot.
const rowInches = 0.62

// forestRow is a mean with its interval and its seeds.
type forestRow struct {
	name     []string // lines
	mean     float64
	lo, hi   float64
	base     float64 // the row's own base level; 0: none is drawn
	values   []float64
	diverged []bool // of values
	look     look
	side     []string
}

// forest draws rows from the top down along a horizontal axis.
func forest(rows []forestRow, xLabel string) (*panel, bool) {
	p := newPlot(xLabel, "")
	p.Y.Min, p.Y.Max = 0.4, float64(len(rows))+0.6
	p.Y.Tick.Length = 0
	p.Y.LineStyle.Width = 0
	p.X.Tick.Marker = niceTicks{want: 5}
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical = draw.LineStyle{Color: pale, Width: vg.Points(0.7)}
	p.Add(grid)
	pan := &panel{plot: p}
	var ticks []plot.Tick
	marks := false
	for i, r := range rows {
		y := float64(len(rows) - i)
		name := ""
		for k, line := range r.name {
			if k > 0 {
				name += "\n"
			}
			name += line
		}
		ticks = append(ticks, plot.Tick{Value: y, Label: name})
		pan.side = append(pan.side, sideText{y: y, of: strings.Join(r.name, " "), lines: r.side})
		if stats.IsFinite(r.lo) && stats.IsFinite(r.hi) {
			p.Add(&plotter.XErrorBars{
				XYs: plotter.XYs{{X: r.mean, Y: y}}, XErrors: plotter.XErrors{{Low: r.mean - r.lo, High: r.hi - r.mean}},
				LineStyle: draw.LineStyle{Color: r.look.color, Width: vg.Points(thick)}, CapWidth: vg.Points(capWidth),
			})
		}
		if r.base > 0 {
			p.Add(&plotter.Line{XYs: plotter.XYs{{X: r.base, Y: y - 0.45}, {X: r.base, Y: y + 0.45}}, LineStyle: lookBase.line(medium)})
		}
		var seeds, crossed analysis.Series
		for k, x := range r.values {
			if !stats.IsFinite(x) || len(r.values) == 1 {
				continue
			}
			at := analysis.Point{X: x, Y: y - 0.3 + 1.6*jitter(k, len(r.values))}
			if k < len(r.diverged) && r.diverged[k] {
				crossed = append(crossed, at)
			} else {
				seeds = append(seeds, at)
			}
		}
		addMarkers(p, seeds, seedGlyph(r.look.color))
		marks = addMarkers(p, crossed, divergedGlyph(r.look.color)) || marks
		if stats.IsFinite(r.mean) {
			addMarkers(p, analysis.Series{{X: r.mean, Y: y}}, r.look.glyph(markerRadius+1.4))
		}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	return pan, marks
}

// vertical draws a line across all rows.
func vertical(p *plot.Plot, x float64, style draw.LineStyle) {
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}}, LineStyle: style})
}

// Paired draws the differences of the last validation reward, seed by seed.
func (v *sweepView) Paired() (figure, bool) {
	var rows []forestRow
	lookDiff := look{color: blue, marker: draw.CircleGlyph{}}
	for _, c := range v.Comparisons {
		if c.Metric != "final" || c.N == 0 {
			continue
		}
		r := forestRow{
			name: v.comparisonName(c), look: lookDiff,
			mean: 100 * c.Mean, lo: 100 * c.Lo, hi: 100 * c.Hi, values: timesAll(c.Diffs, 100), side: DifferenceText(c),
		}
		if !c.Separable {
			r.look.color = dark
			r.look.marker = outline{}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return figure{}, false
	}
	pan, _ := forest(rows, "difference of the final validation answer reward (points)")
	vertical(pan.plot, 0, draw.LineStyle{Color: black, Width: vg.Points(medium)})
	includeZero(&pan.plot.X)
	fig := figure{
		title: "Paired differences of the final validation answer reward", width: PageWidth,
		panelHeight: rowInches*float64(len(rows)) + 0.55,
		Rows:        [][]*panel{{pan}}, Caption: []string{"One seed an arm: no interval."},
	}
	if v.severalSeeds() {
		fig.Caption = []string{fmt.Sprintf("Mean over n = %d seeds with its 95%% interval (Student's t); filled: separable from 0 at the 5%% level after Holm's adjustment; small circles: each seed.",
			len(v.manifest().Seeds))}
	}
	fig.Caption = append(fig.Caption, "1 point = 1% of "+v.heldOut()+".")
	if !analysis.OtherProblems(v.manifest().Varied) {
		fig.Notes = append(fig.Notes, "The difference of a seed is between two arms that saw the same problems in the same order.")
	}
	fig.Notes = append(fig.Notes, "The intervals are not adjusted for the number of comparisons.")
	return v.close(fig), true
}

// comparisonName is "A" over "− B".
func (v *sweepView) comparisonName(c analysis.Comparison) []string {
	width := vg.Points(150)
	return []string{shorten(tickText, v.armLabel(c.A), width), shorten(tickText, "− "+v.armLabel(c.B), width)}
}

// armLabel is the label of an arm, or the name itself where it is none.
func (v *sweepView) armLabel(name string) string {
	for _, a := range v.Arms {
		if a.Arm.Name == name {
			return a.Name()
		}
	}
	return name
}

// DifferenceText is what stands beside a difference.
func DifferenceText(c analysis.Comparison) []string {
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	first := signed("%s", n.Bare(c.Mean)+n.Interval(c.Lo, c.Hi))
	if c.Mean > 0 {
		first = "+" + first
	}
	if c.N < 2 {
		return []string{first, "one seed: no interval"}
	}
	switch {
	case c.Separable:
		return []string{first, fmt.Sprintf("separable, %d seeds", c.N)}
	case c.SeedsNeeded > 0:
		return []string{first, fmt.Sprintf("not separable, %d seeds", c.N), fmt.Sprintf("(%s needed)", c.Needed())}
	}
	return []string{first, fmt.Sprintf("not separable, %d seeds", c.N)}
}

// signed prints numbers with a true minus.
func signed(format string, v ...any) string {
	return strings.ReplaceAll(fmt.Sprintf(format, v...), "-", "−")
}

func timesAll(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}

// includeZero widens an axis of differences so that 0 and the outermost points
// stand off its ends.
func includeZero(a *plot.Axis) {
	a.Min, a.Max = min(a.Min, 0), max(a.Max, 0)
	pad := 0.06 * (a.Max - a.Min)
	if pad == 0 {
		pad = 1
	}
	a.Min, a.Max = a.Min-pad, a.Max+pad
}

// finalByArm draws the last validation reward of each arm.
func (v *sweepView) finalByArm() (figure, bool) {
	var rows []forestRow
	for i := range v.Arms {
		a := &v.Arms[i]
		if a.Of(analysis.FinalMetric).N == 0 {
			continue
		}
		f := a.Of(analysis.FinalMetric)
		r := forestRow{
			name: []string{shorten(tickText, a.Name(), vg.Points(170))}, look: armLooks[i%overlayMax],
			mean: f.Mean, lo: f.Lo, hi: f.Hi, values: f.Values, diverged: make([]bool, len(f.Values)),
		}
		for k, at := range a.DivergedAt {
			if k < len(r.diverged) {
				r.diverged[k] = at != nil
			}
		}
		if v.basesDiffer() && stats.IsFinite(a.Of(analysis.InitialMetric).Mean) {
			r.base = a.Of(analysis.InitialMetric).Mean
		}
		if v.panels() {
			r.look = armLooks[0] // colours that come again would say something
		}
		text := analysis.Decimals(f.Mean, 3)
		if stats.IsFinite(f.Lo) {
			text += fmt.Sprintf(" [%s, %s]", analysis.Decimals(f.Lo, 3), analysis.Decimals(f.Hi, 3))
		}
		r.side = []string{text}
		if a.Diverged > 0 {
			r.side = append(r.side, fmt.Sprintf("diverged: %d of %d", a.Diverged, len(a.Runs)))
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return figure{}, false
	}
	pan, marks := forest(rows, v.rewardLabel())
	p := pan.plot
	p.X.Min, p.X.Max = 0, 1
	for _, l := range v.levels() {
		vertical(p, l.at, l.style)
		pan.Legend = append(pan.Legend, l.entry())
	}
	if v.basesDiffer() {
		pan.Legend = append(pan.Legend, ownBaseEntry())
	}
	if v.severalSeeds() {
		pan.Legend = append(pan.Legend, legendEntry{Name: "a seed", glyph: seedGlyph(dark)})
	}
	if marks {
		pan.Legend = append(pan.Legend, legendEntry{Name: "a seed that diverged", glyph: divergedGlyph(dark)})
	}
	fig := figure{
		title: "Final validation answer reward by arm", width: PageWidth, panelHeight: rowInches*0.85*float64(len(rows)) + 0.55,
		Rows: [][]*panel{{pan}}, Caption: v.finalNote(),
	}
	return v.close(fig), true
}
