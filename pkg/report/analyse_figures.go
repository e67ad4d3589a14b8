package report

import "math"

// scale says in which unit a figure is counted and in which range it lies.
type scale int

const (
	rewardScale scale = iota // a share of the problems, in [0, 1]
	countScale               // problems
	stepScale                // steps
	tokenScale               // tokens
	plainScale               // no unit of its own
	signedScale              // a difference of shares
)

// figureSpec is a figure of an arm: one line here makes its columns in every
// table, its place in results.json and its comparison.
type figureSpec struct {
	name  string // JSON name, and column of results.csv
	label string // in words
	unit  string // behind a number, with its space
	scale scale
	of    func(*ArmRow) *Figure
	value func(*runFacts) float64
	// compared marks the figures that verdicts compare.
	compared bool
}

// figureSpecs are all figures of an arm in the order of the tables.
var figureSpecs = []figureSpec{
	{name: "initial", label: "validation reward before training", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.Initial }, value: func(f *runFacts) float64 { return f.initial }},
	{name: "final", label: "final validation reward", scale: rewardScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Final }, value: func(f *runFacts) float64 { return f.final }},
	{name: "best", label: "best validation reward", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.Best }, value: func(f *runFacts) float64 { return f.best }},
	{name: "greedy", label: "greedy validation reward", scale: rewardScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Greedy }, value: func(f *runFacts) float64 { return f.greedy }},
	{name: "test", label: "test reward", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.Test }, value: func(f *runFacts) float64 { return f.test }},
	{name: "unseen", label: "reward on unseen facts", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.Unseen }, value: func(f *runFacts) float64 { return f.unseen }},
	{name: "late_gain", label: "gain over the last quarter", scale: signedScale,
		of: func(r *ArmRow) *Figure { return &r.LateGain }, value: func(f *runFacts) float64 { return f.lateGain }},
	{name: "correct_num", label: "correct", scale: countScale,
		of: func(r *ArmRow) *Figure { return &r.Correct }, value: func(f *runFacts) float64 { return f.correct }},
	{name: "error_num", label: "errors", scale: countScale,
		of: func(r *ArmRow) *Figure { return &r.Errors }, value: func(f *runFacts) float64 { return f.errors }},
	{name: "formatted_right", label: "formatted and right", scale: countScale,
		of: func(r *ArmRow) *Figure { return &r.FormattedRight }, value: func(f *runFacts) float64 { return f.formattedRight }},
	{name: "formatted_wrong", label: "formatted and wrong", scale: countScale,
		of: func(r *ArmRow) *Figure { return &r.FormattedWrong }, value: func(f *runFacts) float64 { return f.formattedWrong }},
	{name: "unformatted", label: "unformatted completions", scale: countScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Unformatted }, value: func(f *runFacts) float64 { return f.unformatted }},
	{name: "steps_to_50", label: "steps to 50% of the best", unit: " steps", scale: stepScale,
		of: func(r *ArmRow) *Figure { return &r.StepsTo50 }, value: func(f *runFacts) float64 { return f.stepsTo50 }},
	{name: "steps_to_90", label: "steps to 90% of the best", unit: " steps", scale: stepScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.StepsTo90 }, value: func(f *runFacts) float64 { return f.stepsTo90 }},
	{name: "format_reward", label: "formatted share", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.FormatReward }, value: func(f *runFacts) float64 { return f.format }},
	{name: "initial_format_reward", label: "formatted share before training", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.InitialFormat }, value: func(f *runFacts) float64 { return f.initialFormat }},
	{name: "completion_length", label: "completion length", unit: " tokens", scale: tokenScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Length }, value: func(f *runFacts) float64 { return f.length }},
	{name: "completion_length_right", label: "length of right completions", unit: " tokens", scale: tokenScale,
		of: func(r *ArmRow) *Figure { return &r.LengthRight }, value: func(f *runFacts) float64 { return f.lengthRight }},
	{name: "completion_length_wrong", label: "length of wrong completions", unit: " tokens", scale: tokenScale,
		of: func(r *ArmRow) *Figure { return &r.LengthWrong }, value: func(f *runFacts) float64 { return f.lengthWrong }},
	{name: "initial_completion_length", label: "completion length before training", unit: " tokens", scale: tokenScale,
		of: func(r *ArmRow) *Figure { return &r.InitialLength }, value: func(f *runFacts) float64 { return f.initialLength }},
	{name: "train_reward", label: "training reward", scale: plainScale,
		of: func(r *ArmRow) *Figure { return &r.TrainReward }, value: func(f *runFacts) float64 { return f.trainReward }},
	{name: "train_answer_reward", label: "answer reward in training", scale: rewardScale,
		of: func(r *ArmRow) *Figure { return &r.TrainAnswer }, value: func(f *runFacts) float64 { return f.trainAnswer }},
	{name: "entropy", label: "entropy", unit: " nats a token", scale: plainScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Entropy }, value: func(f *runFacts) float64 { return f.entropy }},
	{name: "grad_norm", label: "gradient norm", scale: plainScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.GradNorm }, value: func(f *runFacts) float64 { return f.gradNorm }},
	{name: "clip_fraction", label: "clip fraction", scale: plainScale,
		of: func(r *ArmRow) *Figure { return &r.ClipFraction }, value: func(f *runFacts) float64 { return f.clipFraction }},
	{name: "updates_per_step", label: "updates a step", scale: plainScale,
		of: func(r *ArmRow) *Figure { return &r.UpdatesPerStep }, value: func(f *runFacts) float64 { return f.updatesPerStep }},
	// wall_s stays out of what is written: see ArmRow.WallS.
	{name: "wall_s", label: "seconds", unit: " s", scale: plainScale,
		of: func(r *ArmRow) *Figure { return &r.WallS }, value: func(f *runFacts) float64 { return f.wall }},
}

// specOf finds a figure by its name, which is in the program's text.
func specOf(name string) *figureSpec {
	for i := range figureSpecs {
		if figureSpecs[i].name == name {
			return &figureSpecs[i]
		}
	}
	panic("report: no figure is called " + name)
}

// resolution is the unit in which the arm's figure is counted; 0 for a mean
// over many tokens.
func (s *figureSpec) resolution(f *armFacts) float64 {
	switch s.scale {
	case rewardScale, signedScale:
		if f.problems > 0 {
			return 1 / float64(f.problems)
		}
	case countScale:
		return 1
	case stepScale:
		return f.evalEvery
	}
	return 0
}

// bounds is the range of the figure.
func (s *figureSpec) bounds(f *armFacts) (least, most float64) {
	switch s.scale {
	case rewardScale:
		return 0, 1
	case countScale:
		if f.problems > 0 {
			return 0, float64(f.problems)
		}
	case signedScale:
		return -1, 1
	}
	if s.name == "train_reward" { // penalties may make it negative
		return math.Inf(-1), math.Inf(1)
	}
	return 0, math.Inf(1)
}

// written says whether the figure is in the tables that are written.
func (s *figureSpec) written() bool { return s.name != "wall_s" }
