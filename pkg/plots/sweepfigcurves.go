package plots

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Quantities of a run.

func validationOf(r *rundir.Run) analysis.Series {
	return analysis.EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
}

// tokensOf is the number of completion tokens trained on up to each step, in
// thousands: a cost that is the same on every machine. It has no points where
// the configuration does not say the size of a batch.
func tokensOf(r *rundir.Run) analysis.Series {
	a, _ := analysis.ReadInfo(r)
	if a.Rollout.Size <= 0 {
		return nil
	}
	s := analysis.Series{{X: 0, Y: 0}}
	total := 0.0
	for _, m := range r.Metrics {
		total += float64(a.Rollout.Size) * m.Length / 1000
		s.Add(m.Step, total)
	}
	return s
}

// mostPoints is the number of points from which on a curve of one value a step
// is too noisy to be read next to others.
const mostPoints = 50

// stepsPerPoint is how many steps a point of a curve of metrics stands for.
func (v *sweepView) stepsPerPoint() int { return int(math.Ceil(v.xMax / mostPoints)) }

// perStep is a figure of metrics.jsonl, averaged over the steps of each point.
// The points are the same steps in every run and lie in the middle of them.
func (v *sweepView) perStep(figure func(rundir.Metrics) *float64) func(*rundir.Run) analysis.Series {
	width := v.stepsPerPoint()
	return func(r *rundir.Run) analysis.Series {
		var out analysis.Series
		values := map[int][]float64{}
		for _, p := range analysis.MetricSeries(r, figure) {
			bin := (int(p.X) - 1) / width
			values[bin] = append(values[bin], p.Y)
		}
		for _, bin := range slices.Sorted(maps.Keys(values)) {
			mean, _, _ := stats.MeanSD(values[bin])
			first, last := bin*width+1, min((bin+1)*width, int(v.xMax))
			if stats.IsFinite(mean) {
				out = append(out, analysis.Point{X: float64(first+last) / 2, Y: mean})
			}
		}
		return out
	}
}

// validation is the validation answer reward of each arm against the step.
func (v *sweepView) validation() (figure, bool) {
	return v.validationAgainst(chart{title: "Validation answer reward", xLabel: stepLabel, xMax: v.xMax})
}

// againstTokens is the same against the tokens that were trained on.
func (v *sweepView) againstTokens() (figure, bool) {
	most := 0.0
	for _, r := range v.runs {
		if s := tokensOf(r); len(s) > 0 {
			most = max(most, s[len(s)-1].Y)
		}
	}
	if most <= 0 {
		return figure{}, false
	}
	fig, ok := v.validationAgainst(chart{
		title: "Validation answer reward against tokens", xLabel: "completion tokens trained on (thousands)", xMax: most, x: tokensOf,
	})
	fig.Notes = append(fig.Notes, "Tokens of completions that dynamic sampling set aside are not counted. A mean is at the mean of the runs' tokens at that step.")
	return fig, ok
}

func (v *sweepView) validationAgainst(c chart) (figure, bool) {
	c.yLabel, c.yMax, c.y, c.levels, c.values = v.rewardLabel(), 1, validationOf, true, true
	c.band = shareOf(v.leastProblems())
	fig, ok := c.draw(v)
	fig.Caption = append(v.meanNote(true), v.sampledNote())
	return v.close(fig), ok
}

// sampledNote says what a point of a validation curve is.
func (v *sweepView) sampledNote() string {
	return "Each point: share of " + v.heldOut() + " answered right, " + analysis.SampledAt(v.runs) + "; in brackets: last value."
}

// heldOut is "1024 held-out problems".
func (v *sweepView) heldOut() string { return strings.TrimSpace(v.problems() + " held-out problems") }

// leastProblems is the smallest number of validation problems of any arm, 0 while
// unknown: one problem of it is the coarsest unit in which rewards are counted.
func (v *sweepView) leastProblems() int {
	least := 0
	for _, a := range v.arms {
		if a.Problems > 0 && (least == 0 || a.Problems < least) {
			least = a.Problems
		}
	}
	return least
}

// close adds to a figure what diverged and what is missing: in short to its
// caption, by arm to its notes.
func (v *sweepView) close(fig figure) figure {
	if s := v.missingCount(); s != "" {
		fig.Caption = append(fig.Caption, s)
	}
	fig.Notes = append([]string{v.seedList()}, fig.Notes...)
	fig.Notes = append(fig.Notes, v.divergedNote()...)
	fig.Notes = append(fig.Notes, v.missing()...)
	return fig
}

func (v *sweepView) Entropy() (figure, bool) {
	fig, ok := v.metricChart("Token entropy", "entropy (nats, mean over tokens)",
		func(m rundir.Metrics) *float64 { return &m.Entropy })
	if all := v.TrainingTemperatures(); ok && all != nil {
		fig.Caption = append(fig.Caption, "Each arm at its own sampling temperature ("+strings.Join(all, ", ")+"): not comparable between arms.")
	}
	return fig, ok
}

func (v *sweepView) gradNorm() (figure, bool) {
	return v.metricChart("Gradient norm", "gradient norm (global L2, before clipping)",
		func(m rundir.Metrics) *float64 { return &m.GradNorm })
}

func (v *sweepView) clipFraction() (figure, bool) {
	fig, ok := v.metricChart("Clip fraction", "fraction of tokens that are clipped",
		func(m rundir.Metrics) *float64 { return m.ClipFraction })
	if ok {
		fig.Caption = append(fig.Caption, "Arms that are on-policy, or that don't clip, have no clip fraction.")
	}
	return fig, ok
}

// metricChart is a chart of a figure of metrics.jsonl.
func (v *sweepView) metricChart(title, yLabel string, figure func(rundir.Metrics) *float64) (figure, bool) {
	c := chart{title: title, xLabel: stepLabel, yLabel: yLabel, xMax: v.xMax, y: v.perStep(figure), log: true, band: v.metricBand()}
	fig, ok := c.draw(v)
	if !ok {
		return fig, false
	}
	fig.Caption = append(v.meanNote(c.band != nil), v.batchNote())
	_, curves := c.arms(v)
	fig.Caption = append(fig.Caption, c.scale(curves).note()...)
	return v.close(fig), true
}

// metricBand is the range of a metric, none of which is negative. Two seeds have
// no band: theirs is wider than the axis at nearly every step, and would hide the
// seeds that it is about.
func (v *sweepView) metricBand() *valueRange {
	if len(v.manifest().Seeds) < 3 {
		return nil
	}
	return &valueRange{most: math.Inf(1)}
}

// batchNote says what a point of a curve of metrics is.
func (v *sweepView) batchNote() string {
	if n := v.stepsPerPoint(); n > 1 {
		return fmt.Sprintf("Each point: mean over the rollout batches of %d steps.", n)
	}
	return "Each point: one step's rollout batch."
}

// note says where the axis leaves the plain case.
func (s yScale) note() []string {
	var out []string
	if s.log {
		out = append(out, "Logarithmic axis.")
	}
	if s.floor {
		out = append(out, "Smaller values and 0 are at its lower end.")
	}
	return out
}

// responseLength is the length of right and of wrong completions.
func (v *sweepView) responseLength() (figure, bool) {
	right := chart{xMax: v.xMax, y: v.perStep(func(m rundir.Metrics) *float64 { return m.LengthRight }), band: v.metricBand()}
	wrong := chart{xMax: v.xMax, y: v.perStep(func(m rundir.Metrics) *float64 { return m.LengthWrong }), band: v.metricBand()}
	const yLabel = "completion length (tokens, mean)"
	_, a := right.arms(v)
	_, b := wrong.arms(v)
	scale := right.scale(append(a, b...))
	if len(a)+len(b) == 0 {
		return figure{}, false
	}
	fig := figure{title: "Response length", width: WideWidth}
	if v.panels() {
		fig.panelHeight = panelInches
		fig.xLabel, fig.yLabel = stepLabel, yLabel
		fig.pairPanels(v, scale, []named{{"right completions", right, lookRight, 0}, {"wrong completions", wrong, lookWrong, 0}})
	} else {
		fig.panelHeight = 3.3
		fig.Rows = [][]*panel{{}}
		for _, side := range []struct {
			title string
			chart chart
		}{{"Right completions", right}, {"Wrong completions", wrong}} {
			var one figure
			side.chart.xLabel, side.chart.yLabel = stepLabel, yLabel
			arms, curves := side.chart.arms(v)
			side.chart.drawOverlay(&one, v, arms, curves, scale)
			p := one.Rows[0][0]
			p.title = side.title
			fig.legend = union(fig.legend, p.Legend)
			p.Legend = nil
			fig.Rows[0] = append(fig.Rows[0], p)
		}
	}
	fig.Caption = append(v.meanNote(right.band != nil && !v.panels()), v.batchNote())
	fig.Notes = append(fig.Notes, "A step without a right (or wrong) completion has no such length.")
	return v.close(fig), true
}

// union adds the entries whose names are not there yet.
func union(all, more []legendEntry) []legendEntry {
next:
	for _, e := range more {
		for _, have := range all {
			if have.Name == e.Name {
				continue next
			}
		}
		all = append(all, e)
	}
	return all
}

// named is one of the quantities that a panel holds beside each other.
type named struct {
	name    string
	chart   chart
	look    look
	markers int
}

// pairPanels gives each arm a panel with several quantities.
func (f *figure) pairPanels(v *sweepView, scale yScale, all []named) {
	drawn := map[string]bool{}
	marked := false
	for _, a := range v.arms {
		p := all[0].chart.newPlot(scale, "", "")
		p.X.Tick.Marker = niceTicks{want: 2, integer: true}
		for _, n := range all {
			k := a.curveOf(n.chart.y, nil)
			if len(k.seeds) == 0 {
				continue
			}
			entry := k.addTo(p, n.look, curveStyle{width: thick - 0.3, seedOpacity: 0.3, markers: n.markers})
			entry.Name = n.name
			if !drawn[n.name] {
				drawn[n.name] = true
				f.legend = append(f.legend, entry)
			}
		}
		marked = all[len(all)-1].chart.addMarks(p, a, scale, all[len(all)-1].look.color) || marked
		f.addPanel(v.columns(), &panel{title: a.Name(), plot: p})
	}
	if marked {
		f.legend = append(f.legend, legendEntry{Name: "diverged", glyph: divergedGlyph(all[len(all)-1].look.color)})
	}
	f.fitTitles()
}

// trainAndValidation is the reward of the training batches beside that of the
// validation, arm by arm: a gap says that the policy fits its problems.
func (v *sweepView) trainAndValidation() (figure, bool) {
	train := chart{xMax: v.xMax, y: v.perStep(func(m rundir.Metrics) *float64 { return &m.AnswerReward })}
	val := chart{xMax: v.xMax, y: validationOf}
	if _, curves := train.arms(v); len(curves) == 0 {
		return figure{}, false
	}
	fig := figure{
		title: "Training and validation answer reward", width: WideWidth, panelHeight: panelInches,
		xLabel: stepLabel, yLabel: "answer reward (fraction correct)",
	}
	if v.columns() < 3 {
		fig.panelHeight = 2.75
	}
	if v.columns() == 1 {
		fig.width = PageWidth
	}
	fig.pairPanels(v, yScale{hi: 1}, []named{{"training batch", train, lookTrain, 0}, {"validation, sampled", val, lookSampled, 8}})
	fig.Caption = append(v.meanNote(false), "Training: "+v.batchNote()[len("Each point: "):], "Validation: "+v.heldOut()+".")
	fig.Notes = append(fig.Notes, "Training: the answer reward, whatever was trained on.")
	return v.close(fig), true
}
