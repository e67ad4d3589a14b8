package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// finalFigures are the figures of the last validation: against the swept keys
// where there are one or two, else arm by arm.
func (v *sweepView) finalFigures() []sweepFigure {
	axes := v.manifest().Axes
	switch {
	case len(axes) == 1 && v.onAxes() && numeric(axes[0].Values) && len(v.linesOver(0, -1)) <= overlayMax:
		return []sweepFigure{{finalName(axes[0].Short), true, func(v *sweepView) (figure, bool) { return v.finalAgainst(0, -1) }}}
	case len(axes) == 2 && v.onAxes():
		// The axis with numbers lies along x; with two of them, the first.
		x, lines := 0, 1
		if !numeric(axes[0].Values) && numeric(axes[1].Values) {
			x, lines = 1, 0
		}
		if len(axes[lines].Values) > overlayMax {
			return []sweepFigure{{finalName(axes[x].Short), true, func(v *sweepView) (figure, bool) { return v.finalMap(x, lines) }}}
		}
		return []sweepFigure{{finalName(axes[x].Short), true, func(v *sweepView) (figure, bool) { return v.finalAgainst(x, lines) }}}
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
		if v, err := strconv.ParseFloat(s, 64); err != nil || !isFinite(v) {
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

func newPosition(values []string, log bool) position {
	p := position{at: map[string]float64{}, order: !numeric(values)}
	for i, s := range values {
		x := float64(i)
		if !p.order {
			x, _ = strconv.ParseFloat(s, 64)
		}
		if log && !p.order {
			x, p.kind = math.Log10(x), " (log scale)"
		}
		p.at[s] = x
		p.ticks = append(p.ticks, plot.Tick{Value: x, Label: s})
	}
	xs := make([]float64, len(p.ticks))
	for i, t := range p.ticks {
		xs[i] = t.Value
	}
	slices.Sort(xs)
	slices.SortFunc(p.ticks, func(a, b plot.Tick) int { return int(math.Copysign(1, a.Value-b.Value)) })
	p.gap = math.Inf(1)
	for i := 1; i < len(xs); i++ {
		if d := xs[i] - xs[i-1]; d > 0 {
			p.gap = min(p.gap, d)
		}
	}
	if !isFinite(p.gap) {
		p.gap = 1
	}
	span := xs[len(xs)-1] - xs[0]
	pad := max(0.06*span, 0.35*p.gap)
	if span == 0 {
		pad = 1
	}
	p.lo, p.hi = xs[0]-pad, xs[len(xs)-1]+pad
	return p
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

// linesOver are the lines over axis x: one for each value of another axis
// (lines >= 0), or else for the arms that differ in more than this axis.
func (v *sweepView) linesOver(x, lines int) []finalLine {
	m := v.manifest()
	var out []finalLine
	if lines < 0 {
		for _, points := range pointsOver(&m, m.Axes[x].Key) {
			out = append(out, finalLine{labelBeside(&m, points[0], m.Axes[x].Key), points})
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

// finalAgainst draws the last validation against one swept key, with a line
// for each of [sweepView.linesOver].
func (v *sweepView) finalAgainst(x, lines int) (figure, bool) {
	axes := v.manifest().Axes
	pos := newPosition(axes[x].Values, axes[x].Log)
	name := axisName(axes[x].Label, axes[x].Key)
	p := newPlot(name+pos.kind, v.rewardLabel())
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = pos.lo, pos.hi, 0, 1
	p.X.Tick.Marker = plot.ConstantTicks(pos.stagger(vg.Length(pageWidth) * vg.Inch * 0.86))
	p.Y.Tick.Marker = niceTicks{want: 5}
	pan := &panel{plot: p}
	fig := figure{
		title: "Final validation answer reward against " + name, width: pageWidth, panelHeight: pageHeight,
		rows: [][]*panel{{pan}}, caption: []string{v.seedList()},
	}
	levels := v.levelsAcross(p)

	groups := v.linesOver(x, lines)
	drawn, marks := false, false
	for k, group := range groups {
		l := armLooks[k%overlayMax]
		// Lines beside each other, so that intervals don't hide each other.
		slot := pos.gap * min(0.2, 0.66/float64(len(groups)))
		dodge := slot * (float64(k) - float64(len(groups)-1)/2)
		spread := slot
		if group.name == "" {
			spread = 0.4 * pos.gap
		}
		var dots []dot
		for _, i := range group.arms {
			if a := &v.Arms[i]; a.Final.N > 0 {
				dots = append(dots, dot{row: a, at: pos.at[a.Arm.Point[x]] + dodge})
			}
		}
		if len(dots) == 0 {
			continue
		}
		slices.SortStableFunc(dots, func(a, b dot) int { return int(math.Copysign(1, a.at-b.at)) })
		entry := legendEntry{name: "mean, with the interval", line: l.line(thick), glyph: l.glyph(markerRadius + 1)}
		if group.name != "" {
			entry.name = shorten(legendText, group.name, vg.Points(labelWidth))
		}
		marks = drawDots(p, dots, l, spread, !pos.order) || marks
		pan.legend = append(pan.legend, entry)
		drawn = true
	}
	if !drawn {
		return figure{}, false
	}
	if v.severalSeeds() {
		pan.legend = append(pan.legend, legendEntry{name: "a seed", glyph: seedGlyph(pan.legend[0].glyph.Color)})
	}
	if marks {
		pan.legend = append(pan.legend, legendEntry{name: "a seed that diverged", glyph: divergedSeedGlyph(dark)})
	}
	pan.legend = append(pan.legend, levels...)
	fig.caption = append(fig.caption, v.finalNote()...)
	if v.severalSeeds() {
		fig.caption = append(fig.caption, "Seeds stand to the right of their mean, to be seen.")
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
	size := "held-out problems"
	if n := v.problems(); n != "" {
		size = "n = " + n + " " + size
	}
	out := []string{"Each point: fraction of " + size + " answered right after a run's last step, sampled at temperature 1."}
	if v.severalSeeds() {
		out = append(out, "Bars: 95% Student's t interval of the mean over the seeds.")
	}
	return out
}

// levelsAcross draws the base level and the majority baseline over the whole
// width of p.
func (v *sweepView) levelsAcross(p *plot.Plot) []legendEntry {
	var legend []legendEntry
	for _, l := range []struct {
		name  string
		y     float64
		style draw.LineStyle
	}{
		{"base level", v.Base, lookBase.line(medium)},
		{"majority answer", v.Majority, lookMajority.line(medium + 0.2)},
	} {
		if !isFinite(l.y) {
			continue
		}
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: l.y}, {X: p.X.Max, Y: l.y}}, LineStyle: l.style})
		legend = append(legend, legendEntry{name: fmt.Sprintf("%s (%s)", l.name, decimals(l.y, 3)), line: l.style})
	}
	return legend
}

// dot is an arm at its place on the axis.
type dot struct {
	row *ArmRow
	at  float64
}

// drawDots draws the mean line, intervals and, on their right within spread,
// the seeds of arms, and says whether one of them diverged.
func drawDots(p *plot.Plot, dots []dot, l look, spread float64, joined bool) bool {
	var means, seeds, marks series
	for _, d := range dots {
		f := d.row.Final
		means = append(means, plotter.XY{X: d.at, Y: f.Mean})
		if isFinite(f.Lo) && isFinite(f.Hi) {
			bar := draw.LineStyle{Color: l.color, Width: vg.Points(medium)}
			p.Add(&plotter.Line{XYs: plotter.XYs{{X: d.at, Y: f.Lo}, {X: d.at, Y: f.Hi}}, LineStyle: bar})
			for _, y := range []float64{f.Lo, f.Hi} {
				end := spread * 0.09
				p.Add(&plotter.Line{XYs: plotter.XYs{{X: d.at - end, Y: y}, {X: d.at + end, Y: y}}, LineStyle: bar})
			}
		}
		for i, y := range f.Values {
			if !isFinite(y) || len(f.Values) == 1 {
				continue
			}
			at := plotter.XY{X: d.at + spread*(0.45+2.6*jitter(i, len(f.Values))), Y: y}
			if i < len(d.row.DivergedAt) && d.row.DivergedAt[i] != nil {
				marks = append(marks, at)
			} else {
				seeds = append(seeds, at)
			}
		}
	}
	if joined {
		p.Add(&plotter.Line{XYs: plotter.XYs(means), LineStyle: l.line(thick)})
	}
	addMarkers(p, means, l.glyph(markerRadius+1))
	addMarkers(p, seeds, seedGlyph(l.color))
	return addMarkers(p, marks, divergedSeedGlyph(l.color))
}

// jitter spreads n seeds evenly over a small part of the distance between two
// values, always the same seed at the same place.
func jitter(i, n int) float64 {
	if n < 2 {
		return 0
	}
	return 0.16 * (float64(i)/float64(n-1) - 0.5)
}
