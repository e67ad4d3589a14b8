package plots

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// finalName is the file of the figure against a key with this short name.
func finalName(short string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, short)
	return "final_vs_" + safe + ".png"
}

// axisName is an axis in words.
func axisName(a sweepdir.Axis) string { return cmp.Or(a.Label, a.Key) }

// finalVsAxis draws the last validation against axis x, with a line for each of
// [view.linesOver].
func (v *view) finalVsAxis(x, lines int) *figure {
	return v.finalAgainst(v.manifest().Axes[x], v.linesOver(x, lines), func(arm int) string {
		return v.Arms[arm].Arm.Point[x]
	})
}

// finalAgainst draws the last validation of the arms of lines against their values on an axis. The arms knees have a
// ring: the first of their lines that are clearly worse than the first arm.
func (v *view) finalAgainst(axis sweepdir.Axis, groups []finalLine, value func(arm int) string, knees ...int) *figure {
	pos := newPosition(axis)
	p := newPanel(axisName(axis)+pos.kind, rewardLabel(atEnd(v.runs)))
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = pos.lo, pos.hi, 0, 1
	p.X.Tick.Marker = plot.ConstantTicks(pos.stagger(vg.Length(v.width(pageWidth)) * vg.Inch * 0.86))
	p.Y.Tick.Marker = niceTicks{want: 5}

	// Lines next to each other, so that intervals don't hide each other.
	slot := pos.gap * min(0.3, 0.8/float64(len(groups)))
	spread := slot
	if groups[0].name == "" {
		spread = 0.4 * pos.gap
	}
	var all []estimate
	var ringed analysis.Series
	for k, group := range groups {
		s := armStyles[k%overlayMax]
		offset := slot * (float64(k) - float64(len(groups)-1)/2)
		var estimates []estimate
		for _, i := range group.arms {
			if a := &v.Arms[i]; a.Of(analysis.FinalMetric).N > 0 {
				e := v.finalEstimate(a, pos.at[value(i)]+offset, s)
				estimates = append(estimates, e)
				if slices.Contains(knees, i) {
					ringed = append(ringed, analysis.Point{X: e.place, Y: e.mean})
				}
			}
		}
		if len(estimates) == 0 {
			continue
		}
		entry := legendEntry{name: "mean", glyph: s.glyph(meanRadius)}
		if group.name != "" {
			entry.name = v.legendName(shorten(legendText, group.name, labelWidth), "")
		}
		if numeric(axis.Values) {
			entry.line = s.line(thick)
			for _, line := range unbroken(estimates) {
				p.addLine(line, entry.line)
			}
		}
		p.addEntry(entry)
		all = append(all, estimates...)
	}
	if len(all) == 0 {
		return nil
	}
	p.addLevels(v.levels()...)
	p.addEstimates(all, spread)
	if ring := glyph(black, meanRadius+3, shape{}); len(ringed) > 0 {
		p.addMarkers(ringed, ring)
		p.addEntry(legendEntry{name: "first clearly worse than " + v.Arms[groups[0].arms[0]].Name(), glyph: ring})
	}
	fig := &figure{
		title: "Final validation answer reward against " + axisName(axis),
		width: v.width(pageWidth), panelHeight: pageHeight, rows: [][]*panel{{p}}, caption: v.finalCaption(false),
	}
	if slices.ContainsFunc(all, func(e estimate) bool { return e.diverged }) {
		fig.notes = []string{"No line leads to an arm of which a run diverged."}
	}
	return fig
}

// finalLine is a line of the figure against a key; only one of several has a
// name.
type finalLine struct {
	name string
	arms []int
}

// linesOver are the lines over axis x: one for each value of another axis
// (lines >= 0), or else for the arms that differ in more than this axis.
func (v *view) linesOver(x, lines int) []finalLine {
	m := v.manifest()
	var out []finalLine
	if lines < 0 {
		for _, points := range analysis.PointsOver(m, m.Axes[x].Key) {
			out = append(out, finalLine{analysis.LabelWithout(m, points[0], m.Axes[x].Key), points})
		}
		if len(out) == 1 {
			out[0].name = ""
		}
		return out
	}
	for _, value := range m.Axes[lines].Values {
		line := finalLine{name: axisName(m.Axes[lines]) + " " + m.Axes[lines].Shown(value)}
		for i, a := range m.Arms {
			if a.Point[lines] == value {
				line.arms = append(line.arms, i)
			}
		}
		out = append(out, line)
	}
	return out
}

// unbroken are the lines through the means of arms. No line leads to an arm of which
// a run diverged or across it, because the reward does not fall evenly from one value
// to the next where training breaks down.
func unbroken(all []estimate) []analysis.Series {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b estimate) int { return cmp.Compare(a.place, b.place) })
	lines := []analysis.Series{nil}
	for _, e := range all {
		if e.diverged {
			lines = append(lines, nil)
			continue
		}
		last := &lines[len(lines)-1]
		*last = append(*last, analysis.Point{X: e.place, Y: e.mean})
	}
	return slices.DeleteFunc(lines, func(s analysis.Series) bool { return len(s) < 2 })
}

func numeric(values []string) bool {
	for _, s := range values {
		if v, err := strconv.ParseFloat(s, 64); err != nil || !stats.IsFinite(v) {
			return false
		}
	}
	return len(values) > 0
}

// position maps the values of an axis to the x axis of a plot: logarithms,
// numbers, or their order. Its ticks are exactly the values.
type position struct {
	at     map[string]float64
	ticks  []plot.Tick
	lo, hi float64
	gap    float64 // between the two nearest
	kind   string  // for the axis label: " (log scale)" or nothing
}

// crowded is the least distance of two values, relative to evenly spaced ones, with
// which bars and seeds still have room.
const crowded = 0.5

// newPosition places values by their logarithms where the axis asks for it or where
// their own distances would crowd them (2, 4, 8, 16), and evenly in their order
// where logarithms crowd them too.
func newPosition(axis sweepdir.Axis) position {
	values := axis.Values
	p := position{at: map[string]float64{}, gap: 1}
	xs := make([]float64, len(values)) // in their order
	for i := range xs {
		xs[i] = float64(i)
	}
	if numeric(values) {
		numbers, logs := make([]float64, len(values)), make([]float64, len(values))
		for i, s := range values {
			numbers[i], _ = strconv.ParseFloat(s, 64)
			logs[i] = math.Log10(numbers[i])
		}
		positive := slices.Min(numbers) > 0
		switch {
		case positive && (axis.Log || evenness(numbers) < crowded && evenness(logs) >= crowded):
			xs, p.kind = logs, " (log scale)"
		case evenness(numbers) >= crowded:
			xs = numbers
		default:
			p.kind = " (evenly spaced)"
			sorted := distinct(numbers)
			for i, x := range numbers {
				xs[i] = float64(slices.Index(sorted, x))
			}
		}
	}
	for i, s := range values {
		p.at[s] = xs[i]
		p.ticks = append(p.ticks, plot.Tick{Value: xs[i], Label: axis.Shown(s)})
	}
	slices.SortFunc(p.ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	lo, hi, pad := slices.Min(xs), slices.Max(xs), 1.0
	if hi > lo {
		p.gap = leastGap(distinct(xs))
		pad = max(0.06*(hi-lo), 0.5*p.gap)
	}
	p.lo, p.hi = lo-pad, hi+pad
	return p
}

// distinct are the different values of xs, sorted.
func distinct(xs []float64) []float64 { return slices.Compact(slices.Sorted(slices.Values(xs))) }

// leastGap is the least distance of two of at least two sorted values.
func leastGap(xs []float64) float64 {
	gap := xs[1] - xs[0]
	for i := 2; i < len(xs); i++ {
		gap = min(gap, xs[i]-xs[i-1])
	}
	return gap
}

// evenness is the least distance of two values over their mean distance: 1 where
// all are equally far apart or there are none.
func evenness(xs []float64) float64 {
	xs = distinct(xs)
	if len(xs) < 2 {
		return 1
	}
	return leastGap(xs) * float64(len(xs)-1) / (xs[len(xs)-1] - xs[0])
}

// stagger puts every second label a line lower where neighbors would touch on
// an axis of the given width.
func (p position) stagger(width vg.Length) []plot.Tick {
	out := slices.Clone(p.ticks)
	for i := 1; i < len(out); i++ {
		distance := vg.Length((out[i].Value-out[i-1].Value)/(p.hi-p.lo)) * width
		need := (tickText.Width(p.ticks[i].Label)+tickText.Width(p.ticks[i-1].Label))/2 + vg.Points(6)
		if distance < need && !strings.HasPrefix(out[i-1].Label, "\n") {
			out[i].Label = "\n" + out[i].Label
		}
	}
	return out
}
