package analysis

import (
	"slices"
	"strings"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// This file has the answers of an audit that come from what the runs stored, and its verdict.

// sets are the evaluations that the runs made of other problems than the audited ones.
func (x *auditor) sets() []AuditSet {
	out := []AuditSet{}
	for _, name := range x.setNames() {
		set := AuditSet{Set: name}
		var before, after []float64
		for _, r := range x.Runs {
			if r.Run == nil {
				continue
			}
			first, last := Evaluation(r.Run, name, AtStart), Evaluation(r.Run, name, AtEnd)
			if last == nil || last.Sampled.N == 0 {
				continue
			}
			set.Problems = last.Problems()
			after = append(after, last.Sampled.AnswerReward)
			before = append(before, countsValue(DecodedCounts(first, sampled), answerReward))
		}
		if len(after) == 0 {
			continue
		}
		unit := 1 / float64(max(1, set.Problems))
		set.Before = stats.Mean(before)
		set.After = overSeeds(after, unit).clip(0, 1)
		set.Difference = overSeeds(stats.Differences(after, before), unit).clip(-1, 1)
		out = append(out, set)
	}
	return out
}

// setNames are the sets that a run has a last evaluation of, without the audited one.
func (x *auditor) setNames() (names []string) {
	for _, r := range x.Runs {
		if r.Run == nil || r.Run.Result == nil {
			continue
		}
		all := []string{rundir.SplitVal, rundir.SplitTest, rundir.SplitUnseen}
		for _, s := range r.Run.Result.Sets[:min(mostSets, len(r.Run.Result.Sets))] {
			all = append(all, s.Name)
		}
		for _, name := range all {
			if name != x.Split && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// placebos compares the gains that the runs stored, of the validation problems. A placebo that moved no weight is the
// initial policy, and the difference to it is that of pass@1, first.
func (x *auditor) placebos(first AuditPassAt) []AuditPlacebo {
	out := []AuditPlacebo{}
	for _, p := range x.Placebos {
		a := AuditPlacebo{Reward: p.Reward, Seeds: []uint64{}, Each: []float64{}}
		var own, diffs []float64
		var rows [][]float64 // of the differences by problem
		unit := 0.0
		for _, r := range x.Runs {
			i := slices.IndexFunc(p.Runs, func(q *rundir.Run) bool { return q.Result != nil && q.Result.Seed == r.Draw.Seed })
			if i < 0 || r.Run == nil || r.Run.Result == nil {
				continue
			}
			run, placebo := r.Run.Result, p.Runs[i].Result
			g, h := storedGain(run), storedGain(placebo)
			a.Seeds, a.Each = append(a.Seeds, placebo.Seed), append(a.Each, h)
			own, diffs = append(own, g), append(diffs, g-h)
			unit = 1 / float64(max(1, run.Final.Sampled.N))
			meta, trained := p.Runs[i].Meta, placebo.WeightsSHA256
			if meta != nil && trained != "" && strings.HasSuffix(meta.InitHash, trained) {
				a.Unmoved++
			}
			rows = append(rows, gainShares(run, placebo))
		}
		if len(diffs) == 0 {
			continue
		}
		a.Gain, a.RunGain = overSeeds(a.Each, unit), overSeeds(own, unit)
		a.Difference = overSeeds(diffs, unit)
		switch {
		case a.Unmoved == len(diffs): // it is the initial policy: two evaluations of it differ by chance alone
			a.Gain, a.Difference = Interval{}, first.Difference
			a.RunGain, a.Each = a.Difference, make([]float64, len(a.Each))
		case !slices.ContainsFunc(rows, func(row []float64) bool { return len(row) < 2 || len(row) != len(rows[0]) }):
			a.Difference = overBoth(rows, unit)
		}
		out = append(out, a)
	}
	return out
}

// storedGain is the gain of a run in the reward of its validation problems.
func storedGain(r *rundir.Result) float64 {
	return r.Final.Sampled.AnswerReward - r.Initial.Sampled.AnswerReward
}

// gainShares are the differences of the gains of two runs by problem; nil if they did not record them.
func gainShares(run, placebo *rundir.Result) []float64 {
	var out []float64
	for i, e := range []*rundir.Eval{&run.Final, &placebo.Initial, &run.Initial, &placebo.Final} {
		shares := e.Shares(rundir.DecodingSampled)
		if out == nil {
			out = make([]float64, len(shares))
		}
		if len(shares) == 0 || len(shares) != len(out) {
			return nil
		}
		for k, v := range shares {
			out[k] += float64(v * float64([]int{1, 1, -1, -1}[i]))
		}
	}
	return out
}

// drift is the mean over the trained policies; nil unless all of them have one, of the same problems.
func (x *auditor) drift() *AuditDriftMean {
	var kl, entropy, base [][]float64
	var changed, distance []float64
	n := 0
	for _, r := range x.Runs {
		d := r.Drift
		if d == nil || n > 0 && len(d.Tokens) != n {
			return nil
		}
		n = len(d.Tokens)
		kl, entropy = append(kl, perToken(d, d.LogRatio)), append(entropy, perToken(d, d.Entropy))
		base = append(base, perToken(d, d.BaseEntropy))
		changed, distance = append(changed, deref(d.Changed)), append(distance, deref(d.Distance))
	}
	return &AuditDriftMean{
		Completions: n, KL: overBoth(kl, 0), Entropy: overBoth(entropy, 0), BaseEntropy: overBoth(base, 0),
		Changed: overSeeds(changed, 0), Distance: overSeeds(distance, 0),
	}
}

// perToken has for each completion a number whose mean is the sum of x over the sum of the tokens: the linear terms of
// this ratio.
func perToken(d *rundir.AuditDrift, x []float64) []float64 {
	tokens, sum := 0.0, 0.0
	for i, n := range d.Tokens {
		tokens, sum = tokens+float64(n), sum+x[i]
	}
	ratio, out := sum/tokens, make([]float64, len(x))
	for i, n := range d.Tokens {
		out[i] = ratio + (x[i]-float64(ratio*float64(n)))*float64(len(x))/tokens
	}
	return out
}

// AuditKind is a part of the verdict of an audit.
type AuditKind string

// The parts. A verdict has one or more of them.
const (
	AuditNoGain      AuditKind = "no_gain"
	AuditReliable    AuditKind = "more_reliable_not_more_capable"
	AuditNewProblems AuditKind = "new_problems_solved"
	AuditEveryK      AuditKind = "more_at_every_k" // pass@1 and pass@n, but no count of problems beyond chance
	AuditFormat      AuditKind = "format"
	AuditPlaceboToo  AuditKind = "placebo_did_the_same"
)

// OneProblem is the share of one problem.
func (a *Audit) OneProblem() float64 { return 1 / float64(a.Problems) }

// kinds are the rules of the verdict, as in docs/audit.md. pass@1 rises if the interval of its difference is above 0;
// pass@n rises if that is above the share of one problem.
func (a *Audit) kinds() []AuditKind {
	first, last := a.PassAt[0].Difference, a.PassAt[len(a.PassAt)-1].Difference
	rises, more := first.Above(0), a.New.Beyond.Above(0)
	if !rises && !more {
		return []AuditKind{AuditNoGain}
	}
	var out []AuditKind
	switch {
	case more:
		out = append(out, AuditNewProblems)
	case last.Above(a.OneProblem()):
		out = append(out, AuditEveryK)
	default:
		out = append(out, AuditReliable)
	}
	if rises && a.Gain.FormatShare.Above(0.5) {
		out = append(out, AuditFormat)
	}
	if rises && slices.ContainsFunc(a.Placebos, AuditPlacebo.Same) {
		out = append(out, AuditPlaceboToo)
	}
	return out
}

// Same reports whether the placebo did the same: the runs did not gain more than it by more than chance, and it has
// half of their gain at least. Without the second, few seeds would make a placebo of any reward.
func (p AuditPlacebo) Same() bool {
	return stats.IsFinite(p.Difference.Lo) && !p.Difference.Above(0) && p.Gain.Mean >= p.RunGain.Mean/2
}
