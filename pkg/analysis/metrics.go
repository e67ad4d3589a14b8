package analysis

import (
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// scale is the unit and the range of a metric.
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

// Metric is a quantity of a run, summed up over the seeds of an arm. One declaration
// makes its columns in results.csv and grpo compare, its key in results.json, and
// its comparison.
type Metric struct {
	index    int    // in Metrics
	Name     string // JSON name, and column of results.csv
	Label    string // for people
	scale    scale
	unit     string // after a number, with its space
	reader          // its value of a run
	Timed    bool   // it depends on the machine, so it is not in the written tables
	compared bool   // verdicts compare the arms in this metric
}

type (
	counts = rundir.Counts
	// reader reads a metric of a run.
	reader struct {
		value  func(*runFacts) float64 // NaN where there is none
		counts func(*runFacts) *counts // of the evaluation that it is of; nil where it is of none
	}
)

// The decoding modes.
const (
	sampled = rundir.DecodingSampled
	greedy  = rundir.DecodingGreedy
)

// Metrics are all metrics, in the order of the tables.
var Metrics []*Metric

func declare(name, label string, scale scale, unit string, read reader) *Metric {
	m := &Metric{index: len(Metrics), Name: name, Label: label, scale: scale, unit: unit, reader: read}
	Metrics = append(Metrics, m)
	return m
}

// compared declares a metric in which verdicts compare the arms.
func compared(name, label string, scale scale, unit string, read reader) *Metric {
	m := declare(name, label, scale, unit, read)
	m.compared = true
	return m
}

var (
	// The sampled validation answer reward before training, after the last step, and
	// at the best step, which the same problems chose.
	InitialMetric = declare("initial", "validation reward before training", rewardScale, "", before(sampled, answerReward))
	FinalMetric   = compared("final", "final validation reward", rewardScale, "", after(sampled, answerReward))
	BestMetric    = declare("best", "best validation reward", rewardScale, "",
		ofEvaluation(atBest, answerReward))

	// After the last step, with greedy decoding.
	GreedyMetric = compared("greedy", "greedy validation reward", rewardScale, "", after(greedy, answerReward))

	// Sampled, once at the end.
	TestMetric = declare("test", "test reward", rewardScale, "",
		ofEvaluation(func(r *rundir.Result) *counts { return DecodedCounts(r.Test, sampled) }, answerReward))
	UnseenMetric = declare("unseen", "reward on unseen facts", rewardScale, "",
		ofEvaluation(func(r *rundir.Result) *counts { return DecodedCounts(r.Unseen, sampled) }, answerReward))

	// The final reward minus that at the last evaluation between 65% and 75% of the
	// steps made: above 0 where a run still rises. NaN without such an evaluation.
	LateGainMetric = declare("late_gain", "gain over the last quarter", signedScale, "",
		reader{(*runFacts).lateGain, ofEvaluation(atBest, answerReward).counts})

	// Counts of the last sampled validation.
	CorrectMetric        = declare("correct_num", "correct", countScale, "", after(sampled, correctNum))
	ErrorMetric          = declare("error_num", "errors", countScale, "", after(sampled, errorNum))
	FormattedRightMetric = declare("formatted_right", "formatted and right", countScale, "", after(sampled, formattedRight))
	FormattedWrongMetric = declare("formatted_wrong", "formatted and wrong", countScale, "", after(sampled, formattedWrong))
	UnformattedMetric    = compared("unformatted", "unformatted completions", countScale, "", after(sampled, unformatted))

	// The first evaluated steps at which the sampled validation reward reached that
	// share of the run's own best; NaN where the base level was there already.
	StepsTo50Metric = declare("steps_to_50", "steps to 50% of the best", stepScale, " steps",
		ofRun(func(f *runFacts) float64 { return f.stepsTo(0.5) }))
	StepsTo90Metric = compared("steps_to_90", "steps to 90% of the best", stepScale, " steps",
		ofRun(func(f *runFacts) float64 { return f.stepsTo(0.9) }))

	// The formatted share of the last sampled validation, and before training.
	FormatMetric        = declare("format_reward", "formatted share", rewardScale, "", after(sampled, formatReward))
	InitialFormatMetric = declare("initial_format_reward", "formatted share before training", rewardScale, "",
		before(sampled, formatReward))

	// The same of greedy decoding.
	InitialGreedyMetric = declare("initial_greedy", "greedy validation reward before training", rewardScale, "",
		before(greedy, answerReward))
	InitialGreedyFormatMetric = declare("initial_greedy_format_reward", "greedy formatted share before training",
		rewardScale, "", before(greedy, formatReward))
	GreedyFormatMetric = declare("greedy_format_reward", "greedy formatted share", rewardScale, "",
		after(greedy, formatReward))

	// The parts of the gain in validation reward: see GainOf.
	GainByFormatMetric       = declare("gain_by_format", "gain by format", signedScale, "", gain(sampled, byFormat))
	GainByAnswersMetric      = declare("gain_by_answers", "gain by answers", signedScale, "", gain(sampled, byAnswers))
	GreedyGainByFormatMetric = declare("greedy_gain_by_format", "greedy gain by format", signedScale, "",
		gain(greedy, byFormat))
	GreedyGainByAnswersMetric = declare("greedy_gain_by_answers", "greedy gain by answers", signedScale, "",
		gain(greedy, byAnswers))

	// Of the last sampled validation, and before training.
	LengthMetric = compared("completion_length", "completion length", tokenScale, " tokens",
		after(sampled, completionLength))
	LengthRightMetric = declare("completion_length_right", "length of right completions", tokenScale, " tokens",
		after(sampled, func(c *counts) float64 { return deref(c.LengthRight) }))
	LengthWrongMetric = declare("completion_length_wrong", "length of wrong completions", tokenScale, " tokens",
		after(sampled, func(c *counts) float64 { return deref(c.LengthWrong) }))
	InitialLengthMetric = declare("initial_completion_length", "completion length before training", tokenScale,
		" tokens", before(sampled, completionLength))

	// Means over the last tenth of the training steps made (at least one). The
	// training reward is what was trained on (penalties may make it negative), the
	// answer reward that of the same completions.
	TrainRewardMetric = declare("train_reward", "training reward", freeScale, "",
		lastSteps(func(m *rundir.Metrics) float64 { return m.Reward.Mean }))
	TrainAnswerMetric = declare("train_answer_reward", "answer reward in training", rewardScale, "",
		lastSteps(func(m *rundir.Metrics) float64 { return m.AnswerReward }))
	EntropyMetric = compared("entropy", "entropy", plainScale, " nats a token",
		lastSteps(func(m *rundir.Metrics) float64 { return m.Entropy }))
	GradNormMetric = compared("grad_norm", "gradient norm", plainScale, "",
		lastSteps(func(m *rundir.Metrics) float64 { return m.GradNorm }))

	// Does not exist on-policy and without a clip.
	ClipFractionMetric = declare("clip_fraction", "clip fraction", plainScale, "",
		lastSteps(func(m *rundir.Metrics) float64 { return deref(m.ClipFraction) }))

	// The largest difference of a token's log-probability between the sampler and the
	// forward pass of the same weights, over all steps: 0 on the CPU.
	SamplerDiffMetric = declare("sampler_logprob_max_diff", "largest difference between sampler and learner",
		plainScale, " nats", ofRun(func(f *runFacts) float64 { return f.samplerDiff }))

	// Above 1 where a rollout is used for several updates.
	UpdatesPerStepMetric = declare("updates_per_step", "updates a step", plainScale, "",
		ofRun((*runFacts).updatesPerStep))

	// The mean of eval.reward over the last sampled validation, and before training; NaN without.
	ScoreMetric        = compared("score", "mean of eval.reward", freeScale, "", after(sampled, score))
	InitialScoreMetric = declare("initial_score", "mean of eval.reward before training", freeScale, "",
		before(sampled, score))

	WallMetric = timed(declare("wall_s", "seconds", plainScale, " s",
		ofResult(func(r *rundir.Result) float64 { return r.WallS })))
)

func timed(m *Metric) *Metric {
	m.Timed = true
	return m
}

// MetricOf finds a metric by its name, which is a constant of the program.
func MetricOf(name string) *Metric {
	for _, m := range Metrics {
		if m.Name == name {
			return m
		}
	}
	panic("analysis: no metric " + name)
}

// resolution is the unit in which an arm's metric is counted; 0 for a mean over many tokens. completions
// are those of the evaluation and evalEvery the arm's, 0 while unknown.
func (s scale) resolution(completions int, evalEvery float64) float64 {
	switch s {
	case rewardScale, signedScale:
		if completions > 0 {
			return 1 / float64(completions)
		}
	case countScale:
		return 1
	case stepScale:
		return evalEvery
	}
	return 0
}

// resolution is that of the metric's scale for an arm.
func (m *Metric) resolution(r *ArmResult) float64 {
	return m.scale.resolution(r.Completions(m), r.evalEvery)
}

// Completions is the number of completions of a run that a metric is a share or a count of: one for each
// problem, or several (eval.final_samples). 0 while unknown.
func (r *ArmResult) Completions(m *Metric) int {
	if m.counts == nil {
		return r.Problems
	}
	n := 0
	for i := range r.facts {
		if c := m.counts(&r.facts[i]); c != nil {
			n = max(n, c.N)
		}
	}
	return n
}

// bounds is the range of a metric; completions is 0 while unknown.
func (s scale) bounds(completions int) (least, most float64) {
	switch s {
	case rewardScale:
		return 0, 1
	case countScale:
		if completions > 0 {
			return 0, float64(completions)
		}
	case signedScale:
		return -1, 1
	case freeScale:
		return math.Inf(-1), math.Inf(1)
	}
	return 0, math.Inf(1)
}

// summarize is the metric over the runs of an arm.
func (m *Metric) summarize(r *ArmResult) Summary {
	values := make([]float64, len(r.facts))
	for i := range r.facts {
		if values[i] = m.value(&r.facts[i]); !stats.IsFinite(values[i]) {
			values[i] = math.NaN()
		}
	}
	least, most := m.scale.bounds(r.Completions(m))
	return NewSummary(values, m.resolution(r), least, most)
}
