package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/stats"
)

// finalFigures are the figures of the last validation: against the swept keys
// where there are one or two, else arm by arm.
func (v *sweepView) finalFigures() []sweepFigure {
	axes := v.manifest().Axes
	switch {
	case len(axes) == 1 && v.onAxes() && numeric(axes[0].Values) && len(v.LinesOver(0, -1)) <= overlayMax:
		return []sweepFigure{{finalName(axes[0].Short), true, func(v *sweepView) (figure, bool) { return v.FinalAgainst(0, -1) }}}
	case len(axes) == 2 && v.onAxes():
		// The axis with numbers lies along x; with two of them, the first.
		x, lines := 0, 1
		if !numeric(axes[0].Values) && numeric(axes[1].Values) {
			x, lines = 1, 0
		}
		if len(axes[lines].Values) > overlayMax {
			return []sweepFigure{{finalName(axes[x].Short), true, func(v *sweepView) (figure, bool) { return v.finalMap(x, lines) }}}
		}
		return []sweepFigure{{finalName(axes[x].Short), true, func(v *sweepView) (figure, bool) { return v.FinalAgainst(x, lines) }}}
	}
	return []sweepFigure{{"final_by_arm.png", true, (*sweepView).finalByArm}}
}

// onAxes says whether every arm has its place on the axes.
func (v *sweepView) onAxes() bool {
	axes := v.manifest().Axes
	for _, a := range v.Arms {
		if len(a.Arm.Point) != len(axes) {
			return false
		}
		for i, value := range a.Arm.Point {
			if !slices.Contains(axes[i].Values, value) {
				return false
			}
		}
	}
	return len(v.Arms) > 0
}

// finalName is the file of the figure against a key, whose short name becomes
// part of it.
func finalName(short string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, short)
	return "final_vs_" + safe + ".png"
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
	at    map[string]float64
	ticks []plot.Tick
	lo    float64
	hi    float64
	gap   float64 // between the two nearest
	kind  string  // for the axis label: " (log scale)" or nothing
	order bool    // not numbers
}

// crowded is the least distance of two values, as a part of what it would be if
// all were equally far apart, with which bars and seeds still have room.
const crowded = 0.5

// newPosition places values by their logarithms where log asks for it or where
// their own distances would crowd them (2, 4, 8, 16), and evenly in their order
// where logarithms crowd them too.
func newPosition(values []string, log bool) position {
	p := position{at: map[string]float64{}, order: !numeric(values)}
	numbers, logs := make([]float64, len(values)), make([]float64, len(values))
	ranks := make([]float64, len(values))
	for i, s := range values {
		ranks[i] = float64(i)
		if !p.order {
			numbers[i], _ = strconv.ParseFloat(s, 64)
			logs[i] = math.Log10(numbers[i])
		}
	}
	xs := ranks
	switch positive := !slices.ContainsFunc(logs, func(x float64) bool { return !stats.IsFinite(x) }); {
	case p.order:
	case log || positive && evenness(numbers) < crowded && evenness(logs) >= crowded:
		xs, p.kind = logs, " (log scale)"
	case evenness(numbers) >= crowded:
		xs = numbers
	default:
		p.kind = " (evenly spaced)"
		sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
		for i, x := range numbers {
			ranks[i] = float64(slices.Index(sorted, x))
		}
	}
	for i, s := range values {
		p.at[s] = xs[i]
		p.ticks = append(p.ticks, plot.Tick{Value: xs[i], Label: s})
	}
	slices.SortFunc(p.ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	xs = slices.Sorted(slices.Values(xs))
	p.gap = leastGap(xs)
	if p.gap == 0 {
		p.gap = 1
	}
	span := xs[len(xs)-1] - xs[0]
	pad := max(0.06*span, 0.5*p.gap)
	if span == 0 {
		pad = 1
	}
	p.lo, p.hi = xs[0]-pad, xs[len(xs)-1]+pad
	return p
}

// leastGap is the least distance of two different values of sorted xs, 0 where
// there are none.
func leastGap(xs []float64) float64 {
	gap := 0.0
	for i := 1; i < len(xs); i++ {
		if d := xs[i] - xs[i-1]; d > 0 && (gap == 0 || d < gap) {
			gap = d
		}
	}
	return gap
}

// evenness is the least distance of two values over their mean distance: 1 where
// all are equally far apart or there are none.
func evenness(x []float64) float64 {
	x = slices.Compact(slices.Sorted(slices.Values(x)))
	if len(x) < 2 {
		return 1
	}
	return leastGap(x) * float64(len(x)-1) / (x[len(x)-1] - x[0])
}

// stagger puts every second label a line lower where neighbours would touch on
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

// finalLine is a line of the figure against a key; only one of several has a
// name.
type finalLine struct {
	name string
	arms []int
}

// LinesOver are the lines over axis x: one for each value of another axis
// (lines >= 0), or else for the arms that differ in more than this axis.
func (v *sweepView) LinesOver(x, lines int) []finalLine {
	m := v.manifest()
	var out []finalLine
	if lines < 0 {
		for _, points := range analysis.PointsOver(&m, m.Axes[x].Key) {
			out = append(out, finalLine{analysis.LabelWithout(&m, points[0], m.Axes[x].Key), points})
		}
		if len(out) == 1 {
			out[0].name = ""
		}
		return out
	}
	for _, value := range m.Axes[lines].Values {
		line := finalLine{name: axisName(m.Axes[lines].Label, m.Axes[lines].Key) + " " + value}
		for i, a := range m.Arms {
			if a.Point[lines] == value {
				line.arms = append(line.arms, i)
			}
		}
		out = append(out, line)
	}
	return out
}

// FinalAgainst draws the last validation against one swept key, with a line
// for each of [sweepView.linesOver].
func (v *sweepView) FinalAgainst(x, lines int) (figure, bool) {
	axes := v.manifest().Axes
	pos := newPosition(axes[x].Values, axes[x].Log)
	name := axisName(axes[x].Label, axes[x].Key)
	p := newPlot(name+pos.kind, v.rewardLabel())
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = pos.lo, pos.hi, 0, 1
	p.X.Tick.Marker = plot.ConstantTicks(pos.stagger(vg.Length(PageWidth) * vg.Inch * 0.86))
	p.Y.Tick.Marker = niceTicks{want: 5}
	pan := &panel{plot: p}
	fig := figure{
		title: "Final validation answer reward against " + name, width: PageWidth, panelHeight: pageHeight,
		Rows: [][]*panel{{pan}}, Caption: v.finalNote(),
	}
	levels := v.levelsAcross(p)

	groups := v.LinesOver(x, lines)
	drawn, marks := false, false
	for k, group := range groups {
		l := armLooks[k%overlayMax]
		// Lines beside each other, so that intervals don't hide each other.
		slot := pos.gap * min(0.3, 0.8/float64(len(groups)))
		dodge := slot * (float64(k) - float64(len(groups)-1)/2)
		spread := slot
		if group.name == "" {
			spread = 0.4 * pos.gap
		}
		var dots []dot
		for _, i := range group.arms {
			if a := &v.Arms[i]; a.Of(analysis.FinalMetric).N > 0 {
				dots = append(dots, dot{row: a, at: pos.at[a.Arm.Point[x]] + dodge})
			}
		}
		if len(dots) == 0 {
			continue
		}
		slices.SortStableFunc(dots, func(a, b dot) int { return int(math.Copysign(1, a.at-b.at)) })
		entry := legendEntry{Name: "mean", line: l.line(thick), glyph: l.glyph(markerRadius + 1)}
		if pos.order {
			entry.line.Width = 0
		}
		if group.name != "" {
			entry.Name = shorten(legendText, group.name, vg.Points(labelWidth))
		}
		if v.basesDiffer() {
			for _, d := range dots {
				addOwnBase(p, d, spread)
			}
		}
		marks = drawDots(p, dots, l, spread, !pos.order) || marks
		pan.Legend = append(pan.Legend, entry)
		drawn = true
	}
	if !drawn {
		return figure{}, false
	}
	if v.severalSeeds() {
		pan.Legend = append(pan.Legend, legendEntry{Name: "a seed", glyph: seedGlyph(pan.Legend[0].glyph.Color)})
	}
	if marks {
		pan.Legend = append(pan.Legend, legendEntry{Name: "diverged", glyph: divergedGlyph(dark)})
		fig.Notes = append(fig.Notes, "No line leads to an arm of which a run diverged.")
	}
	pan.Legend = append(pan.Legend, levels...)
	if v.basesDiffer() {
		pan.Legend = append(pan.Legend, ownBaseEntry())
	}
	return v.close(fig), true
}

// axisName is an axis in words.
func axisName(label, key string) string {
	if label != "" {
		return label
	}
	return key
}

// finalNote says what a point and an interval are.
func (v *sweepView) finalNote() []string {
	if !v.severalSeeds() {
		return []string{"One seed an arm: no interval.", v.finalPoint()}
	}
	return []string{
		fmt.Sprintf("Mean over n = %d seeds with its 95%% interval (Student's t); small circles: each seed.", len(v.manifest().Seeds)),
		v.finalPoint(),
	}
}

// finalPoint says what a point is.
func (v *sweepView) finalPoint() string {
	return "Each point: share of " + v.heldOut() + " answered right after the last step, " + analysis.SampledAt(v.runs) + "."
}

// levelsAcross draws the base level and the majority baseline over the whole
// width of p.
func (v *sweepView) levelsAcross(p *plot.Plot) []legendEntry {
	var legend []legendEntry
	for _, l := range v.levels() {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: l.at}, {X: p.X.Max, Y: l.at}}, LineStyle: l.style})
		legend = append(legend, l.entry())
	}
	return legend
}

// ownBaseEntry is the legend of base levels that are drawn arm by arm.
func ownBaseEntry() legendEntry {
	return legendEntry{Name: "base level of the arm", line: lookBase.line(medium)}
}

// addOwnBase draws the base level of an arm below or above its mean.
func addOwnBase(p *plot.Plot, d dot, spread float64) {
	if y := d.row.Of(analysis.InitialMetric).Mean; stats.IsFinite(y) {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: d.at - spread/2, Y: y}, {X: d.at + spread, Y: y}}, LineStyle: lookBase.line(medium)})
	}
}

// dot is an arm at its place on the axis.
type dot struct {
	row *analysis.ArmResult
	at  float64
}

// drawDots draws means, joined by a line where joined asks for it, intervals and,
// on their right within spread, the seeds of arms, and says whether one of them
// diverged.
func drawDots(p *plot.Plot, dots []dot, l look, spread float64, joined bool) bool {
	var means, seeds, marks analysis.Series
	bars := &plotter.YErrorBars{LineStyle: draw.LineStyle{Color: l.color, Width: vg.Points(medium)}, CapWidth: vg.Points(capWidth)}
	lines, crosses := dotLines(dots)
	for _, line := range lines {
		if joined {
			p.Add(&plotter.Line{XYs: xys(line), LineStyle: l.line(thick)})
		}
	}
	for _, d := range dots {
		f := d.row.Of(analysis.FinalMetric)
		mean := analysis.Point{X: d.at, Y: f.Mean}
		if d.row.Diverged == 0 {
			means = append(means, mean)
		}
		if stats.IsFinite(f.Lo) && stats.IsFinite(f.Hi) {
			bars.XYs = append(bars.XYs, plotter.XY(mean))
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{f.Mean - f.Lo, f.Hi - f.Mean})
		}
		for i, y := range f.Values {
			if !stats.IsFinite(y) || len(f.Values) == 1 {
				continue
			}
			at := analysis.Point{X: d.at + spread*(0.45+2.6*jitter(i, len(f.Values))), Y: y}
			if i < len(d.row.DivergedAt) && d.row.DivergedAt[i] != nil {
				marks = append(marks, at)
			} else {
				seeds = append(seeds, at)
			}
		}
	}
	if len(bars.XYs) > 0 {
		p.Add(bars)
	}
	addMarkers(p, means, l.glyph(markerRadius+1))
	addMarkers(p, seeds, seedGlyph(l.color))
	diverged := addMarkers(p, marks, divergedSeedGlyph(l.color))
	return addMarkers(p, crosses, divergedGlyph(l.color)) || diverged
}

// dotLines are the lines through the means of arms, and the means of those of
// which a run diverged: no line leads to one or across it, because the reward does
// not fall evenly from one rate to the next where training breaks down.
func dotLines(dots []dot) (lines []analysis.Series, crosses analysis.Series) {
	var line analysis.Series
	end := func() {
		if len(line) > 1 {
			lines = append(lines, line)
		}
		line = nil
	}
	for _, d := range dots {
		mean := analysis.Point{X: d.at, Y: d.row.Of(analysis.FinalMetric).Mean}
		if d.row.Diverged > 0 {
			crosses = append(crosses, mean)
			end()
		} else {
			line = append(line, mean)
		}
	}
	end()
	return lines, crosses
}

// jitter spreads n seeds evenly over a small part of the distance between two
// values, always the same seed at the same place.
func jitter(i, n int) float64 {
	if n < 2 {
		return 0
	}
	return 0.16 * (float64(i)/float64(n-1) - 0.5)
}
