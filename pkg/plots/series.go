package plots

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
)

// xys is a series as gonum's plotters take it.
func xys(s analysis.Series) plotter.XYs {
	out := make(plotter.XYs, len(s))
	for i, p := range s {
		out[i] = plotter.XY(p)
	}
	return out
}

// addCurves draws one run's series as a curve, or several thin with their mean
// thick. It returns the legend's sample of it, ok false when there is nothing
// to draw.
func addCurves(p *plot.Plot, all []analysis.Series, l look, width float64) (entry legendEntry, ok bool) {
	all = analysis.NonEmpty(all)
	if len(all) == 0 {
		return entry, false
	}
	main := all[0]
	if len(all) > 1 {
		for _, s := range all {
			p.Add(&plotter.Line{XYs: xys(s), LineStyle: l.faint()})
		}
		main = analysis.MeanSeries(all)
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
