package plots

import (
	"slices"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// armView is an arm of a sweep as figures draw it.
type armView struct {
	*analysis.ArmResult
	label string
	look  look
	runs  []*rundir.Run // those with a folder, in the order of the seeds
}

// settled are the runs that a mean is taken of: those that have ended, or all
// while none has. A run at its first steps would cut the mean of the others
// down to those.
func (a armView) settled() []*rundir.Run {
	var ended []*rundir.Run
	for _, r := range a.runs {
		if r.Finished() {
			ended = append(ended, r)
		}
	}
	if len(ended) == 0 {
		return a.runs
	}
	return ended
}

// curve is a quantity of an arm against the step or the seconds.
type curve struct {
	seeds []analysis.Series
	mean  analysis.Series
	lo    analysis.Series // of the interval of the mean; empty where there is none
	hi    analysis.Series
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

// curveOf takes a quantity of each run. The mean, and its interval where band
// asks for it, are at the steps that all settled runs have.
func (a armView) curveOf(quantity func(*rundir.Run) analysis.Series, band *valueRange) curve {
	c := curve{seeds: analysis.NonEmpty(analysis.ForEach(a.runs, quantity))}
	settled := analysis.NonEmpty(analysis.ForEach(a.settled(), quantity))
	c.mean = analysis.MeanSeries(settled)
	if band != nil {
		c.lo, c.hi = intervals(settled, c.mean, *band)
	}
	return c
}

// against replaces the steps of a curve's mean by other figures of the same
// steps, and the steps of each seed by its own.
func (a armView) against(x, y func(*rundir.Run) analysis.Series, band *valueRange) curve {
	swap := func(s, at analysis.Series) analysis.Series {
		var out analysis.Series
		for _, p := range s {
			i := slices.IndexFunc(at, func(q analysis.Point) bool { return q.X == p.X })
			if i >= 0 {
				out = append(out, analysis.Point{X: at[i].Y, Y: p.Y})
			}
		}
		return out
	}
	byStep := a.curveOf(y, band)
	at := analysis.MeanSeries(analysis.NonEmpty(analysis.ForEach(a.settled(), x)))
	c := curve{mean: swap(byStep.mean, at), lo: swap(byStep.lo, at), hi: swap(byStep.hi, at)}
	for _, r := range a.runs {
		if s := swap(y(r), x(r)); len(s) > 0 {
			c.seeds = append(c.seeds, s)
		}
	}
	return c
}

// intervals bound the mean over several series at each point of m as tables and
// verdicts do; there are none for a single series.
func intervals(all []analysis.Series, m analysis.Series, of valueRange) (lo, hi analysis.Series) {
	values := make([][]float64, len(m))
	for i, p := range m {
		for _, s := range all {
			if k := slices.IndexFunc(s, func(q analysis.Point) bool { return q.X == p.X }); k >= 0 {
				values[i] = append(values[i], s[k].Y)
			}
		}
	}
	for i, p := range m {
		f := analysis.NewSummary(values[i], of.resolution, of.least, of.most)
		if stats.IsFinite(f.Lo) && stats.IsFinite(f.Hi) {
			lo = append(lo, analysis.Point{X: p.X, Y: f.Lo})
			hi = append(hi, analysis.Point{X: p.X, Y: f.Hi})
		}
	}
	return lo, hi
}

// addBand shades what lies between lo and hi, if they have several points.
func addBand(p *plot.Plot, lo, hi analysis.Series, l look) bool {
	if len(lo) < 2 {
		return false
	}
	outline := slices.Clone(hi)
	for _, q := range slices.Backward(lo) {
		outline = append(outline, q)
	}
	p.Add(&plotter.Polygon{XYs: []plotter.XYs{xys(outline)}, Color: alpha(l.color, bandOpacity)})
	return true
}

// addTo draws the curve into p: the band, each seed thin, the mean thick with
// a marker at some of its points, and returns the legend's sample of it.
// offset shifts the markers of arms that lie on each other apart.
func (c curve) addTo(p *plot.Plot, l look, style curveStyle) legendEntry {
	entry := legendEntry{line: l.line(style.width)}
	if style.markers > 0 {
		entry.glyph = l.glyph(markerRadius)
	}
	if addBand(p, c.lo, c.hi, l) {
		entry.shaded = l
	}
	if style.seedOpacity > 0 && (len(c.seeds) > 1 || len(c.mean) == 0) {
		for _, s := range c.seeds {
			p.Add(&plotter.Line{XYs: xys(s), LineStyle: draw.LineStyle{
				Color: alpha(l.color, style.seedOpacity), Width: vg.Points(thin)}})
		}
	}
	if len(c.mean) == 0 {
		return entry
	}
	p.Add(&plotter.Line{XYs: xys(c.mean), LineStyle: entry.line})
	if l.marker != nil && style.markers > 0 {
		addMarkers(p, some(c.mean, style.markers, style.offset), entry.glyph)
	}
	return entry
}

// curveStyle is how much of a curve is drawn.
type curveStyle struct {
	width       float64 // of the mean's line
	seedOpacity float64 // 0: no line for each seed
	markers     int     // about so many markers on the mean
	offset      int     // of the first marker, in points of the curve
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

// last is the last point of the mean.
func (c curve) last() (analysis.Point, bool) {
	if len(c.mean) == 0 {
		return analysis.Point{}, false
	}
	return c.mean[len(c.mean)-1], true
}

// divergedMarks are the points at which runs of an arm diverged: on the run's
// own series y, at the step of the divergence, or at its last point before. x
// gives another axis than the step where it is not nil.
func (a armView) divergedMarks(x, y func(*rundir.Run) analysis.Series) analysis.Series {
	var marks analysis.Series
	for _, r := range a.runs {
		step, ok := divergedAt(r)
		if !ok {
			continue
		}
		at, found := y(r).UpTo(float64(step))
		if !found {
			continue
		}
		mark := analysis.Point{X: float64(step), Y: at.Y}
		if x != nil {
			if at, found = x(r).UpTo(float64(step)); !found {
				continue
			}
			mark.X = at.Y
		}
		marks = append(marks, mark)
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
