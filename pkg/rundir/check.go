package rundir

import (
	"fmt"
	"math"
	"path/filepath"
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
// would draw a wrong curve without a word.
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
	}
	return nil
}
