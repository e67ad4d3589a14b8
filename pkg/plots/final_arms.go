package plots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

// finalByArm draws the last validation reward of each arm.
func finalByArm(v *view) *figure {
	var rows []*analysis.ArmResult
	var names []string
	var styles []style
	for i := range v.Arms {
		a, s := &v.Arms[i], armStyles[i%overlayMax]
		if v.panels() { // repeated colors would mean something
			s = armStyles[0]
		}
		if a.Of(analysis.FinalMetric).N > 0 {
			rows, names, styles = append(rows, a), append(names, v.rowLabel(a.Name())), append(styles, s)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	p := newRowsPanel(rewardLabel(atEnd(v.runs)), names)
	p.addLevels(v.levels()...)
	var all []estimate
	for i, a := range rows {
		e := v.finalEstimate(a, float64(len(rows)-i), styles[i])
		side := sideText{e.place, a.Name(), []string{analysis.WithInterval(e.mean, e.lo, e.hi)}}
		if e.diverged {
			side.lines = append(side.lines, fmt.Sprintf("diverged: %d of %d", a.Diverged, a.Trained()))
		}
		p.side = append(p.side, side)
		all = append(all, e)
	}
	p.addEstimates(all, rowSpread)
	p.X.Min, p.X.Max = 0, 1
	return v.fitRows(&figure{
		title: "Final validation answer reward by arm", width: v.width(pageWidth),
		rows: [][]*panel{{p}}, caption: v.finalCaption(true),
	}, rowInches*0.85)
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

// rowLabel shortens the label of a row, on a phone to two lines.
func (v *view) rowLabel(s string) string {
	if v.phone {
		return twoLines(tickText, s, "", vg.Points(125))
	}
	return shorten(tickText, s, vg.Points(200))
}

// fitRows gives the only panel of a figure, a horizontal one, rows of the given height in inches. On a
// phone the text next to the data moves below the label of its row, and the label of the x axis
// below the panel, which is not as wide.
func (v *view) fitRows(fig *figure, row float64) *figure {
	p := fig.rows[0][0]
	ticks := p.Y.Tick.Marker.(plot.ConstantTicks)
	if v.phone {
		for i := range ticks {
			k := slices.IndexFunc(p.side, func(s sideText) bool { return s.y == ticks[i].Value })
			ticks[i].Label += "\n" + strings.Join(p.side[k].lines, "\n")
			lines := 1 + strings.Count(ticks[i].Label, "\n")
			row = max(row, float64((vg.Length(lines)*lineHeight(tickText)+vg.Points(10))/vg.Inch))
		}
		p.side = nil
		fig.xLabel, p.X.Label.Text = p.X.Label.Text, ""
		p.X.Tick.Marker = niceTicks{want: 3}
	}
	fig.panelHeight = row*float64(len(ticks)) + 0.55
	return fig
}

// rowInches is the height of a row of a horizontal panel.
const rowInches = 0.62

// rowSpread is the distance of the seeds from their mean, downward.
const rowSpread = -0.62

// estimate is a mean with its interval and the values of the seeds.
type estimate struct {
	place        float64 // on the other axis
	mean, lo, hi float64
	base         float64   // the base level of this arm alone; NaN: none is drawn
	values       []float64 // of the seeds; not drawn where there is one
	diverged     bool      // some seed did
	divergedAt   []*int    // of the seeds
	style        style
}

// finalEstimate is the last validation reward of an arm.
func (v *view) finalEstimate(a *analysis.ArmResult, place float64, s style) estimate {
	f := a.Of(analysis.FinalMetric)
	return estimate{
		place: place, mean: f.Mean, lo: f.Lo, hi: f.Hi, base: v.ownBase(a), values: f.Values,
		diverged: a.Diverged > 0, divergedAt: a.DivergedAt, style: s,
	}
}

// finalCaption describes what a point and an interval of the final reward are, which is also written
// next to the data if written is true.
func (v *view) finalCaption(written bool) []string {
	if !v.severalSeeds() {
		return []string{oneSeed, v.finalPoint()}
	}
	return []string{v.meanAndInterval(v.seedCounts(true), written) + "; small circles: each seed.", v.finalPoint()}
}

func (v *view) finalPoint() string {
	return "Each point: share of " + heldOut(atEnd(v.runs)) + " answered right after the last step, " +
		analysis.SampledAt(v.runs) + "."
}

// addEstimates draws means with error bars and, next to them at a distance of
// about spread, the seeds. Crosses mark what diverged.
func (p *panel) addEstimates(all []estimate, spread float64) {
	circle := glyph(dark, seedRadius, shape{})
	for _, e := range all {
		half := math.Abs(spread) / 2
		p.addOwnBase(e.base, e.place-half, e.place+half)
		p.addErrorBar(e)
		for i, v := range e.values {
			at := analysis.Series{p.point(e.place+spread*(0.45+2.6*jitter(i, len(e.values))), v)}
			switch {
			case !stats.IsFinite(v) || len(e.values) == 1:
			case i < len(e.divergedAt) && e.divergedAt[i] != nil:
				p.addMarkers(at, glyph(e.style.color, seedCross, cross{}))
			default:
				p.addMarkers(at, glyph(e.style.color, seedRadius, shape{}))
				p.addEntry(legendEntry{name: "a seed", glyph: circle})
			}
		}
		mean := e.style.glyph(meanRadius)
		if e.diverged {
			mean = divergedGlyph(e.style.color)
			p.addEntry(legendEntry{name: "diverged", glyph: divergedGlyph(dark)})
		}
		p.addMarkers(analysis.Series{p.point(e.place, e.mean)}, mean)
	}
}

func (p *panel) addErrorBar(e estimate) {
	if len(stats.Finite(e.values)) < leastSeeds || !stats.IsFinite(e.lo) || !stats.IsFinite(e.hi) {
		return
	}
	at := plotter.XYs{plotter.XY(p.point(e.place, e.mean))}
	low, high := e.mean-e.lo, e.hi-e.mean
	line := draw.LineStyle{Color: e.style.color, Width: vg.Points(medium)}
	if p.horizontal {
		p.Add(&plotter.XErrorBars{XYs: at, XErrors: plotter.XErrors{{Low: low, High: high}},
			LineStyle: line, CapWidth: vg.Points(errorBarWidth)})
		return
	}
	p.Add(&plotter.YErrorBars{XYs: at, YErrors: plotter.YErrors{{Low: low, High: high}},
		LineStyle: line, CapWidth: vg.Points(errorBarWidth)})
}

// jitter spreads n seeds evenly over a small part of the distance between two
// values, always the same seed at the same place.
func jitter(i, n int) float64 {
	if n < 2 {
		return 0
	}
	return 0.16 * (float64(i)/float64(n-1) - 0.5)
}
