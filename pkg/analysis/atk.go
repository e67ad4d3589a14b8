package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"grpo/pkg/rundir"
)

// Names of pass@k and maj@k in tables and files, before the k. They are of the last validation; those of the one
// before training begin with [InitialPrefix].
const (
	PassAtPrefix     = "pass_at_"
	MajorityAtPrefix = "majority_at_"
	InitialPrefix    = "initial_"
)

// AtK is one of pass@k and maj@k of an evaluation, by the name of the kind; nil where it does not have this k.
func AtK(e *rundir.Eval, kind string, k int) *rundir.AtK {
	if e == nil {
		return nil
	}
	list := e.PassAt
	if kind == MajorityAtPrefix {
		list = e.MajorityAt
	}
	if i := slices.IndexFunc(list, func(x rundir.AtK) bool { return x.K == k }); i >= 0 {
		return &list[i]
	}
	return nil
}

// KsOf lists the k of pass@k and maj@k of some evaluations, in rising order.
func KsOf(evals ...*rundir.Eval) []int {
	ks := map[int]bool{}
	for _, e := range evals {
		if e != nil {
			for _, x := range slices.Concat(e.PassAt, e.MajorityAt) {
				ks[x.K] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ks))
}

// atKResults sums up pass@k and maj@k of an arm's runs by their names. As in [Metrics], what follows training counts
// when a run has its result.
func atKResults(r *ArmResult) map[string]Summary {
	out := map[string]Summary{}
	for _, initial := range []bool{false, true} {
		evals, prefix := make([]*rundir.Eval, len(r.facts)), ""
		for i, f := range r.facts {
			switch {
			case initial:
				prefix, evals[i] = InitialPrefix, f.first
			case f.result != nil:
				evals[i] = &f.result.Final
			}
		}
		for _, k := range KsOf(evals...) {
			for _, kind := range []string{PassAtPrefix, MajorityAtPrefix} {
				values, unit, has := make([]float64, len(evals)), 0.0, false
				for i, e := range evals {
					values[i] = math.NaN()
					if x := AtK(e, kind, k); x != nil {
						// One completion changes the estimate of its problem by up to k/n.
						values[i], unit, has = x.Mean, float64(k)/float64(e.Sampled.N), true
					}
				}
				if has {
					out[fmt.Sprint(prefix, kind, k)] = NewSummary(values, unit, 0, 1)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// AtKOf is a summary of pass@k or maj@k of the arm, with N = 0 where its runs do not have it.
func (r *ArmResult) AtKOf(prefix, kind string, k int) Summary {
	if s, ok := r.AtK[fmt.Sprint(prefix, kind, k)]; ok {
		return s
	}
	return NewSummary(slices.Repeat([]float64{math.NaN()}, len(r.Runs)), 0, 0, 1)
}

// Ks lists the k of the pass@k and maj@k of an arm's runs.
func (r *ArmResult) Ks() []int {
	var evals []*rundir.Eval
	for i := range r.facts {
		f := &r.facts[i]
		if evals = append(evals, f.first); f.result != nil {
			evals = append(evals, &f.result.Final)
		}
	}
	return KsOf(evals...)
}
