package analysis

import (
	"fmt"
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// This file takes the problems as a second source of chance, besides the seeds, where the runs recorded right
// or wrong of each problem ([rundir.Eval.Right]): see [stats.Crossed].

// contrast is the mean of some arms minus the mean of others: the index lists of two arms, or of the halves of
// a grid.
type contrast struct{ plus, minus []int }

// An evaluated set of problems, of which every seed of every arm has one evaluation.
var (
	lastValidation = func(r *rundir.Result) *rundir.Eval { return &r.Final }
	lastTest       = func(r *rundir.Result) *rundir.Eval { return r.Test }
)

// estimate is that of a comparison over the seeds from place from to before to, and over the problems of the last
// validation if crossed is true.
func (a *Analysis) estimate(c *Comparison, from, to int) (e stats.Estimate, crossed bool) {
	return a.crossed(c.Diffs[from:to], from, c.contrast, c.Resolution, lastValidation)
}

// crossed is the estimate of a contrast by its differences, of the seeds from place from on. ok: it is over seeds and
// problems; it is over the seeds alone unless all runs that the differences are of recorded the same problems.
func (a *Analysis) crossed(diffs []float64, from int, q contrast, resolution float64,
	of func(*rundir.Result) *rundir.Eval) (e stats.Estimate, ok bool) {
	e = stats.StudentT(diffs, resolution)
	var plus, minus [][]float64
	for s, d := range diffs {
		if !stats.IsFinite(d) {
			continue
		}
		x, y := a.meanShares(q.plus, from+s, of), a.meanShares(q.minus, from+s, of)
		if len(x) < 2 || len(x) != len(y) || len(plus) > 0 && len(x) != len(plus[0]) {
			return e, false
		}
		plus, minus = append(plus, x), append(minus, y)
	}
	if len(plus) < 2 || !a.sameSet(slices.Concat(q.plus, q.minus)) {
		return e, false
	}
	// Not less than e.SE in the last bit either.
	return e.With(max(e.SE, stats.CrossedVariance(plus, minus, resolution).SE())), true
}

// resolution is the coarsest unit in which the metric is counted in any of the arms.
func (a *Analysis) resolution(m *Metric, q contrast) float64 {
	out := 0.0
	for _, k := range slices.Concat(q.plus, q.minus) {
		out = max(out, m.resolution(&a.Arms[k]))
	}
	return out
}

// meanShares is, for each problem, the mean over arms of the share of completions that were right with the
// seed of index s; nil without.
func (a *Analysis) meanShares(arms []int, s int, of func(*rundir.Result) *rundir.Eval) []float64 {
	var out []float64
	for _, k := range arms {
		result := a.Arms[k].facts[s].result
		if result == nil || of(result) == nil {
			return nil
		}
		shares := of(result).Shares(rundir.DecodingSampled)
		if out == nil {
			out = make([]float64, len(shares))
		}
		if len(shares) == 0 || len(shares) != len(out) {
			return nil
		}
		for i, v := range shares {
			out[i] += v / float64(len(arms))
		}
	}
	return out
}

// evaluatedKeys decide, with the contents of the files that they name, which validation and test problems a run
// is evaluated on.
var evaluatedKeys = []string{
	"data.source", "data.val_file", "data.test_file", "data.fields.question", "data.fields.answer", "data.skip_bad",
	"data.generator_seed", "data.weight_add", "data.weight_sub", "data.weight_mul", "data.val_size", "data.test_size",
	"data.difficulty", "data.task.min_difficulty", "data.task.symbols", "data.task.largest", "data.task.operators",
	"eval.final_size",
}

// sameSet reports whether the runs of these arms were evaluated on the same problems: all their problems are the
// same, or the keys and files of those of evaluations are.
func (a *Analysis) sameSet(arms []int) bool {
	hashes := map[string]bool{}
	for _, k := range arms {
		for _, run := range RunsOf(a.Arms[k].Runs) {
			if run.Meta == nil || run.Meta.ProblemsHash == "" {
				return false
			}
			hashes[run.Meta.ProblemsHash] = true
		}
	}
	if len(hashes) < 2 {
		return true
	}
	sets := map[string]bool{}
	for _, k := range arms {
		config := a.ConfigOf(k)
		if config["data.source"] == "" {
			return false
		}
		var own []string
		for _, key := range evaluatedKeys {
			own = append(own, config[key])
		}
		for _, run := range RunsOf(a.Arms[k].Runs) {
			files := run.Meta.InputFiles
			sets[fmt.Sprintf("%q", append(own, files[config["data.val_file"]], files[config["data.test_file"]]))] = true
		}
	}
	return len(sets) == 1
}
