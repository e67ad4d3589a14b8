package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// EvalPoint is when a split was evaluated.
type EvalPoint string

const (
	AtStart EvalPoint = "before" // before the first step
	AtEnd   EvalPoint = "after"  // after the last step so far
	AtBest  EvalPoint = "best"   // after the step with the best sampled validation reward
)

// Evaluation finds an evaluation of a split, nil when there is none. result.json
// comes first; eval.jsonl has the rest, and everything of an unfinished run.
func Evaluation(r *rundir.Run, split string, when EvalPoint) *rundir.Eval {
	if e := fromResult(r.Result, split, when); e != nil && e.Sampled.N > 0 {
		return e
	}
	lines := EvalsOf(r, split)
	n := len(lines)
	switch {
	case n == 0:
	case when == AtStart && lines[0].Step == 0:
		return &lines[0]
	case when == AtEnd && lines[n-1].Step > 0:
		return &lines[n-1]
	case when == AtBest:
		// The validation problems choose the best step, for the other splits too.
		best := bestValidation(r)
		i := slices.IndexFunc(lines, func(e rundir.Eval) bool { return best != nil && e.Step == best.Step })
		if i >= 0 {
			return &lines[i]
		}
	}
	return nil
}

func fromResult(res *rundir.Result, split string, when EvalPoint) *rundir.Eval {
	if res == nil {
		return nil
	}
	type point struct {
		split string
		when  EvalPoint
	}
	for i := range res.Sets {
		switch s := &res.Sets[i]; {
		case s.Name != split:
		case when == AtStart:
			return &s.Initial
		case when == AtEnd && s.Final.Step > 0:
			return &s.Final
		}
	}
	return map[point]*rundir.Eval{
		{rundir.SplitVal, AtStart}:  &res.Initial,
		{rundir.SplitVal, AtEnd}:    &res.Final,
		{rundir.SplitVal, AtBest}:   &res.Best,
		{rundir.SplitUnseen, AtEnd}: res.Unseen,
		{rundir.SplitTest, AtEnd}:   res.Test,
	}[point{split, when}]
}

// bestValidation is the validation with the highest sampled reward, the earliest of
// equals; nil before the first step, when there is nothing to choose from.
func bestValidation(r *rundir.Run) *rundir.Eval {
	if r.Result != nil && r.Result.Best.Sampled.N > 0 {
		return &r.Result.Best
	}
	lines := EvalsOf(r, rundir.SplitVal)
	if len(lines) == 0 || lines[len(lines)-1].Step == 0 {
		return nil
	}
	best := slices.MaxFunc(lines, func(e, f rundir.Eval) int {
		switch {
		case e.Sampled.Better(f.Sampled):
			return 1
		case f.Sampled.Better(e.Sampled):
			return -1
		}
		return 0
	})
	return &best
}

// AnyValidation is the last validation, or the first one if there is no other.
func AnyValidation(r *rundir.Run) *rundir.Eval { return AnyEvaluation(r, rundir.SplitVal) }

// AnyEvaluation is the same of a split, and not nil for one of [SetsOf].
func AnyEvaluation(r *rundir.Run, split string) *rundir.Eval {
	return cmp.Or(Evaluation(r, split, AtEnd), Evaluation(r, split, AtStart))
}

// EvalsOf are the evaluations of a split.
func EvalsOf(r *rundir.Run, split string) []rundir.Eval {
	return slices.DeleteFunc(slices.Clone(r.Evals), func(e rundir.Eval) bool { return e.Split != split })
}

// DecodedCounts picks one decoding of an evaluation; nil if the evaluation or the decoding was not made.
func DecodedCounts(e *rundir.Eval, decoding string) *rundir.Counts {
	switch {
	case e == nil:
		return nil
	case decoding == rundir.DecodingGreedy:
		return e.Greedy
	}
	return &e.Sampled
}

// HasPassInterval says whether [ProblemInterval] of sampled completions is that of pass@1.
func HasPassInterval(e *rundir.Eval) bool { return AtK(e, PassAtPrefix, 1) != nil }

// ProblemInterval is the 95% interval of the answer reward of a decoding of an evaluation, over its problems: that of
// pass@1, which is the same number, where it has that, and else Wilson's. There several samples of a problem count as
// one: it is then wider than need be, not too narrow.
func ProblemInterval(e *rundir.Eval, c *rundir.Counts) (lo, hi float64) {
	samples := 1
	if c == &e.Sampled {
		if x := AtK(e, PassAtPrefix, 1); x != nil {
			return x.Lo, x.Hi
		}
		samples = max(1, e.Samples)
	}
	n := c.N / samples // one less of an evaluation that was interrupted within a problem
	return stats.Wilson(min(float64(c.CorrectNum)/float64(samples), float64(n)), n, stats.Level)
}

// CurveNote says which problems the rewards before and after training are of where those of the curve are
// others or fewer (eval.final_size, eval.final_samples); empty where they are the same.
func CurveNote(runs []*rundir.Run) string {
	return strings.Join(Unique(runs, func(r *rundir.Run) string {
		if r.Result == nil || r.Result.Final.Split != rundir.SplitFinal {
			return ""
		}
		first, last := &r.Result.Initial, &r.Result.Final
		of := "the rewards before and after training are of " + last.OutOf("validation problem")
		if first.OutOf("problem") != last.OutOf("problem") {
			of = fmt.Sprintf("the reward after training is of %s, the one before of %s", last.OutOf("validation problem"),
				first.OutOf("problem"))
		}
		return fmt.Sprintf("%s; the curve and the best step are of the first %d of these problems, %s each", of,
			r.Result.Best.Problems(), completions(r.Result.Best.Samples))
	}), "; ")
}

// completions is a number of completions in words; 0 means 1.
func completions(n int) string {
	if n <= 1 {
		return "one completion"
	}
	return fmt.Sprintf("%d completions", n)
}

// LastStep is the last step that the folder knows of.
func LastStep(r *rundir.Run) int {
	step := len(r.Metrics)
	if n := len(r.Evals); n > 0 {
		step = max(step, r.Evals[n-1].Step)
	}
	if r.Status != nil {
		step = max(step, r.Status.Step)
	}
	if r.Result != nil {
		step = max(step, r.Result.Final.Step)
	}
	return step
}

// Outcome is how a run ended, or how far it is.
func Outcome(r *rundir.Run, a RunInfo) string {
	s, detail := "", ""
	switch res := r.Result; {
	case res != nil && res.Status != rundir.StateDiverged:
		return textutil.Printable(res.Status, 0)
	case res != nil:
		s, detail = "diverged", res.DivergedReason
		if res.DivergedAt != nil {
			s += fmt.Sprintf(" at step %d", *res.DivergedAt)
		}
	default:
		s = fmt.Sprintf("not finished: step %d", LastStep(r))
		if a.Train.Steps > 0 {
			s += fmt.Sprintf(" of %d", a.Train.Steps)
		}
		if r.Status != nil {
			s += ", " + textutil.Printable(r.Status.State, 0)
			detail = r.Status.Error
		}
	}
	if detail != "" {
		s += ": " + textutil.Printable(detail, 0)
	}
	return s
}

// Point is a step and the value there.
type Point struct{ X, Y float64 }

// Series is one metric of a run against the step. Values that are not finite are
// left out.
type Series []Point

// UpTo is the last point of s that is not beyond x.
func (s Series) UpTo(x float64) (p Point, ok bool) {
	for _, q := range s {
		if q.X <= x {
			p, ok = q, true
		}
	}
	return p, ok
}

// Add appends a value unless it is not finite.
func (s *Series) Add(step int, value float64) {
	if stats.IsFinite(value) {
		*s = append(*s, Point{X: float64(step), Y: value})
	}
}

// MetricSeries takes a value from each line of metrics.jsonl; nil where a line has
// none.
func MetricSeries(r *rundir.Run, value func(rundir.Metrics) *float64) Series {
	var s Series
	for _, m := range r.Metrics {
		if v := value(m); v != nil {
			s.Add(m.Step, *v)
		}
	}
	return s
}

// EvalSeries takes the answer reward from each evaluation of a split.
func EvalSeries(r *rundir.Run, split, decoding string) Series {
	var s Series
	for _, e := range EvalsOf(r, split) {
		if c := DecodedCounts(&e, decoding); c != nil {
			s.Add(e.Step, c.AnswerReward)
		}
	}
	return s
}

// SeriesOf is one series a run, without those that have no point.
func SeriesOf(runs []*rundir.Run, f func(*rundir.Run) Series) []Series {
	var out []Series
	for _, r := range runs {
		if s := f(r); len(s) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// MeanSeries averages several series at the steps that all of them have. Beyond the
// end of the shortest there is no mean: it would jump when a run drops out.
func MeanSeries(all []Series) Series {
	if len(all) == 0 {
		return nil
	}
	values := make(map[float64][]float64)
	for _, s := range all {
		for _, p := range s {
			values[p.X] = append(values[p.X], p.Y)
		}
	}
	var out Series
	for _, p := range all[0] {
		if ys := values[p.X]; len(ys) == len(all) {
			out = append(out, Point{X: p.X, Y: stats.Mean(ys)})
		}
	}
	return out
}

// RunsOf are the runs of a sweep, or of an arm, that have a folder.
func RunsOf(states []sweepdir.RunState) []*rundir.Run {
	var out []*rundir.Run
	for _, s := range states {
		if s.Run != nil {
			out = append(out, s.Run)
		}
	}
	return out
}

// configured are the runs that have a configuration.
func configured(states []sweepdir.RunState) []*rundir.Run {
	return slices.DeleteFunc(RunsOf(states), func(r *rundir.Run) bool { return len(r.Config) == 0 })
}
