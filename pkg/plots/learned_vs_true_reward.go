package plots

import (
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// learnedReward is the mean reward of a run's reward models in each step, the mean over them if there
// are several. A run without one has none.
func learnedReward(r *rundir.Run) analysis.Series {
	names := analysis.LearnedRewards(r)
	if len(names) == 0 {
		return nil
	}
	return perStep(func(m rundir.Metrics) *float64 {
		var mean float64
		for _, name := range names {
			reward := functionReward(m, name)
			if reward == nil {
				return nil
			}
			mean += *reward / float64(len(names))
		}
		return &mean
	})(r)
}

const (
	learnedTitle = "Learned and true reward"
	learnedLabel = "learned reward (mean of the batch)"
	trueLabel    = "answer reward (fraction correct)"
	overNote     = "A learned reward that rises while the true one falls is over-optimization."
)

// runsLearned is the reward of the reward model over training next to the answer reward, which it
// is meant to predict, of one run or of several seeds of one arm.
func runsLearned(runs []*rundir.Run) (*figure, error) {
	infos, err := analysis.ReadSeedInfos(runs)
	if err != nil {
		return nil, err
	}
	learned := newCurve(runs, runs, learnedReward, nil)
	left := newStepPanel(infos, lastStep(runs), "Learned reward", learnedLabel, signedAxis(learned))
	left.addCurve("training batch", learned, trainStyle, eachStep)
	right := newStepPanel(infos, lastStep(runs), "True reward", trueLabel, yAxis{hi: 1})
	right.addCurve("training batch", newCurve(runs, runs, trainReward, nil), trainStyle, eachStep)
	right.addCurve("validation, sampled", newCurve(runs, runs, validationOf, nil), sampledStyle, eachEvaluation)
	fig := &figure{width: wideWidth, panelHeight: 2.75, title: learnedTitle, setting: analysis.SettingLine(infos)}
	fig.addPanel(2, left)
	fig.addPanel(2, right)
	fig.caption = trainingCaption(runs, infos, overNote)
	return fig, nil
}

// learnedVsTrue is the learned reward of the arms that train with a reward model, and the answer
// reward of all arms.
func learnedVsTrue(v *view) *figure {
	learned := chart{
		title: learnedTitle, xLabel: stepLabel(v.infos), yLabel: learnedLabel, xMax: v.xMax, y: v.averaged(learnedReward),
	}
	curves := learned.curves(v)
	if len(curves) == 0 {
		return nil
	}
	y := signedAxis(curvesOf(curves)...)
	fig := &figure{title: learnedTitle, width: v.width(wideWidth), panelHeight: 2.75}
	caption := []string{v.meanCaption(false), "Each point: " + v.batchPoint()}
	if v.panels() {
		learned.addPanels(fig, v, curves, y)
		fig.caption = caption
		fig.notes = []string{"The learned reward of each arm; the answer reward is in the other figures. " + overNote}
		return fig
	}
	correct := chart{xLabel: stepLabel(v.infos), yLabel: trueLabel, xMax: v.xMax, y: v.averaged(trainReward)}
	left, right := learned.overlay(v, curves, y), correct.overlay(v, correct.curves(v), yAxis{hi: 1})
	left.title, right.title = "Learned reward", "True reward (answer reward of the training batch)"
	fig.addPanel(v.sideBySide(), left)
	fig.addPanel(v.sideBySide(), right)
	fig.caption, fig.notes = caption, []string{overNote}
	return fig
}
