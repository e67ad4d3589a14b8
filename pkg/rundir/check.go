package rundir

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
)

// Check returns an error unless the counts add up as [Counts] promises.
func (c Counts) Check() error {
	// The sum of counts such as these would wrap around, perhaps to n.
	const most = math.MaxInt / 4
	if c.N < 0 || max(c.CorrectNum, c.ErrorNum, c.FormattedRight, c.FormattedWrong, c.Unformatted) > most {
		return fmt.Errorf("n %d or one of its counts is no count", c.N)
	}
	if c.CorrectNum < 0 || c.ErrorNum < 0 || c.CorrectNum+c.ErrorNum != c.N {
		return fmt.Errorf("correct_num %d and error_num %d don't add up to n %d", c.CorrectNum, c.ErrorNum, c.N)
	}
	if c.FormattedRight < 0 || c.FormattedWrong < 0 || c.Unformatted < 0 ||
		c.FormattedRight+c.FormattedWrong+c.Unformatted != c.N {
		return fmt.Errorf("formatted_right %d, formatted_wrong %d and unformatted %d don't add up to n %d",
			c.FormattedRight, c.FormattedWrong, c.Unformatted, c.N)
	}
	if c.Truncated < 0 || c.Truncated > c.N {
		return fmt.Errorf("truncated %d is not from 0 to n %d", c.Truncated, c.N)
	}
	// What is computed from the counts must be what they give: a report shows both.
	n := float64(max(c.N, 1))
	for _, share := range []struct {
		name      string
		got, want float64
		of        string
	}{
		{"answer_reward", c.AnswerReward, float64(c.CorrectNum) / n, fmt.Sprintf("correct_num %d", c.CorrectNum)},
		{"format_reward", c.FormatReward, float64(c.FormattedRight+c.FormattedWrong) / n,
			fmt.Sprintf("formatted_right %d and formatted_wrong %d", c.FormattedRight, c.FormattedWrong)},
	} {
		if math.Abs(share.got-share.want) > 1e-6 { // NaN: the file says nothing
			return fmt.Errorf("%s %v contradicts %s of n %d, which is %v", share.name, share.got, share.of, c.N, share.want)
		}
	}
	return c.checkLengths()
}

// checkLengths: the mean length is that of right and wrong completions together.
func (c Counts) checkLengths() error {
	if c.Length < 0 {
		return fmt.Errorf("completion_length %v is below 0", c.Length)
	}
	sum, known := 0.0, true
	for _, part := range []struct {
		name string
		mean *float64
		n    int
	}{{"completion_length_right", c.LengthRight, c.CorrectNum}, {"completion_length_wrong", c.LengthWrong, c.ErrorNum}} {
		switch {
		case part.mean != nil && *part.mean < 0:
			return fmt.Errorf("%s %v is below 0", part.name, *part.mean)
		case part.mean != nil && part.n == 0:
			return fmt.Errorf("%s is %v, but there is no such completion", part.name, *part.mean)
		case part.mean == nil && part.n > 0:
			known = false // from a writer that leaves it out
		case part.mean != nil:
			sum += *part.mean * float64(part.n)
		}
	}
	if mean := sum / float64(max(c.N, 1)); known && math.Abs(mean-c.Length) > 1e-6*max(1, c.Length) {
		return fmt.Errorf("completion_length %v contradicts those of right and wrong completions, whose mean is %v", c.Length, mean)
	}
	return nil
}

// Check is [Counts.Check] for both decodings.
func (e Eval) Check() error {
	if err := e.Sampled.Check(); err != nil {
		return fmt.Errorf("sampled: %w", err)
	}
	if e.Greedy != nil {
		if err := e.Greedy.Check(); err != nil {
			return fmt.Errorf("greedy: %w", err)
		}
	}
	return nil
}

// checkOrder refuses lines that are missing, doubled or out of order: they
// would silently draw a wrong curve.
func (r *Run) checkOrder() error {
	for i, m := range r.Metrics {
		if m.Step != i+1 {
			return fmt.Errorf("%s: line %d: step %d where step %d was due", filepath.Join(r.Dir, MetricsFile), i+1, m.Step, i+1)
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
			return fmt.Errorf("%s: line %d: split %q at step %d again (first in line %d)", path, i+1, e.Split, e.Step, before)
		}
		seen[k] = i + 1
	}
	return nil
}

// checkCounts refuses evaluations whose counts don't add up, and a result
// without an outcome.
func (r *Run) checkCounts() error {
	for i, e := range r.Evals {
		if err := e.Check(); err != nil {
			return fmt.Errorf("%s: line %d: %w", filepath.Join(r.Dir, EvalFile), i+1, err)
		}
	}
	if r.Result == nil {
		return nil
	}
	path := filepath.Join(r.Dir, ResultFile)
	if s := r.Result.Status; s != StateDone && s != StateDiverged {
		return fmt.Errorf("%s: status %q is neither %q nor %q", path, s, StateDone, StateDiverged)
	}
	for _, e := range []struct {
		name string
		eval *Eval
	}{
		{"initial", &r.Result.Initial}, {"final", &r.Result.Final}, {"best", &r.Result.Best},
		{"unseen", r.Result.Unseen}, {"test", r.Result.Test},
	} {
		if e.eval == nil {
			continue
		}
		if err := e.eval.Check(); err != nil {
			return fmt.Errorf("%s: %s: %w", path, e.name, err)
		}
		if err := r.sameAsLine(*e.eval); err != nil {
			return fmt.Errorf("%s: %s: %w", path, e.name, err)
		}
	}
	if err := r.Result.checkBest(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// sameAsLine refuses an evaluation of the result for which eval.jsonl has other
// numbers: a report shows some from here and some from there.
func (r *Run) sameAsLine(e Eval) error {
	for i, x := range r.Evals {
		if x.Step != e.Step || x.Split != e.Split {
			continue
		}
		if d := difference(reflect.ValueOf(e), reflect.ValueOf(x), "", nil); d != "" {
			return fmt.Errorf("it contradicts %s: line %d: %s", EvalFile, i+1, d)
		}
	}
	return nil
}

// checkBest: the best evaluation is at least as good as the first and the last,
// and at the step that the result names.
func (r *Result) checkBest() error {
	if r.DivergedAt != nil && r.Status != StateDiverged {
		return fmt.Errorf("status %q contradicts diverged_at %d", r.Status, *r.DivergedAt)
	}
	if r.Best.Split == "" { // the file says nothing
		return nil
	}
	if r.BestStep != r.Best.Step {
		return fmt.Errorf("best_step %d contradicts the step of best, %d", r.BestStep, r.Best.Step)
	}
	for _, e := range []struct {
		name string
		eval Eval
	}{{"initial", r.Initial}, {"final", r.Final}} {
		if e.eval.Sampled.AnswerReward > r.Best.Sampled.AnswerReward {
			return fmt.Errorf("best has the answer_reward %v, below that of %s, %v", r.Best.Sampled.AnswerReward, e.name, e.eval.Sampled.AnswerReward)
		}
	}
	return nil
}
