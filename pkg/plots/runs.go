package plots

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// Runs draws the figures of one run, or of several seeds of one arm, that the runs have data for:
//
//	validation_reward.png   the validation answer reward against the step; title replaces its own
//	training.png            answer reward, lengths, entropy and gradient norm of training
//	pass_at_k.png           pass@k and maj@k before and after training, of runs with several samples of a problem
//	learned_vs_true_reward.png   of runs with a reward model: its reward and the answer reward
//
// formats are "svg" and "pdf", besides PNG. It is an error when the runs are not seeds of one
// configuration.
func Runs(runs []*rundir.Run, title string, formats []string) ([]Drawing, error) {
	var out []Drawing
	for _, f := range []struct {
		file  string
		build func([]*rundir.Run) (*figure, error)
		title string
		has   func(*rundir.Run) bool
	}{
		{rundir.ValidationPlot, runsValidation, title, func(r *rundir.Run) bool { return len(r.Evals) > 0 }},
		{rundir.TrainingPlot, runsTraining, "", func(r *rundir.Run) bool { return len(r.Metrics) > 0 }},
		{rundir.PassAtKPlot, runsPassAtK, "", hasAtK},
		{rundir.LearnedPlot, runsLearned, "", func(r *rundir.Run) bool { return len(learnedReward(r)) > 0 }},
	} {
		if !slices.ContainsFunc(runs, f.has) {
			continue
		}
		fig, err := f.build(runs)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.file, err)
		}
		fig.title = cmp.Or(f.title, fig.title)
		d, err := fig.drawing(f.file, fig.forPhone(), SweepOptions{Formats: formats})
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// forPhone is the figure for narrow screens: its panels are below each other.
func (f *figure) forPhone() *figure {
	p := *f
	p.width, p.rows = phoneWidth, nil
	for _, panel := range slices.Concat(f.rows...) {
		p.addPanel(1, panel)
	}
	return &p
}

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
	if !slices.ContainsFunc(runs, func(r *rundir.Run) bool { return len(r.Metrics) > 0 }) {
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
		curves := make([]curve, len(t.curves))
		for k, c := range t.curves {
			curves[k] = newCurve(runs, runs, c.y, nil)
		}
		y := newYAxis(false, curves...)
		if i == 0 {
			y = shareAxis(nil, curves...)
		}
		p := newStepPanel(infos, lastStep(runs), t.title, t.yLabel, y)
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
	const label = "reward (mean of the batch)"
	left := newStepPanel(infos, lastStep(runs), "Reward as trained on", label, signedAxis(total))
	left.addCurve("", total, trainStyle, eachStep)

	names := slices.Sorted(maps.Keys(functions))
	curves := make([]curve, len(names))
	for i, name := range names {
		function := perStep(func(m rundir.Metrics) *float64 { return functionReward(m, name) })
		curves[i] = newCurve(runs, runs, function, nil)
	}
	right := newStepPanel(infos, lastStep(runs), "Reward functions, before weights", label, signedAxis(curves...))
	for i, name := range names {
		right.addCurve(textutil.Printable(name, 0), curves[i], armStyles[i%overlayMax], eachStep)
	}
	return []*panel{left, right}
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
