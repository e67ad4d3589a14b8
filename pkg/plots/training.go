package plots

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

var (
	eachStep       = curveOptions{width: medium, seedOpacity: 0.55}
	eachEvaluation = curveOptions{width: thick, seedOpacity: 0.55, markers: allMarkers}
)

var trainingPanels = []struct {
	title, yLabel string
	curves        []named
}{
	{"Answer reward, sampled", "answer reward", []named{
		{"training batch", trainReward, trainStyle, eachStep},
		{"validation", validationOf, sampledStyle, eachEvaluation},
	}},
	{"Completion length", "length (tokens, mean)", []named{
		{"right", lengthRight, rightStyle, eachStep}, {"wrong", lengthWrong, wrongStyle, eachStep},
		{"of pairs", lengthOfPairs, plainStyle, eachStep},
	}},
	{"Token entropy", "entropy (nats, mean over tokens)", []named{{"", entropy, plainStyle, eachStep}}},
	{"Gradient norm", "global norm before clipping", []named{{"", gradNorm, plainStyle, eachStep}}},
}

// runsTraining is four panels on how one run, or several seeds of one arm, trained:
// training against validation answer reward, the length of right and of wrong
// completions, the token entropy, and the gradient norm before clipping. Runs on another
// reward than the answer reward have two more: that reward and its functions. Several
// seeds are drawn thin, with a thick mean.
//
// It is an error when no run has a line of metrics.
func runsTraining(runs []*rundir.Run) (*figure, error) {
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return nil, err
	}
	lines := 0
	for _, r := range runs {
		lines += len(r.Metrics)
	}
	if lines == 0 {
		return nil, errors.New("draw training panels: no run has a line of metrics yet")
	}
	title := "Training under GRPO"
	if infos[0].IsDPO() { // the seeds have one configuration
		title = "Training on preference pairs"
	}
	fig := &figure{
		width: wideWidth, panelHeight: 2.75,
		title: title, setting: analysis.SettingLine(infos),
		caption: trainingCaption(runs, infos,
			"Each point: one step's rollout batch, or one evaluation on the validation problems."),
	}
	for i, t := range trainingPanels {
		p := newStepPanel(infos, lastStep(runs), t.yLabel)
		p.title = t.title
		curves := make([]curve, len(t.curves))
		for k, c := range t.curves {
			curves[k] = newCurve(runs, runs, c.y, nil)
		}
		p.setY(newYAxis(false, curves...))
		if i == 0 {
			p.setY(yAxis{hi: 1})
		}
		for k, c := range t.curves {
			p.addCurve(c.name, curves[k], c.style, c.options)
		}
		fig.addPanel(2, p)
	}
	for _, p := range rewardPanels(runs, infos) {
		fig.addPanel(2, p)
	}
	return fig, nil
}

// rewardPanels are the reward that the runs trained on, and each of its functions; none if the answer
// reward is all of it.
func rewardPanels(runs []*rundir.Run, infos []analysis.RunInfo) []*panel {
	functions := map[string]bool{}
	for _, r := range runs {
		for _, m := range r.Metrics {
			for name := range m.Rewards {
				functions[name] = true
			}
		}
	}
	if len(functions) == 0 || len(functions) == 1 && functions["answer"] {
		return nil
	}
	total := newCurve(runs, runs, perStep(func(m rundir.Metrics) *float64 { return meanReward(m.Reward) }), nil)
	left := newStepPanel(infos, lastStep(runs), "reward (mean of the batch)")
	left.title = "Reward as trained on"
	left.setY(signedAxis(total))
	left.addCurve("", total, trainStyle, eachStep)

	names := slices.Sorted(maps.Keys(functions))
	curves := make([]curve, len(names))
	for i, name := range names {
		curves[i] = newCurve(runs, runs, rewardOf(name), nil)
	}
	right := newStepPanel(infos, lastStep(runs), "reward (mean of the batch)")
	right.title = "Reward functions, before weights"
	right.setY(signedAxis(curves...))
	for i, name := range names {
		right.addCurve(textutil.Printable(name, 0), curves[i], armStyles[i%overlayMax], eachStep)
	}
	return []*panel{left, right}
}

// rewardOf is the mean reward of a function in each step.
func rewardOf(name string) quantity {
	return perStep(func(m rundir.Metrics) *float64 { return functionReward(m, name) })
}

// functionReward is nil if the step lacks the function.
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

// trainingCaption describes the curves; point is a sentence on their points.
func trainingCaption(runs []*rundir.Run, infos []analysis.RunInfo, point string) []string {
	first := infos[0].OneRun()
	if len(runs) > 1 {
		first = fmt.Sprintf("Mean over n = %d runs at the steps that all of them have; thin lines: each run.",
			len(runs))
	}
	return append([]string{first, point}, unfinished(runs, infos)...)
}
