package report

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// series is one figure of a run against the step. Values that are not finite
// are not in it.
type series []point

// point is a step and the value there.
type point struct{ X, Y float64 }

// xys is a series as gonum's plotters take it.
func xys(s series) plotter.XYs {
	out := make(plotter.XYs, len(s))
	for i, p := range s {
		out[i] = plotter.XY(p)
	}
	return out
}

func (s *series) add(step int, value float64) {
	if stats.IsFinite(value) {
		*s = append(*s, point{X: float64(step), Y: value})
	}
}

// metricSeries takes a figure from each line of metrics.jsonl; nil where a
// line has none.
func metricSeries(r *rundir.Run, figure func(rundir.Metrics) *float64) series {
	var s series
	for _, m := range r.Metrics {
		if v := figure(m); v != nil {
			s.add(m.Step, *v)
		}
	}
	return s
}

// evalSeries takes the answer reward from each evaluation of a split.
func evalSeries(r *rundir.Run, split, decoding string) series {
	var s series
	for _, e := range evalsOf(r, split) {
		if c := decoded(e, decoding); c != nil {
			s.add(e.Step, c.AnswerReward)
		}
	}
	return s
}

// forEach is one series a run.
func forEach(runs []*rundir.Run, f func(*rundir.Run) series) []series {
	out := make([]series, len(runs))
	for i, r := range runs {
		out[i] = f(r)
	}
	return out
}

// mean averages several series at the steps that all of them have. Beyond the
// end of the shortest there is no mean: it would jump when a run drops out.
func mean(all []series) series {
	values := make(map[float64][]float64)
	for _, s := range all {
		for _, p := range s {
			values[p.X] = append(values[p.X], p.Y)
		}
	}
	var out series
	if len(all) == 0 {
		return out
	}
	for _, p := range all[0] {
		if ys := values[p.X]; len(ys) == len(all) {
			m, _, _ := stats.MeanSD(ys)
			out = append(out, point{X: p.X, Y: m})
		}
	}
	return out
}

// nonEmpty leaves out series without a point.
func nonEmpty(all []series) []series {
	return slices.DeleteFunc(slices.Clone(all), func(s series) bool { return len(s) == 0 })
}

// addCurves draws one run's series as a curve, or several thin with their mean
// thick. It returns the legend's sample of it, ok false when there is nothing
// to draw.
func addCurves(p *plot.Plot, all []series, l look, width float64) (entry legendEntry, ok bool) {
	all = nonEmpty(all)
	if len(all) == 0 {
		return entry, false
	}
	main := all[0]
	if len(all) > 1 {
		for _, s := range all {
			p.Add(&plotter.Line{XYs: xys(s), LineStyle: l.faint()})
		}
		main = mean(all)
	}
	entry.line = l.line(width)
	if len(main) > 0 {
		p.Add(&plotter.Line{XYs: xys(main), LineStyle: entry.line})
	}
	if l.marker != nil {
		entry.glyph = l.glyph(markerRadius)
		if len(main) > 0 {
			p.Add(&plotter.Scatter{XYs: xys(main), GlyphStyle: entry.glyph})
		}
	}
	return entry, true
}

// addLevel draws a horizontal line across the whole plot.
func addLevel(p *plot.Plot, y, xMax float64, style draw.LineStyle) {
	p.Add(&plotter.Line{XYs: plotter.XYs{{X: 0, Y: y}, {X: xMax, Y: y}}, LineStyle: style})
}
