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
	return []string{v.meanAndInterval(true, written) + "; small circles: each seed.", v.finalPoint()}
}

func (v *view) finalPoint() string {
	return "Each point: share of " + heldOut(v.runs) + " answered right after the last step, " +
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

// addOwnBase draws the base level of one arm, where it is finite.
func (p *panel) addOwnBase(base, from, to float64) {
	if stats.IsFinite(base) {
		p.addLine(p.across(base, from, to), baseStyle.line(medium))
		p.addEntry(legendEntry{name: "base level of the arm", line: baseStyle.line(medium)})
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
