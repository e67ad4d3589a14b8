package report

import (
	"grpo/pkg/rundir"
)

// Quantities of a run.

func validationOf(r *rundir.Run) series {
	return evalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
}

func metric(figure func(rundir.Metrics) *float64) func(*rundir.Run) series {
	return func(r *rundir.Run) series { return metricSeries(r, figure) }
}

// secondsOf is the wall-clock of each step; the base model is there at 0.
func secondsOf(r *rundir.Run) series {
	s := series{{X: 0, Y: 0}}
	for _, m := range r.Metrics {
		s.add(m.Step, m.Time.ElapsedS)
	}
	return s
}

// validation is the validation answer reward of each arm against the step.
func (v *sweepView) validation() (figure, bool) {
	fig, ok := chart{
		title:  "Validation answer reward",
		xLabel: stepLabel, yLabel: v.rewardLabel(), xMax: v.xMax, yMax: 1,
		y: validationOf, band: true, levels: true, values: true,
	}.draw(v)
	fig.caption = append(fig.caption, v.sampledNote())
	fig.caption = append(fig.caption, v.meanNote(true)...)
	fig.caption = append(fig.caption, "In brackets: the mean's last value.")
	return v.close(fig), ok
}

// sampledNote says what a point of a validation curve is.
func (v *sweepView) sampledNote() string {
	size := "held-out problems"
	if n := v.problems(); n != "" {
		size = "n = " + n + " " + size
	}
	return "Each point: fraction of " + size + " answered right, sampled at temperature 1; no smoothing."
}

// close adds to a caption what diverged and what is missing.
func (v *sweepView) close(fig figure) figure {
	fig.caption = append(fig.caption, v.divergedNote()...)
	fig.caption = append(fig.caption, v.missing()...)
	return fig
}

// againstSeconds is the validation answer reward against the wall-clock.
func (v *sweepView) againstSeconds() (figure, bool) {
	last := 0.0
	for _, r := range v.runs {
		if s := secondsOf(r); len(s) > 0 {
			last = max(last, s[len(s)-1].Y)
		}
	}
	if last <= 0 {
		return figure{}, false
	}
	fig, ok := chart{
		title:  "Validation answer reward against wall-clock",
		xLabel: "wall-clock of the run (s)", yLabel: v.rewardLabel(), xMax: last, yMax: 1,
		x: secondsOf, y: validationOf, band: true, levels: true, values: true,
	}.draw(v)
	fig.caption = append(fig.caption, v.sampledNote(),
		"Seconds as each run measured them, evaluations included, on cores that runs beside it may have shared.",
		"A point of a mean stands at the mean of the seconds at which the runs were at that step.")
	fig.caption = append(fig.caption, v.meanNote(true)...)
	fig.caption = append(fig.caption, "In brackets: the mean's last value.")
	return v.close(fig), ok
}

func (v *sweepView) entropy() (figure, bool) {
	return v.metricChart("Token entropy", "entropy (nats, mean over tokens)",
		func(m rundir.Metrics) *float64 { return &m.Entropy })
}

func (v *sweepView) gradNorm() (figure, bool) {
	return v.metricChart("Gradient norm", "gradient norm (global L2, before clipping)",
		func(m rundir.Metrics) *float64 { return &m.GradNorm })
}

func (v *sweepView) clipFraction() (figure, bool) {
	fig, ok := v.metricChart("Clip fraction", "fraction of tokens that are clipped",
		func(m rundir.Metrics) *float64 { return m.ClipFraction })
	if ok {
		fig.caption = append(fig.caption, "Arms that are on-policy, or that don't clip, have no clip fraction.")
	}
	return fig, ok
}

// metricChart is a chart of a figure of metrics.jsonl.
func (v *sweepView) metricChart(title, yLabel string, figure func(rundir.Metrics) *float64) (figure, bool) {
	c := chart{title: title, xLabel: stepLabel, yLabel: yLabel, xMax: v.xMax, y: metric(figure), log: true}
	fig, ok := c.draw(v)
	if !ok {
		return fig, false
	}
	fig.caption = append(fig.caption, "Each value is of one step's rollout batch; no smoothing.")
	fig.caption = append(fig.caption, v.meanNote(false)...)
	_, curves := c.arms(v)
	fig.caption = append(fig.caption, c.scale(curves).note()...)
	return v.close(fig), true
}

// note says where the axis leaves the plain case.
func (s yScale) note() []string {
	var out []string
	if s.log {
		out = append(out, "Logarithmic axis.")
	}
	if s.floor {
		out = append(out, "Values of 0, or below the axis, are drawn at its lower end.")
	}
	return out
}

// responseLength is the length of right and of wrong completions.
func (v *sweepView) responseLength() (figure, bool) {
	right := chart{xMax: v.xMax, y: metric(func(m rundir.Metrics) *float64 { return m.LengthRight })}
	wrong := chart{xMax: v.xMax, y: metric(func(m rundir.Metrics) *float64 { return m.LengthWrong })}
	const yLabel = "completion length (tokens, mean)"
	_, a := right.arms(v)
	_, b := wrong.arms(v)
	scale := right.scale(append(a, b...))
	if len(a)+len(b) == 0 {
		return figure{}, false
	}
	fig := figure{title: "Response length", caption: []string{v.seedList()}, width: wideWidth}
	if v.panels() {
		fig.panelHeight = panelInches
		fig.xLabel, fig.yLabel = stepLabel, yLabel
		fig.pairPanels(v, scale, []named{{"right completions", right, lookRight, 0}, {"wrong completions", wrong, lookWrong, 0}})
	} else {
		fig.panelHeight = 3.3
		fig.rows = [][]*panel{{}}
		for _, side := range []struct {
			title string
			chart chart
		}{{"Right completions", right}, {"Wrong completions", wrong}} {
			var one figure
			side.chart.xLabel, side.chart.yLabel = stepLabel, yLabel
			arms, curves := side.chart.arms(v)
			side.chart.drawOverlay(&one, v, arms, curves, scale)
			p := one.rows[0][0]
			p.title = side.title
			fig.legend = union(fig.legend, p.legend)
			p.legend = nil
			fig.rows[0] = append(fig.rows[0], p)
		}
	}
	fig.caption = append(fig.caption, "Each value is the mean over one step's rollout batch; no smoothing. A step without a right (or wrong) completion has no such length.")
	fig.caption = append(fig.caption, v.meanNote(false)...)
	return v.close(fig), true
}

// union adds the entries whose names are not there yet.
func union(all, more []legendEntry) []legendEntry {
next:
	for _, e := range more {
		for _, have := range all {
			if have.name == e.name {
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
			k := a.curveOf(n.chart.y, false)
			if len(k.seeds) == 0 {
				continue
			}
			entry := k.addTo(p, n.look, curveStyle{width: thick - 0.3, seedOpacity: 0.3, markers: n.markers})
			entry.name = n.name
			if !drawn[n.name] {
				drawn[n.name] = true
				f.legend = append(f.legend, entry)
			}
		}
		marked = all[len(all)-1].chart.addMarks(p, a, scale, all[len(all)-1].look.color) || marked
		f.addPanel(v.columns(), &panel{title: a.Name(), plot: p})
	}
	if marked {
		f.legend = append(f.legend, legendEntry{name: "diverged", glyph: divergedGlyph(all[len(all)-1].look.color)})
	}
	f.fitTitles()
}

// trainAndValidation is the reward of the training batches beside that of the
// validation, arm by arm: a gap says that the policy fits its problems.
func (v *sweepView) trainAndValidation() (figure, bool) {
	train := chart{xMax: v.xMax, y: metric(func(m rundir.Metrics) *float64 { return &m.AnswerReward })}
	val := chart{xMax: v.xMax, y: validationOf}
	if _, curves := train.arms(v); len(curves) == 0 {
		return figure{}, false
	}
	fig := figure{
		title: "Training and validation answer reward", width: wideWidth, panelHeight: panelInches,
		xLabel: stepLabel, yLabel: "answer reward (fraction correct)",
		caption: []string{v.seedList()},
	}
	if v.columns() < 3 {
		fig.panelHeight = 2.75
	}
	if v.columns() == 1 {
		fig.width = pageWidth
	}
	fig.pairPanels(v, yScale{hi: 1}, []named{{"training batch", train, lookTrain, 0}, {"validation, sampled", val, lookSampled, 8}})
	fig.caption = append(fig.caption,
		"Training: the answer reward of one step's rollout batch, whatever was trained on. Validation: held-out problems. No smoothing.")
	fig.caption = append(fig.caption, v.meanNote(false)...)
	return v.close(fig), true
}
