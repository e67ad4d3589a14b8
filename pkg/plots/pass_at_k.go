package plots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

const (
	atKTitle = "pass@k and maj@k before and after training"
	atKNote  = "pass@k: the chance that at least one of k completions of a problem is right. maj@k, dashed: the chance that " +
		"their most frequent answer is. A trained policy whose pass@k is below that of its base for large k is more reliable " +
		"on problems that the base could solve too."
	bandOfOne = "Bands: 95% intervals over the problems."
)

// Before and after training are black and blue; maj@k is dashed.
var (
	atKBefore = style{color: dark, marker: shape{}}
	atKAfter  = sampledStyle
)

// atK is pass@k or maj@k of an evaluation of a run, against the decimal logarithm of k.
func atK(kind string, when analysis.EvalPoint) quantity {
	return func(r *rundir.Run) (out analysis.Series) {
		e := analysis.Evaluation(r, rundir.SplitVal, when)
		for _, k := range analysis.KsOf(e) {
			if x := analysis.AtK(e, kind, k); x != nil {
				out = append(out, analysis.Point{X: math.Log10(float64(k)), Y: x.Mean})
			}
		}
		return out
	}
}

// hasAtK reports whether a run has several k to draw.
func hasAtK(r *rundir.Run) bool {
	return len(atK(analysis.PassAtPrefix, analysis.AtStart)(r)) > 1 || len(atK(analysis.PassAtPrefix, analysis.AtEnd)(r)) > 1
}

// atKPanel draws pass@k and maj@k of one run, or the means over several, before and after training. The band is over
// seeds, or over the problems of a single run.
func atKPanel(runs []*rundir.Run) *panel {
	p := newPanel("k (completions of a problem)", "share of the problems")
	p.setY(yAxis{hi: 1})
	var ks []int
	pass := map[analysis.EvalPoint]analysis.Series{}
	for _, when := range []analysis.EvalPoint{analysis.AtStart, analysis.AtEnd} {
		s := atKBefore
		if when == analysis.AtEnd {
			s = atKAfter
		}
		for _, r := range runs {
			ks = append(ks, analysis.KsOf(analysis.Evaluation(r, rundir.SplitVal, when))...)
		}
		for _, kind := range []string{analysis.PassAtPrefix, analysis.MajorityAtPrefix} {
			name, one := "pass@k, "+string(when), s
			if kind == analysis.MajorityAtPrefix {
				name, one.dashes = "maj@k, "+string(when), dashed
			}
			c := newCurve(runs, runs, atK(kind, when), shareOf(0))
			if len(c.mean) == 0 {
				continue
			}
			entry := legendEntry{name: name, line: one.line(thick), glyph: one.glyph(markerRadius)}
			if kind == analysis.PassAtPrefix {
				pass[when] = c.mean
				if len(runs) == 1 {
					c.lo, c.hi = overProblems(runs[0], when)
				}
				if p.addBand(c.lo, c.hi, one) {
					entry.band = alpha(one.color, bandOpacity)
				}
			}
			p.addLine(c.mean, entry.line)
			p.addMarkers(c.mean, entry.glyph)
			p.addEntry(entry)
		}
	}
	for _, at := range crossings(pass[analysis.AtStart], pass[analysis.AtEnd]) {
		mark := glyph(vermillion, crossRadius, shape{corners: 4, onTip: true})
		p.addMarkers(analysis.Series{at}, mark)
		p.addEntry(legendEntry{name: "equal pass@k", glyph: mark})
		p.value += " (equal pass@k at k = " + analysis.Significant(math.Pow(10, at.X), 2) + ")"
	}
	slices.Sort(ks)
	p.X.Tick.Marker = kTicks(slices.Compact(ks))
	p.X.Min, p.X.Max = 0, math.Log10(float64(max(2, slices.Max(ks))))
	p.Y.Min, p.Y.Max = 0, 1
	return p
}

// overProblems is the interval of pass@k over the problems of one run.
func overProblems(r *rundir.Run, when analysis.EvalPoint) (lo, hi analysis.Series) {
	for _, x := range analysis.Evaluation(r, rundir.SplitVal, when).PassAt {
		at := math.Log10(float64(x.K))
		lo, hi = append(lo, analysis.Point{X: at, Y: x.Lo}), append(hi, analysis.Point{X: at, Y: x.Hi})
	}
	return lo, hi
}

// kTicks labels up to ten of the k.
func kTicks(ks []int) (ticks plot.ConstantTicks) {
	every := 1 + (len(ks)-1)/10
	for i, k := range ks {
		t := plot.Tick{Value: math.Log10(float64(k))}
		if i%every == 0 {
			t.Label = fmt.Sprint(k)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// crossings are the points at which the curve b passes from one side of the curve a to the other, with straight lines
// between the points that both have.
func crossings(a, b analysis.Series) (out analysis.Series) {
	var last analysis.Point // the difference b - a, where it is not 0
	for _, p := range a {
		i := slices.IndexFunc(b, func(q analysis.Point) bool { return q.X == p.X })
		if i < 0 || b[i].Y == p.Y {
			continue
		}
		d := analysis.Point{X: p.X, Y: b[i].Y - p.Y}
		if last.Y*d.Y < 0 {
			x := last.X + (d.X-last.X)*last.Y/(last.Y-d.Y)
			out = append(out, analysis.Point{X: x, Y: interpolated(a, x)})
		}
		last = d
	}
	return out
}

// interpolated is the value of a curve between two of its points.
func interpolated(s analysis.Series, x float64) float64 {
	for i := 1; i < len(s); i++ {
		if a, b := s[i-1], s[i]; a.X <= x && x <= b.X {
			return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
		}
	}
	return math.NaN()
}

// passAtK has a panel for each arm.
func passAtK(v *view) *figure {
	fig := &figure{title: atKTitle, width: v.width(pageWidth), panelHeight: pageHeight, notes: []string{atKNote}}
	var panels []*panel
	var counts []int // of the runs of each panel
	for _, a := range v.arms {
		if runs := slices.DeleteFunc(slices.Clone(a.settled()), func(r *rundir.Run) bool { return !hasAtK(r) }); len(runs) > 0 {
			p := atKPanel(runs)
			p.title = a.Name()
			panels, counts = append(panels, p), append(counts, len(runs))
		}
	}
	if len(panels) == 0 {
		return nil
	}
	columns := min(len(panels), v.columns())
	if columns > 1 || v.phone {
		fig.panelHeight = 2.75
	}
	if columns > 1 {
		fig.width = v.width(wideWidth)
	}
	for _, p := range panels {
		fig.addPanel(columns, p)
	}
	if len(panels) > 1 {
		fig.xLabel, fig.yLabel = panels[0].X.Label.Text, panels[0].Y.Label.Text
		for _, p := range panels {
			p.X.Label.Text, p.Y.Label.Text = "", ""
			p.title = twoLines(panelText, p.title, p.value, fig.columnWidth())
		}
		fig.shareLegend()
	} else {
		panels[0].title += panels[0].value
	}
	fig.caption = []string{"One run an arm. " + bandOfOne}
	if slices.Max(counts) > 1 {
		fig.caption[0] = v.meanAndInterval(counts, false) + "."
		if slices.Min(counts) == 1 {
			fig.caption[0] = strings.TrimSuffix(fig.caption[0], ".") + "; of one run, the interval over the problems."
		}
	}
	fig.caption = append(fig.caption, "Each point: "+heldOut(atEnd(v.runs))+", "+analysis.SampledAt(v.runs)+".")
	return fig
}

// runsPassAtK is the figure of one run, or of several seeds of one arm.
func runsPassAtK(runs []*rundir.Run) (*figure, error) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *rundir.Run) bool { return !hasAtK(r) })
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return nil, err
	}
	fig := &figure{width: pageWidth, panelHeight: pageHeight, title: atKTitle, setting: analysis.SettingLine(infos),
		notes: []string{atKNote}}
	p := atKPanel(runs)
	p.title = strings.Trim(p.value, " ()")
	fig.addPanel(1, p)
	first := infos[0].OneRun() + " " + bandOfOne
	if len(runs) > 1 {
		first = meanWith(withInterval, []int{len(runs)}, false) + "."
	}
	fig.caption = []string{first, "Each point: " + heldOut(atEnd(runs)) + ", " + analysis.SampledAt(runs) + "."}
	return fig, nil
}
