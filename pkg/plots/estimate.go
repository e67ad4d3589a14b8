package plots

import (
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

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
	e := estimate{
		place: place, mean: f.Mean, lo: f.Lo, hi: f.Hi, base: math.NaN(), values: f.Values,
		diverged: a.Diverged > 0, divergedAt: a.DivergedAt, style: s,
	}
	if v.basesDiffer() {
		e.base = a.Of(analysis.InitialMetric).Mean
	}
	return e
}

// finalCaption says what a point and an interval of the final reward are.
func (v *view) finalCaption() []string {
	if !v.severalSeeds() {
		return []string{oneSeed, v.finalPoint()}
	}
	return []string{v.meanOver() + " with its 95% interval (Student's t); small circles: each seed.", v.finalPoint()}
}

func (v *view) finalPoint() string {
	return "Each point: share of " + v.heldOut() + " answered right after the last step, " +
		analysis.SampledAt(v.runs) + "."
}

// ownBase is the legend of base levels that each arm has for itself.
var ownBase = legendEntry{name: "base level of the arm", line: baseStyle.line(medium)}

// addEstimates draws means with error bars and, next to them at a distance of
// about spread, the seeds. Crosses mark what diverged. It returns the legend.
func (p *panel) addEstimates(all []estimate, spread float64) []legendEntry {
	var bases, seeds, crosses bool
	for _, e := range all {
		if stats.IsFinite(e.base) {
			p.addLine(p.across(e.base, e.place-math.Abs(spread)/2, e.place+math.Abs(spread)/2), baseStyle.line(medium))
			bases = true
		}
		p.addErrorBar(e)
		var fine, diverged analysis.Series
		for i, v := range e.values {
			at := p.point(e.place+spread*(0.45+2.6*jitter(i, len(e.values))), v)
			switch {
			case !stats.IsFinite(v) || len(e.values) == 1:
			case i < len(e.divergedAt) && e.divergedAt[i] != nil:
				diverged = append(diverged, at)
			default:
				fine = append(fine, at)
			}
		}
		mean := e.style.glyph(meanRadius)
		if e.diverged {
			mean, crosses = divergedGlyph(e.style.color), true
		}
		seeds = p.addMarkers(fine, glyph(e.style.color, seedRadius, shape{})) || seeds
		crosses = p.addMarkers(diverged, glyph(e.style.color, seedCross, cross{})) || crosses
		p.addMarkers(analysis.Series{p.point(e.place, e.mean)}, mean)
	}
	var legend []legendEntry
	if bases {
		legend = append(legend, ownBase)
	}
	if seeds {
		legend = append(legend, legendEntry{name: "a seed", glyph: glyph(dark, seedRadius, shape{})})
	}
	if crosses {
		legend = append(legend, legendEntry{name: "diverged", glyph: divergedGlyph(dark)})
	}
	return legend
}

func (p *panel) addErrorBar(e estimate) {
	if !stats.IsFinite(e.lo) || !stats.IsFinite(e.hi) {
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
