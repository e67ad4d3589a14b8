package analysis

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

// Metric is a quantity of a run, summed up over the seeds of an arm. One
// declaration makes its columns in results.csv and grpo compare, its key in
// results.json, and its comparison; armtable.go chooses the columns of the others.
type Metric struct {
	index int    // in [metrics]
	Name  string // JSON name, and column of results.csv
	Label string // in words
	unit  string // after a number, with its space
	scale scale
	read  func(*runFacts) float64 // its value of a run
	// compared: verdicts compare the arms in this metric.
	compared bool
	// Timed: it depends on the machine, so it is not in the written tables, which
	// are the same bytes for the same runs.
	Timed bool
}

// The metrics, in the order of the tables. Where a run does not have one, it is
// NaN.
var (
	// The sampled validation answer reward before training, after the last step, and
	// at the best step, which the same problems chose.
	InitialMetric = declare(Metric{Name: "initial", Label: "validation reward before training", scale: rewardScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })})
	FinalMetric = declare(Metric{Name: "final", Label: "final validation reward", scale: rewardScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.AnswerReward })})
	BestMetric = declare(Metric{Name: "best", Label: "best validation reward", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return r.Best.Sampled.AnswerReward })})

	// After the last step, with greedy decoding.
	GreedyMetric = declare(Metric{Name: "greedy", Label: "greedy validation reward", scale: rewardScale, compared: true,
		read: ofResult(func(r *rundir.Result) float64 {
			if r.Final.Greedy == nil {
				return math.NaN()
			}
			return r.Final.Greedy.AnswerReward
		})})

	// Sampled, read once at the end.
	TestMetric = declare(Metric{Name: "test", Label: "test reward", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Test) })})
	UnseenMetric = declare(Metric{Name: "unseen", Label: "reward on unseen facts", scale: rewardScale,
		read: ofResult(func(r *rundir.Result) float64 { return sampledReward(r.Unseen) })})

	// The final reward minus that at the last evaluation between 65% and 75% of the
	// steps made: above 0 where a run still rises. NaN without such an evaluation.
	LateGainMetric = declare(Metric{Name: "late_gain", Label: "gain over the last quarter", scale: signedScale,
		read: (*runFacts).lateGain})

	// Counts of the last sampled validation.
	CorrectMetric = declare(Metric{Name: "correct_num", Label: "correct", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.CorrectNum) })})
	ErrorMetric = declare(Metric{Name: "error_num", Label: "errors", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.ErrorNum) })})
	FormattedRightMetric = declare(Metric{Name: "formatted_right", Label: "formatted and right", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedRight) })})
	FormattedWrongMetric = declare(Metric{Name: "formatted_wrong", Label: "formatted and wrong", scale: countScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.FormattedWrong) })})
	UnformattedMetric = declare(Metric{Name: "unformatted", Label: "unformatted completions", scale: countScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return float64(c.Unformatted) })})

	// The first evaluated steps at which the sampled validation reward reached that
	// share of the run's own best; NaN where the base level was there already.
	StepsTo50Metric = declare(Metric{Name: "steps_to_50", Label: "steps to 50% of the best", unit: " steps", scale: stepScale,
		read: func(f *runFacts) float64 { return f.stepsTo(0.5) }})
	StepsTo90Metric = declare(Metric{Name: "steps_to_90", Label: "steps to 90% of the best", unit: " steps", scale: stepScale, compared: true,
		read: func(f *runFacts) float64 { return f.stepsTo(0.9) }})

	// The formatted share of the last sampled validation, and before training.
	FormatMetric = declare(Metric{Name: "format_reward", Label: "formatted share", scale: rewardScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.FormatReward })})
	InitialFormatMetric = declare(Metric{Name: "initial_format_reward", Label: "formatted share before training", scale: rewardScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.FormatReward })})

	// Of the last sampled validation, and before training, in tokens.
	LengthMetric = declare(Metric{Name: "completion_length", Label: "completion length", unit: " tokens", scale: tokenScale, compared: true,
		read: lastValidation(func(c *rundir.Counts) float64 { return c.Length })})
	LengthRightMetric = declare(Metric{Name: "completion_length_right", Label: "length of right completions", unit: " tokens", scale: tokenScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthRight) })})
	LengthWrongMetric = declare(Metric{Name: "completion_length_wrong", Label: "length of wrong completions", unit: " tokens", scale: tokenScale,
		read: lastValidation(func(c *rundir.Counts) float64 { return deref(c.LengthWrong) })})
	InitialLengthMetric = declare(Metric{Name: "initial_completion_length", Label: "completion length before training", unit: " tokens", scale: tokenScale,
		read: firstValidation(func(c *rundir.Counts) float64 { return c.Length })})

	// Means over the last tenth of the training steps made (at least one). The
	// training reward is what was trained on, the answer reward that of the same
	// completions.
	TrainRewardMetric = declare(Metric{Name: "train_reward", Label: "training reward", scale: freeScale, // penalties may make it negative
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Reward.Mean })})
	TrainAnswerMetric = declare(Metric{Name: "train_answer_reward", Label: "answer reward in training", scale: rewardScale,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.AnswerReward })})
	EntropyMetric = declare(Metric{Name: "entropy", Label: "entropy", unit: " nats a token", scale: plainScale, compared: true,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.Entropy })})
	GradNormMetric = declare(Metric{Name: "grad_norm", Label: "gradient norm", scale: plainScale, compared: true,
		read: lastSteps(func(m *rundir.Metrics) float64 { return m.GradNorm })})

	// Does not exist on-policy and without a clip.
	ClipFractionMetric = declare(Metric{Name: "clip_fraction", Label: "clip fraction", scale: plainScale,
		read: lastSteps(func(m *rundir.Metrics) float64 { return deref(m.ClipFraction) })})

	// Above 1 where a rollout is used for several updates.
	UpdatesPerStepMetric = declare(Metric{Name: "updates_per_step", Label: "updates a step", scale: plainScale,
		read: (*runFacts).updatesPerStep})
	WallMetric = declare(Metric{Name: "wall_s", Label: "seconds", unit: " s", scale: plainScale, Timed: true,
		read: ofResult(func(r *rundir.Result) float64 { return r.WallS })})
)

// metrics are all metrics that were declared, in their order.
var Metrics []*Metric

func declare(m Metric) *Metric {
	m.index = len(Metrics)
	Metrics = append(Metrics, &m)
	return &m
}

// MetricOf finds a metric by its name, which is a constant of the program.
func MetricOf(name string) *Metric {
	for _, m := range Metrics {
		if m.Name == name {
			return m
		}
	}
	panic("report: no metric is called " + name)
}

// resolution is the unit in which the arm's metric is counted; 0 for a mean over
// many tokens.
func (m *Metric) resolution(f *armFacts) float64 {
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
func (m *Metric) bounds(f *armFacts) (least, most float64) {
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
func (m *Metric) summarize(f *armFacts) Summary {
	values := make([]float64, len(f.runs))
	for i := range f.runs {
		if values[i] = m.read(&f.runs[i]); !stats.IsFinite(values[i]) {
			values[i] = math.NaN()
		}
	}
	least, most := m.bounds(f)
	return NewSummary(values, m.resolution(f), least, most)
}
