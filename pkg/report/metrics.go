package report

import (
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// scale says in which unit a metric is counted and in which range it lies.
type scale int

const (
	rewardScale scale = iota // a share of the problems, in [0, 1]
	countScale               // problems
	stepScale                // steps
	tokenScale               // tokens
	plainScale               // not negative, without a unit of its own
	signedScale              // a difference of shares, in [-1, 1]
	freeScale                // any number
)

// metric is a quantity of a run, summed up over the seeds of an arm. Its entry in
// [metrics] makes its columns in every table, its place in results.csv and its
// comparison.
type metric struct {
	name  string // JSON name, and column of results.csv
	label string // in words
	unit  string // after a number, with its space
	scale scale
	of    func(*ArmRow) *Figure // its field of an arm
	read  func(*runFacts) float64
	// compared: verdicts compare the arms in this metric.
	compared bool
	// timed: it depends on the machine, so it is not in the written tables, which
	// are the same bytes for the same runs.
	timed bool
}

// metrics are all metrics in the order of the tables. Where a run does not have
// one, it is NaN.
var metrics = []metric{
	{name: "initial", label: "validation reward before training", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.Initial },
		read: firstValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })},
	{name: "final", label: "final validation reward", scale: rewardScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.Final },
		read: lastValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })},
	{name: "best", label: "best validation reward", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.Best },
		read: ofResult(func(r *rundir.Result) float64 { return r.Best.Sampled.AnswerReward })},
	{name: "greedy", label: "greedy validation reward", scale: rewardScale, compared: true,
		of: func(r *ArmRow) *Figure { return &r.Greedy },
		read: ofResult(func(r *rundir.Result) float64 {
			if r.Final.Greedy == nil {
				return math.NaN()
			}
			return r.Final.Greedy.AnswerReward
		})},
	{name: "test", label: "test reward", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.Test },
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Test) })},
	{name: "unseen", label: "reward on unseen facts", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.Unseen },
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Unseen) })},
	{name: "late_gain", label: "gain over the last quarter", scale: signedScale,
		of: func(r *ArmRow) *Figure { return &r.LateGain }, read: (*runFacts).lateGain},
	{name: "correct_num", label: "correct", scale: countScale,
		of:   func(r *ArmRow) *Figure { return &r.Correct },
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.CorrectNum) })},
	{name: "error_num", label: "errors", scale: countScale,
		of:   func(r *ArmRow) *Figure { return &r.Errors },
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.ErrorNum) })},
	{name: "formatted_right", label: "formatted and right", scale: countScale,
		of:   func(r *ArmRow) *Figure { return &r.FormattedRight },
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedRight) })},
	{name: "formatted_wrong", label: "formatted and wrong", scale: countScale,
		of:   func(r *ArmRow) *Figure { return &r.FormattedWrong },
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedWrong) })},
	{name: "unformatted", label: "unformatted completions", scale: countScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.Unformatted },
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.Unformatted) })},
	{name: "steps_to_50", label: "steps to 50% of the best", unit: " steps", scale: stepScale,
		of:   func(r *ArmRow) *Figure { return &r.StepsTo50 },
		read: func(f *runFacts) float64 { return f.stepsTo(0.5) }},
	{name: "steps_to_90", label: "steps to 90% of the best", unit: " steps", scale: stepScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.StepsTo90 },
		read: func(f *runFacts) float64 { return f.stepsTo(0.9) }},
	{name: "format_reward", label: "formatted share", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.FormatReward },
		read: lastValidation(func(c *rundir.Counts) float64 { return c.FormatReward })},
	{name: "initial_format_reward", label: "formatted share before training", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.InitialFormat },
		read: firstValidation(func(c *rundir.Counts) float64 { return c.FormatReward })},
	{name: "completion_length", label: "completion length", unit: " tokens", scale: tokenScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.Length },
		read: lastValidation(func(c *rundir.Counts) float64 { return c.Length })},
	{name: "completion_length_right", label: "length of right completions", unit: " tokens", scale: tokenScale,
		of:   func(r *ArmRow) *Figure { return &r.LengthRight },
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthRight) })},
	{name: "completion_length_wrong", label: "length of wrong completions", unit: " tokens", scale: tokenScale,
		of:   func(r *ArmRow) *Figure { return &r.LengthWrong },
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthWrong) })},
	{name: "initial_completion_length", label: "completion length before training", unit: " tokens", scale: tokenScale,
		of:   func(r *ArmRow) *Figure { return &r.InitialLength },
		read: firstValidation(func(c *rundir.Counts) float64 { return c.Length })},
	{name: "train_reward", label: "training reward", scale: freeScale, // penalties may make it negative
		of:   func(r *ArmRow) *Figure { return &r.TrainReward },
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Reward.Mean })},
	{name: "train_answer_reward", label: "answer reward in training", scale: rewardScale,
		of:   func(r *ArmRow) *Figure { return &r.TrainAnswer },
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.AnswerReward })},
	{name: "entropy", label: "entropy", unit: " nats a token", scale: plainScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.Entropy },
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Entropy })},
	{name: "grad_norm", label: "gradient norm", scale: plainScale, compared: true,
		of:   func(r *ArmRow) *Figure { return &r.GradNorm },
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.GradNorm })},
	{name: "clip_fraction", label: "clip fraction", scale: plainScale,
		of:   func(r *ArmRow) *Figure { return &r.ClipFraction },
		read: lastSteps(func(m *rundir.Metrics) float64 { return deref(m.ClipFraction) })},
	{name: "updates_per_step", label: "updates a step", scale: plainScale,
		of: func(r *ArmRow) *Figure { return &r.UpdatesPerStep }, read: (*runFacts).updatesPerStep},
	{name: "wall_s", label: "seconds", unit: " s", scale: plainScale, timed: true,
		of:   func(r *ArmRow) *Figure { return &r.WallS },
		read: ofResult(func(r *rundir.Result) float64 { return r.WallS })},
}

// metricOf finds a metric by its name, which is a constant of the program.
func metricOf(name string) *metric {
	for i := range metrics {
		if metrics[i].name == name {
			return &metrics[i]
		}
	}
	panic("report: no metric is called " + name)
}

// resolution is the unit in which the arm's metric is counted; 0 for a mean over
// many tokens.
func (m *metric) resolution(f *armFacts) float64 {
	switch m.scale {
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

// bounds is the range of the metric.
func (m *metric) bounds(f *armFacts) (least, most float64) {
	switch m.scale {
	case rewardScale:
		return 0, 1
	case countScale:
		if f.problems > 0 {
			return 0, float64(f.problems)
		}
	case signedScale:
		return -1, 1
	case freeScale:
		return math.Inf(-1), math.Inf(1)
	}
	return 0, math.Inf(1)
}

// sumUp is the metric over the runs of an arm.
func (m *metric) sumUp(f *armFacts) Figure {
	values := make([]float64, len(f.runs))
	for i := range f.runs {
		if values[i] = m.read(&f.runs[i]); !stats.IsFinite(values[i]) {
			values[i] = math.NaN()
		}
	}
	least, most := m.bounds(f)
	return newFigure(values, m.resolution(f), least, most)
}
