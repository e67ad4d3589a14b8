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

// metric is a quantity of a run, summed up over the seeds of an arm. One
// declaration makes its columns in results.csv and grpo compare, its key in
// results.json, and its comparison; armtable.go chooses the columns of the others.
type metric struct {
	index int    // in [metrics]
	name  string // JSON name, and column of results.csv
	label string // in words
	unit  string // after a number, with its space
	scale scale
	read  func(*runFacts) float64 // its value of a run
	// compared: verdicts compare the arms in this metric.
	compared bool
	// timed: it depends on the machine, so it is not in the written tables, which
	// are the same bytes for the same runs.
	timed bool
}

// The metrics, in the order of the tables. Where a run does not have one, it is
// NaN.
var (
	// The sampled validation answer reward before training, after the last step, and
	// at the best step, which the same problems chose.
	initialMetric = declare(metric{name: "initial", label: "validation reward before training", scale: rewardScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })})
	finalMetric = declare(metric{name: "final", label: "final validation reward", scale: rewardScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })})
	bestMetric = declare(metric{name: "best", label: "best validation reward", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return r.Best.Sampled.AnswerReward })})

	// After the last step, with greedy decoding.
	greedyMetric = declare(metric{name: "greedy", label: "greedy validation reward", scale: rewardScale, compared: true,
		read: ofResult(func(r *rundir.Result) float64 {
			if r.Final.Greedy == nil {
				return math.NaN()
			}
			return r.Final.Greedy.AnswerReward
		})})

	// Sampled, read once at the end.
	testMetric = declare(metric{name: "test", label: "test reward", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Test) })})
	unseenMetric = declare(metric{name: "unseen", label: "reward on unseen facts", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Unseen) })})

	// The final reward minus that at the last evaluation between 65% and 75% of the
	// steps made: above 0 where a run still rises. NaN without such an evaluation.
	lateGainMetric = declare(metric{name: "late_gain", label: "gain over the last quarter", scale: signedScale,
		read: (*runFacts).lateGain})

	// Counts of the last sampled validation.
	correctMetric = declare(metric{name: "correct_num", label: "correct", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.CorrectNum) })})
	errorMetric = declare(metric{name: "error_num", label: "errors", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.ErrorNum) })})
	formattedRightMetric = declare(metric{name: "formatted_right", label: "formatted and right", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedRight) })})
	formattedWrongMetric = declare(metric{name: "formatted_wrong", label: "formatted and wrong", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedWrong) })})
	unformattedMetric = declare(metric{name: "unformatted", label: "unformatted completions", scale: countScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.Unformatted) })})

	// The first evaluated steps at which the sampled validation reward reached that
	// share of the run's own best; NaN where the base level was there already.
	stepsTo50Metric = declare(metric{name: "steps_to_50", label: "steps to 50% of the best", unit: " steps", scale: stepScale,
		read: func(f *runFacts) float64 { return f.stepsTo(0.5) }})
	stepsTo90Metric = declare(metric{name: "steps_to_90", label: "steps to 90% of the best", unit: " steps", scale: stepScale, compared: true,
		read: func(f *runFacts) float64 { return f.stepsTo(0.9) }})

	// The formatted share of the last sampled validation, and before training.
	formatMetric = declare(metric{name: "format_reward", label: "formatted share", scale: rewardScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.FormatReward })})
	initialFormatMetric = declare(metric{name: "initial_format_reward", label: "formatted share before training", scale: rewardScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.FormatReward })})

	// Of the last sampled validation, and before training, in tokens.
	lengthMetric = declare(metric{name: "completion_length", label: "completion length", unit: " tokens", scale: tokenScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.Length })})
	lengthRightMetric = declare(metric{name: "completion_length_right", label: "length of right completions", unit: " tokens", scale: tokenScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthRight) })})
	lengthWrongMetric = declare(metric{name: "completion_length_wrong", label: "length of wrong completions", unit: " tokens", scale: tokenScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthWrong) })})
	initialLengthMetric = declare(metric{name: "initial_completion_length", label: "completion length before training", unit: " tokens", scale: tokenScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.Length })})

	// Means over the last tenth of the training steps made (at least one). The
	// training reward is what was trained on, the answer reward that of the same
	// completions.
	trainRewardMetric = declare(metric{name: "train_reward", label: "training reward", scale: freeScale, // penalties may make it negative
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Reward.Mean })})
	trainAnswerMetric = declare(metric{name: "train_answer_reward", label: "answer reward in training", scale: rewardScale,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.AnswerReward })})
	entropyMetric = declare(metric{name: "entropy", label: "entropy", unit: " nats a token", scale: plainScale, compared: true,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Entropy })})
	gradNormMetric = declare(metric{name: "grad_norm", label: "gradient norm", scale: plainScale, compared: true,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.GradNorm })})

	// Does not exist on-policy and without a clip.
	clipFractionMetric = declare(metric{name: "clip_fraction", label: "clip fraction", scale: plainScale,
		read: lastSteps(func(m *rundir.Metrics) float64 { return deref(m.ClipFraction) })})

	// Above 1 where a rollout is used for several updates.
	updatesPerStepMetric = declare(metric{name: "updates_per_step", label: "updates a step", scale: plainScale,
		read: (*runFacts).updatesPerStep})
	wallMetric = declare(metric{name: "wall_s", label: "seconds", unit: " s", scale: plainScale, timed: true,
		read: ofResult(func(r *rundir.Result) float64 { return r.WallS })})
)

// metrics are all metrics that were declared, in their order.
var metrics []*metric

func declare(m metric) *metric {
	m.index = len(metrics)
	metrics = append(metrics, &m)
	return &m
}

// metricOf finds a metric by its name, which is a constant of the program.
func metricOf(name string) *metric {
	for _, m := range metrics {
		if m.name == name {
			return m
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
