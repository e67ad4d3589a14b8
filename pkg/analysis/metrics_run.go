package analysis

import (
	"cmp"
	"math"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// runFacts is what the metrics of a run are read from. What a run was before
// training is known as soon as it is evaluated; everything else counts when the
// run has its result, so that an unfinished run is never compared with a finished
// one. A run that diverged has its result: its last evaluation counts.
type runFacts struct {
	first  *rundir.Eval   // validation before training; nil while unknown
	result *rundir.Result // nil while the run has none
	curve  Series         // sampled validation reward against the step, of a run with a result
	// lastMetrics are those of the last tenth of the training steps made (at least
	// one), of a run with a result.
	lastMetrics []rundir.Metrics
	samplerDiff float64 // see [LargestSamplerDiff], of a run with a result

	majority       float64 // the majority-answer baseline; NaN while unknown
	majorityAnswer string
	problems       int     // size of the validation set of the final reward; 0 while unknown
	steps          int     // that the run makes; 0 while unknown
	evalEvery      float64 // steps between evaluations; 0 while unknown
}

// factsOf reads a run.
func factsOf(s sweepdir.RunState) runFacts {
	f := runFacts{majority: math.NaN(), samplerDiff: math.NaN()}
	r := s.Run
	if r == nil {
		return f
	}
	if r.Status != nil {
		f.steps = r.Status.Steps
	}
	validation := func(e *rundir.Eval) {
		f.problems = e.Problems()
		if e.MajorityAnswer != "" {
			f.majority, f.majorityAnswer = e.MajorityBaseline, e.MajorityAnswer
		}
	}
	// The problems of the final reward, which an unfinished run has too.
	f.first = cmp.Or(Evaluation(r, rundir.SplitFinal, AtStart), Evaluation(r, rundir.SplitVal, AtStart))
	if f.first != nil {
		validation(f.first)
	}
	f.evalEvery = evalInterval(r)
	if f.result = r.Result; f.result != nil {
		f.steps = f.result.Steps
		validation(&f.result.Final)
		f.curve = EvalSeries(r, rundir.SplitVal, rundir.DecodingSampled)
		if n := len(r.Metrics); n > 0 {
			f.lastMetrics = r.Metrics[n-max(1, n/10):]
			f.samplerDiff = LargestSamplerDiff(r)
		}
	}
	return f
}

// LargestSamplerDiff is the largest sampler_logprob_max_diff of a run's steps; NaN if no
// step has one.
func LargestSamplerDiff(r *rundir.Run) float64 {
	largest := math.NaN()
	for _, m := range r.Metrics {
		if d := m.SamplerDiff; d != nil && !(*d <= largest) {
			largest = *d
		}
	}
	return largest
}

// ofRun reads what is not of one evaluation.
func ofRun(of func(*runFacts) float64) reader { return reader{value: of} }

// ofResult reads the result of a run.
func ofResult(of func(*rundir.Result) float64) reader {
	return ofRun(func(f *runFacts) float64 {
		if f.result == nil {
			return math.NaN()
		}
		return of(f.result)
	})
}

// ofCounts reads the counts of an evaluation.
func ofCounts(find func(*runFacts) *counts, of func(*counts) float64) reader {
	return reader{func(f *runFacts) float64 { return countsValue(find(f), of) }, find}
}

// ofEvaluation reads an evaluation of a run with a result.
func ofEvaluation(find func(*rundir.Result) *counts, of func(*counts) float64) reader {
	return ofCounts(func(f *runFacts) *counts {
		if f.result == nil {
			return nil
		}
		return find(f.result)
	}, of)
}

// before reads the validation before training.
func before(decoding string, of func(*counts) float64) reader {
	return ofCounts(func(f *runFacts) *counts { return DecodedCounts(f.first, decoding) }, of)
}

// after reads the last validation of a run with a result.
func after(decoding string, of func(*counts) float64) reader {
	return ofEvaluation(func(r *rundir.Result) *counts { return DecodedCounts(&r.Final, decoding) }, of)
}

func atBest(r *rundir.Result) *counts { return &r.Best.Sampled }

// countsValue is NaN for a decoding that was not made.
func countsValue(c *counts, of func(*counts) float64) float64 {
	if c == nil {
		return math.NaN()
	}
	return of(c)
}

func answerReward(c *counts) float64     { return c.AnswerReward }
func score(c *counts) float64            { return deref(c.Score) }
func formatReward(c *counts) float64     { return c.FormatReward }
func correctNum(c *counts) float64       { return float64(c.CorrectNum) }
func errorNum(c *counts) float64         { return float64(c.ErrorNum) }
func formattedRight(c *counts) float64   { return float64(c.FormattedRight) }
func formattedWrong(c *counts) float64   { return float64(c.FormattedWrong) }
func unformatted(c *counts) float64      { return float64(c.Unformatted) }
func completionLength(c *counts) float64 { return c.Length }

// lastSteps averages over the last tenth of the training steps.
func lastSteps(of func(*rundir.Metrics) float64) reader {
	return ofRun(func(f *runFacts) float64 {
		var x []float64
		for i := range f.lastMetrics {
			x = append(x, of(&f.lastMetrics[i]))
		}
		return stats.Mean(x)
	})
}

// updatesPerStep is the mean number of optimizer updates per training step.
func (f *runFacts) updatesPerStep() float64 {
	if n := len(f.lastMetrics); n > 0 {
		if end := f.lastMetrics[n-1]; end.Step > 0 {
			return float64(end.Updates) / float64(end.Step)
		}
	}
	return math.NaN()
}

// lateFrom: the last quarter of a run begins at an evaluation after this share of
// its steps, and at most three quarters.
const lateFrom = 0.65

// lateGain is the final reward minus that at the start of the last quarter; NaN
// without an evaluation there.
func (f *runFacts) lateGain() float64 {
	gain := math.NaN()
	if len(f.curve) == 0 {
		return gain
	}
	end := f.curve[len(f.curve)-1]
	for _, p := range f.curve {
		if lateFrom*end.X <= p.X && p.X <= 0.75*end.X {
			gain = end.Y - p.Y
		}
	}
	return gain
}

// stepsTo is the first evaluated step at which the reward reached this share of
// the run's best; NaN where it was there before training, or nowhere.
func (f *runFacts) stepsTo(share float64) float64 {
	if f.result == nil {
		return math.NaN()
	}
	level := share * f.result.Best.Sampled.AnswerReward
	for _, p := range f.curve {
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
	for _, e := range EvalsOf(r, rundir.SplitVal) {
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
