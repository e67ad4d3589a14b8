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

// perStepFigure is a figure of one metric of the training steps.
type perStepFigure struct {
	file, title, yLabel string
	y                   quantity
	caption             func(*view) []string // further sentences; nil: none
}

var perStepFigures = []perStepFigure{
	{"entropy.png", "Token entropy", "entropy (nats, mean over tokens)",
		entropy, temperaturesDiffer},
	{"grad_norm.png", "Gradient norm", "gradient norm (global L2, before clipping)",
		gradNorm, nil},
	{"clip_fraction.png", "Clip fraction", "fraction of tokens that are clipped",
		clipped, func(*view) []string {
			return []string{"Arms that are on-policy, or that don't clip, have no clip fraction."}
		}},
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

func temperaturesDiffer(v *view) []string {
	all := v.TrainingTemperatures()
	if all == nil {
		return nil
	}
	return []string{"Each arm at its own sampling temperature (" + strings.Join(all, ", ") +
		"): not comparable between arms."}
}

func (f perStepFigure) draw(v *view) *figure {
	c := chart{
		title: f.title, xLabel: stepLabel(v.infos), yLabel: f.yLabel, xMax: v.xMax,
		y: v.averaged(f.y), log: true, band: metricRange,
	}
	fig := c.draw(v)
	if fig == nil {
		return nil
	}
	fig.caption = append([]string{v.meanCaption(true), "Each point: " + v.batchPoint()}, fig.caption...)
	if f.caption != nil {
		fig.caption = append(fig.caption, f.caption(v)...)
	}
	return fig
}

// metricRange is the range of a metric, none of which is negative.
var metricRange = &valueRange{most: math.Inf(1)}

// mostPoints is the number of points from which a curve of one value a step is too
// noisy to be read next to others.
const mostPoints = 50

// stepsPerPoint is the number of steps that a point of a curve averages over.
func (v *view) stepsPerPoint() int { return int(math.Ceil(v.xMax / mostPoints)) }

// batchPoint describes what a point of a curve of metrics is.
func (v *view) batchPoint() string {
	if n := v.stepsPerPoint(); n > 1 {
		return fmt.Sprintf("mean over the rollout batches of %d steps.", n)
	}
	return "one step's rollout batch."
}

// averaged is a quantity of the steps averaged over the steps of each point. The points are in the
// middle of the same steps in every run.
func (v *view) averaged(q quantity) quantity {
	width := v.stepsPerPoint()
	return func(r *rundir.Run) analysis.Series {
		var out analysis.Series
		values := map[int][]float64{}
		for _, p := range q(r) {
			bin := (int(p.X) - 1) / width
			values[bin] = append(values[bin], p.Y)
		}
		for _, bin := range slices.Sorted(maps.Keys(values)) {
			mean, first, last := stats.Mean(values[bin]), bin*width+1, min((bin+1)*width, int(v.xMax))
			if stats.IsFinite(mean) {
				out = append(out, analysis.Point{X: float64(first+last) / 2, Y: mean})
			}
		}
		return out
	}
}

// functionReward is the mean reward of a function in a step, nil if the step lacks it.
func functionReward(m rundir.Metrics, name string) *float64 {
	s, ok := m.Rewards[name]
	if !ok {
		return nil
	}
	return meanReward(s)
}

// meanReward is nil if no completion of the step has the reward.
func meanReward(s rundir.Stat) *float64 {
	if math.IsNaN(s.Mean) {
		return nil
	}
	return &s.Mean
}

// responseLength is the length of right and of wrong completions.
func responseLength(v *view) *figure {
	c := chart{
		xLabel: stepLabel(v.infos), yLabel: "completion length (tokens, mean)", xMax: v.xMax, band: metricRange,
	}
	right, wrong := c, c
	right.y = v.averaged(lengthRight)
	wrong.y = v.averaged(lengthWrong)
	rights, wrongs := right.curves(v), wrong.curves(v)
	if len(rights)+len(wrongs) == 0 {
		return nil
	}
	y := c.yAxis(v, append(rights, wrongs...)...)
	fig := &figure{
		title: "Completion length", width: v.width(wideWidth),
		caption: []string{v.meanCaption(!v.panels()), "Each point: " + v.batchPoint()},
		notes:   []string{"A step without a right (or wrong) completion has no such length."},
	}
	if v.panels() {
		fig.panelHeight, fig.xLabel, fig.yLabel = panelInches, c.xLabel, c.yLabel
		options := curveOptions{width: 1.6, seedOpacity: 0.3}
		fig.addPairs(v, y, named{"right completions", right.y, rightStyle, options},
			named{"wrong completions", wrong.y, wrongStyle, options})
		return fig
	}
	fig.panelHeight = 3.3
	r, w := right.overlay(v, rights, y), wrong.overlay(v, wrongs, y)
	r.title, w.title = "Right completions", "Wrong completions"
	fig.addPanel(v.sideBySide(), r)
	fig.addPanel(v.sideBySide(), w)
	fig.shareLegend()
	return fig
}

// trainVsValidation is the reward of the training batches next to that of the
// validation, arm by arm: a gap means that the policy overfits its problems.
func trainVsValidation(v *view) *figure {
	train := v.averaged(trainReward)
	trained := chart{y: train}.curves(v)
	if len(trained) == 0 {
		return nil
	}
	y := shareAxis(nil, curvesOf(append(trained, chart{y: validationOf}.curves(v)...))...)
	fig := &figure{
		title: "Training and validation answer reward", width: v.width(wideWidth), panelHeight: panelInches,
		xLabel: stepLabel(v.infos), yLabel: "answer reward (fraction correct)",
		caption: []string{v.meanCaption(false), "Training: " + v.batchPoint(), "Validation: " + heldOut(onCurve(v.runs)) + "."},
		notes:   []string{"Training: the answer reward, whatever reward was trained on."},
	}
	if v.columns() < 3 {
		fig.panelHeight = 2.75
	}
	if v.columns() == 1 {
		fig.width = v.width(pageWidth)
	}
	steps := curveOptions{width: 1.6, seedOpacity: 0.3}
	evaluations := curveOptions{width: 1.6, seedOpacity: 0.3, markers: 8}
	fig.addPairs(v, y, named{"training batch", train, trainStyle, steps},
		named{"validation, sampled", validationOf, sampledStyle, evaluations})
	return fig
}
