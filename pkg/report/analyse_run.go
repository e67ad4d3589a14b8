package report

import (
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// runFacts are the figures of one run; NaN where it has none.
type runFacts struct {
	initial, final, best, greedy, test, unseen, lateGain     float64
	correct, errors, formattedRight, formattedWrong          float64
	unformatted, stepsTo50, stepsTo90, format, initialFormat float64
	length, lengthRight, lengthWrong, initialLength          float64
	trainReward, trainAnswer                                 float64
	entropy, gradNorm, clipFraction, updatesPerStep, wall    float64
	majority                                                 float64

	majorityAnswer string
	problems       int
	steps          int     // that the run makes
	evalEvery      float64 // steps between evaluations; 0 while unknown
}

// factsOf reads a run. What it was before training is known as soon as it is
// evaluated; everything else counts when the run has its result, so that an
// unfinished run is never compared with a finished one. A run that diverged
// has its result: its last evaluation counts.
func factsOf(s sweepdir.RunState) runFacts {
	nan := math.NaN()
	f := runFacts{
		initial: nan, final: nan, best: nan, greedy: nan, test: nan, unseen: nan, lateGain: nan,
		correct: nan, errors: nan, formattedRight: nan, formattedWrong: nan,
		unformatted: nan, stepsTo50: nan, stepsTo90: nan, format: nan, initialFormat: nan,
		length: nan, lengthRight: nan, lengthWrong: nan, initialLength: nan,
		trainReward: nan, trainAnswer: nan, entropy: nan, gradNorm: nan, clipFraction: nan, updatesPerStep: nan, wall: nan, majority: nan,
	}
	r := s.Run
	if r == nil {
		return f
	}
	if r.Status != nil {
		f.steps = r.Status.Steps
	}
	if e := evaluation(r, rundir.SplitVal, before); e != nil {
		f.initial, f.initialFormat, f.initialLength = e.Sampled.AnswerReward, e.Sampled.FormatReward, e.Sampled.Length
		f.majority, f.majorityAnswer, f.problems = e.MajorityBaseline, e.MajorityAnswer, e.Sampled.N
	}
	f.evalEvery = evalInterval(r)
	if res := r.Result; res != nil {
		f.ofResult(r, res)
	}
	return f
}

func (f *runFacts) ofResult(r *rundir.Run, res *rundir.Result) {
	f.steps = res.Steps
	e := res.Final
	c := e.Sampled
	f.majority, f.majorityAnswer, f.problems = e.MajorityBaseline, e.MajorityAnswer, c.N
	f.final, f.best = c.AnswerReward, res.Best.Sampled.AnswerReward
	f.correct, f.errors = float64(c.CorrectNum), float64(c.ErrorNum)
	f.formattedRight, f.formattedWrong = float64(c.FormattedRight), float64(c.FormattedWrong)
	f.unformatted, f.format = float64(c.Unformatted), c.FormatReward
	f.length, f.lengthRight, f.lengthWrong = c.Length, deref(c.LengthRight), deref(c.LengthWrong)
	if e.Greedy != nil {
		f.greedy = e.Greedy.AnswerReward
	}
	if res.Test != nil {
		f.test = res.Test.Sampled.AnswerReward
	}
	if res.Unseen != nil {
		f.unseen = res.Unseen.Sampled.AnswerReward
	}
	f.wall = res.WallS
	f.ofCurve(r)
	f.ofMetrics(r)
}

// lateFrom: an evaluation after so much of the run, and at most three quarters,
// is where its last quarter begins.
const lateFrom = 0.65

// ofCurve reads what needs the validation curve.
func (f *runFacts) ofCurve(r *rundir.Run) {
	curve := evalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
	f.stepsTo50 = reached(curve, 0.5*f.best)
	f.stepsTo90 = reached(curve, 0.9*f.best)
	if len(curve) == 0 {
		return
	}
	end := curve[len(curve)-1]
	for _, p := range curve {
		if lateFrom*end.X <= p.X && p.X <= 0.75*end.X {
			f.lateGain = end.Y - p.Y
		}
	}
}

// ofMetrics averages over the last tenth of the steps made.
func (f *runFacts) ofMetrics(r *rundir.Run) {
	n := len(r.Metrics)
	if n == 0 {
		return
	}
	last := r.Metrics[n-max(1, n/10):]
	average := func(figure func(rundir.Metrics) float64) float64 {
		var x []float64
		for _, m := range last {
			x = append(x, figure(m))
		}
		mean, _, _ := stats.MeanSD(x)
		return mean
	}
	f.trainReward = average(func(m rundir.Metrics) float64 { return m.Reward.Mean })
	f.trainAnswer = average(func(m rundir.Metrics) float64 { return m.AnswerReward })
	f.entropy = average(func(m rundir.Metrics) float64 { return m.Entropy })
	f.gradNorm = average(func(m rundir.Metrics) float64 { return m.GradNorm })
	f.clipFraction = average(func(m rundir.Metrics) float64 { return deref(m.ClipFraction) })
	if end := r.Metrics[n-1]; end.Step > 0 {
		f.updatesPerStep = float64(end.Updates) / float64(end.Step)
	}
}

// reached is the first evaluated step at which the curve is at the level; NaN
// where it was there before training, or nowhere.
func reached(curve series, level float64) float64 {
	for _, p := range curve {
		if p.Y >= level {
			if p.X == 0 {
				break
			}
			return p.X
		}
	}
	return math.NaN()
}

// evalInterval is the widest gap between validations.
func evalInterval(r *rundir.Run) float64 {
	gap, at := 0, 0
	for _, e := range evalsOf(r, rundir.SplitVal) {
		gap, at = max(gap, e.Step-at), e.Step
	}
	return float64(gap)
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
