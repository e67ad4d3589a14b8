package plots

import (
	"fmt"
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// quantity is something of a run against the step.
type quantity func(*rundir.Run) analysis.Series

// perStep is a value of each line of metrics.jsonl, nil where the line has none.
func perStep(value func(rundir.Metrics) *float64) quantity {
	return func(r *rundir.Run) analysis.Series { return analysis.MetricSeries(r, value) }
}

var (
	trainReward = perStep(func(m rundir.Metrics) *float64 { return &m.AnswerReward })
	lengthRight = perStep(func(m rundir.Metrics) *float64 { return m.LengthRight })
	lengthWrong = perStep(func(m rundir.Metrics) *float64 { return m.LengthWrong })
	// lengthOfPairs is of the pairs of a file, which are not graded.
	lengthOfPairs = perStep(func(m rundir.Metrics) *float64 {
		if m.Preference == nil || m.LengthRight != nil || m.LengthWrong != nil {
			return nil
		}
		return &m.Length
	})
	entropy  = perStep(func(m rundir.Metrics) *float64 { return &m.Entropy })
	gradNorm = perStep(func(m rundir.Metrics) *float64 { return &m.GradNorm })
	clipped  = perStep(func(m rundir.Metrics) *float64 { return m.ClipFraction })
)

func validationOf(r *rundir.Run) analysis.Series {
	return analysis.EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
}

// curve is a quantity of several runs: each, their mean, and its interval.
type curve struct {
	seeds  []analysis.Series
	mean   analysis.Series
	lo, hi analysis.Series // empty where there is no interval
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

// newCurve takes a quantity of each run. The mean is over those of averaged, at the
// steps that all of these have; band asks for its interval.
func newCurve(runs, averaged []*rundir.Run, q quantity, band *valueRange) curve {
	c := curve{seeds: analysis.NonEmpty(analysis.ForEach(runs, q))}
	all := analysis.NonEmpty(analysis.ForEach(averaged, q))
	c.mean = analysis.MeanSeries(all)
	if band != nil {
		c.lo, c.hi = intervals(all, c.mean, *band)
	}
	return c
}

// leastSeeds is the smallest number of seeds whose interval is drawn: by Student's t, that of two is
// more than six times as wide as the distance of the two, and hides them.
const leastSeeds = 3

// intervals bound the mean over several series at each point of m as tables and
// verdicts do; there are none for fewer than [leastSeeds].
func intervals(all []analysis.Series, m analysis.Series, of valueRange) (lo, hi analysis.Series) {
	for _, p := range m {
		var values []float64
		for _, s := range all {
			if k := slices.IndexFunc(s, func(q analysis.Point) bool { return q.X == p.X }); k >= 0 {
				values = append(values, s[k].Y)
			}
		}
		f := analysis.NewSummary(values, of.resolution, of.least, of.most)
		if f.N >= leastSeeds && stats.IsFinite(f.Lo) && stats.IsFinite(f.Hi) {
			lo = append(lo, analysis.Point{X: p.X, Y: f.Lo})
			hi = append(hi, analysis.Point{X: p.X, Y: f.Hi})
		}
	}
	return lo, hi
}

// atSteps replaces the steps of s by the values that x has at them.
func atSteps(s, x analysis.Series) analysis.Series {
	var out analysis.Series
	for _, p := range s {
		if i := slices.IndexFunc(x, func(q analysis.Point) bool { return q.X == p.X }); i >= 0 {
			out = append(out, analysis.Point{X: x[i].Y, Y: p.Y})
		}
	}
	return out
}

// lastValue is the last value of the mean, for a legend: with its step where that
// is below xMax, and with the number of runs where not all of them have the
// quantity.
func (c curve) lastValue(xMax float64, runs int) string {
	if len(c.mean) == 0 {
		return ""
	}
	last := c.mean[len(c.mean)-1]
	out := analysis.Decimals(last.Y, 3)
	if last.X < xMax {
		out += fmt.Sprintf(" at step %.0f", last.X)
	}
	if len(c.seeds) < runs {
		out += ", " + runsOf(len(c.seeds), runs)
	}
	return " (" + out + ")"
}

// curveOptions is how much of a curve is drawn.
type curveOptions struct {
	width       float64 // of the mean's line
	seedOpacity float64 // of the line of each seed
	markers     int     // about this many markers on the mean
	offset      int     // arms that overlap have their markers at different points
}

const allMarkers = 1 << 20

// named is one of several quantities in a panel.
type named struct {
	name    string // empty: not in the legend
	y       quantity
	style   style
	options curveOptions
}

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

func divergedMarks(runs []*rundir.Run, x, y quantity) analysis.Series {
	var marks analysis.Series
	for _, r := range runs {
		step, ok := divergedAt(r)
		if !ok {
			continue
		}
		mark, found := y(r).UpTo(float64(step))
		if found && x != nil {
			var at analysis.Point
			at, found = x(r).UpTo(mark.X)
			mark.X = at.Y
		}
		if found {
			marks = append(marks, mark)
		}
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

// lastStep is the end of the x axis.
func lastStep(runs []*rundir.Run) float64 {
	x := 1
	for _, r := range runs {
		x = max(x, analysis.LastStep(r))
	}
	return float64(x)
}
