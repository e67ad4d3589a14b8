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
			mean, _, _ := stats.MeanSD(values[bin])
			first, last := bin*width+1, min((bin+1)*width, int(v.xMax))
			if stats.IsFinite(mean) {
				out = append(out, analysis.Point{X: float64(first+last) / 2, Y: mean})
			}
		}
		return out
	}
}
