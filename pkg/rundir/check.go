package rundir

import (
	"fmt"
	"math"
	"path/filepath"
)

// Check returns an error unless the counts add up as documented at [Counts], and the numbers
// computed from them match.
func (c Counts) Check() error {
	if c.N < 0 || c.N > math.MaxInt/4 { // sums would overflow
		return fmt.Errorf("n is %d, not a count", c.N)
	}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"correct_num", c.CorrectNum}, {"error_num", c.ErrorNum}, {"formatted_right", c.FormattedRight},
		{"formatted_wrong", c.FormattedWrong}, {"unformatted", c.Unformatted}, {"truncated", c.Truncated},
	} {
		if x.n < 0 || x.n > c.N {
			return fmt.Errorf("%s %d is not from 0 to n %d", x.name, x.n, c.N)
		}
	}
	if c.CorrectNum+c.ErrorNum != c.N {
		return fmt.Errorf("correct_num %d and error_num %d don't add up to n %d", c.CorrectNum, c.ErrorNum, c.N)
	}
	if c.FormattedRight+c.FormattedWrong+c.Unformatted != c.N {
		return fmt.Errorf("formatted_right %d, formatted_wrong %d and unformatted %d don't add up to n %d",
			c.FormattedRight, c.FormattedWrong, c.Unformatted, c.N)
	}
	// A missing reward is NaN and contradicts no count.
	n := float64(max(c.N, 1))
	if want := float64(c.CorrectNum) / n; math.Abs(c.AnswerReward-want) > 1e-6 {
		return fmt.Errorf("answer_reward %v contradicts correct_num %d of n %d, which is %v",
			c.AnswerReward, c.CorrectNum, c.N, want)
	}
	if want := float64(c.FormattedRight+c.FormattedWrong) / n; math.Abs(c.FormatReward-want) > 1e-6 {
		return fmt.Errorf("format_reward %v contradicts formatted_right %d and formatted_wrong %d of n %d, which is %v",
			c.FormatReward, c.FormattedRight, c.FormattedWrong, c.N, want)
	}
	return c.checkLengths()
}

// checkLengths: the mean length is that of right and wrong completions together.
func (c Counts) checkLengths() error {
	if c.Length < 0 {
		return fmt.Errorf("completion_length %v is below 0", c.Length)
	}
	mean, known := 0.0, true
	for _, part := range []struct {
		name string
		mean *float64
		n    int
	}{
		{"completion_length_right", c.LengthRight, c.CorrectNum},
		{"completion_length_wrong", c.LengthWrong, c.ErrorNum},
	} {
		switch {
		case part.mean == nil:
			known = known && part.n == 0 // some writers leave it out
		case *part.mean < 0:
			return fmt.Errorf("%s %v is below 0", part.name, *part.mean)
		case part.n == 0:
			return fmt.Errorf("%s is %v, but there is no such completion", part.name, *part.mean)
		default:
			mean += *part.mean * float64(part.n) / float64(c.N)
		}
	}
	if known && math.Abs(mean-c.Length) > 1e-6*max(1, c.Length) {
		return fmt.Errorf("completion_length %v contradicts those of right and wrong completions, whose mean is %v",
			c.Length, mean)
	}
	return nil
}

// Check is [Counts.Check] for both decoding modes, and an error if Right or RightGreedy contradicts the counts.
func (e Eval) Check() error {
	if err := e.Sampled.Check(); err != nil {
		return fmt.Errorf("sampled: %w", err)
	}
	if e.Samples < 0 || e.Sampled.N%max(1, e.Samples) != 0 {
		return fmt.Errorf("sampled: n %d is not a multiple of samples %d", e.Sampled.N, e.Samples)
	}
	if err := e.checkRight(); err != nil {
		return err
	}
	if err := e.checkAtK(); err != nil {
		return err
	}
	if e.Greedy == nil {
		return nil
	}
	if err := e.Greedy.Check(); err != nil {
		return fmt.Errorf("greedy: %w", err)
	}
	return nil
}

// checkOrder returns an error if lines are missing, repeated or out of order: the curve would be
// wrong.
func (r *Run) checkOrder() error {
	for i, m := range r.Metrics {
		if m.Step != i+1 {
			return fmt.Errorf("%s: line %d: step %d where step %d was due", filepath.Join(r.Dir, MetricsFile),
				i+1, m.Step, i+1)
		}
	}
	type key struct {
		step  int
		split string
	}
	seen := make(map[key]int)
	last := 0
	for i, e := range r.Evals {
		path := filepath.Join(r.Dir, EvalFile)
		if e.Step < last {
			return fmt.Errorf("%s: line %d: step %d after step %d", path, i+1, e.Step, last)
		}
		last = e.Step
		k := key{e.Step, e.Split}
		if before, ok := seen[k]; ok {
			return fmt.Errorf("%s: line %d: split %q at step %d again (first in line %d)", path, i+1, e.Split,
				e.Step, before)
		}
		seen[k] = i + 1
	}
	return nil
}

// checkCounts returns an error for evaluations whose counts don't add up, and for a result that
// contradicts itself or eval.jsonl.
func (r *Run) checkCounts() error {
	for i, e := range r.Evals {
		if err := e.Check(); err != nil {
			return fmt.Errorf("%s: line %d: %w", filepath.Join(r.Dir, EvalFile), i+1, err)
		}
	}
	if r.Result == nil {
		return nil
	}
	for _, e := range r.Result.evals() {
		if err := r.checkEval(*e.eval); err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Join(r.Dir, ResultFile), e.name, err)
		}
	}
	if err := r.Result.check(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(r.Dir, ResultFile), err)
	}
	return nil
}

// checkEval returns an error if an evaluation of the result has counts that don't add up or other
// numbers than eval.jsonl: a report shows some of each.
func (r *Run) checkEval(e Eval) error {
	if err := e.Check(); err != nil {
		return err
	}
	for i, x := range r.Evals {
		if x.Step != e.Step || x.Split != e.Split {
			continue
		}
		if err := same(e, x); err != nil {
			return fmt.Errorf("it contradicts %s: line %d: %w", EvalFile, i+1, err)
		}
	}
	return nil
}

type namedEval struct {
	name string
	eval *Eval
}

// evals lists the evaluations of the result.
func (r *Result) evals() []namedEval {
	list := []namedEval{{"initial", &r.Initial}, {"final", &r.Final}, {"best", &r.Best}}
	for _, e := range []namedEval{{"unseen", r.Unseen}, {"test", r.Test}} {
		if e.eval != nil {
			list = append(list, e)
		}
	}
	for i := range r.Sets {
		s := &r.Sets[i]
		list = append(list, namedEval{s.Name + ", initial", &s.Initial}, namedEval{s.Name + ", final", &s.Final})
	}
	return list
}

// check returns an error for an unknown outcome, and for a best evaluation that is not at the
// result's best step or is below the first or last.
func (r *Result) check() error {
	if r.Status != StateDone && r.Status != StateDiverged {
		return fmt.Errorf("status %q is neither %q nor %q", r.Status, StateDone, StateDiverged)
	}
	if r.DivergedAt != nil && r.Status != StateDiverged {
		return fmt.Errorf("status %q contradicts diverged_at %d", r.Status, *r.DivergedAt)
	}
	if r.Best.Split == "" { // the file has no best evaluation
		return nil
	}
	if r.BestStep != r.Best.Step {
		return fmt.Errorf("best_step %d contradicts the step of best, %d", r.BestStep, r.Best.Step)
	}
	best := r.Best.Sampled.AnswerReward
	for _, e := range r.evals()[:2] {
		if e.eval.Split != r.Best.Split { // of other problems
			continue
		}
		if x := e.eval.Sampled.AnswerReward; x > best {
			return fmt.Errorf("best has the answer_reward %v, below that of %s, %v", best, e.name, x)
		}
	}
	return nil
}
