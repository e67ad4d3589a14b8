package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// armFacts are the runs of an arm, in the order of the seeds.
type armFacts struct {
	runs           []runFacts
	problems       int
	steps          int
	evalEvery      float64
	majority       float64
	majorityAnswer string
}

// Analyse sums up a sweep: figures of every arm over its seeds, paired
// comparisons, without prose. It works on a sweep that is not finished: what
// has no result yet is left out.
//
// Arms are compared with the manifest's reference, without one with the best; in
// a grid of two keys with two values each, those are compared that differ in one
// key. It is an error when the runs of the sweep don't belong to its arms
// and seeds.
func Analyse(sw *sweepdir.Sweep) (*Analysis, error) {
	sw = printableSweep(sw)
	a := &Analysis{Sweep: sw, Best: -1, Arms: []ArmResult{}, Comparisons: []Comparison{}}
	facts := make([]armFacts, len(sw.Manifest.Arms))
	for i, arm := range sw.Manifest.Arms {
		states, err := seedStates(sw, i)
		if err != nil {
			return nil, fmt.Errorf("analyse sweep %s: arm %s: %w", sw.Dir, arm.Name, err)
		}
		facts[i] = factsOfArm(states)
		a.Arms = append(a.Arms, armRow(arm, states, &facts[i]))
	}
	a.levels(facts)
	a.Best = bestArm(a.Arms, func(r ArmResult) bool { return !r.Arm.Control && r.Diverged == 0 })
	a.compareArms(facts)
	a.BestBadge = a.bestBadge()
	return a, nil
}

// seedStates are the runs of an arm, one for each seed of the manifest.
func seedStates(sw *sweepdir.Sweep, arm int) ([]sweepdir.RunState, error) {
	out := make([]sweepdir.RunState, len(sw.Manifest.Seeds))
	for i, seed := range sw.Manifest.Seeds {
		out[i] = sweepdir.RunState{Entry: sweepdir.Entry{Arm: arm, Seed: seed}, State: sweepdir.Missing}
	}
	for _, s := range sw.OfArm(arm) {
		i := slices.Index(sw.Manifest.Seeds, s.Seed)
		if i < 0 {
			return nil, fmt.Errorf("run %d has seed %d, which is none of the sweep's", s.Index, s.Seed)
		}
		out[i] = s
	}
	return out, nil
}

func factsOfArm(states []sweepdir.RunState) armFacts {
	out := armFacts{majority: math.NaN()}
	var majorities []float64
	for i, s := range states {
		f := factsOf(s)
		out.runs = append(out.runs, f)
		out.problems = max(out.problems, f.problems)
		out.steps = max(out.steps, f.steps)
		out.evalEvery = max(out.evalEvery, f.evalEvery)
		majorities = append(majorities, f.majority)
		if i == 0 || out.majorityAnswer == "" {
			out.majorityAnswer = f.majorityAnswer
		}
	}
	out.majority, _, _ = stats.MeanSD(majorities)
	return out
}

func armRow(arm sweepdir.Arm, states []sweepdir.RunState, facts *armFacts) ArmResult {
	row := ArmResult{Arm: arm, Runs: states, Problems: facts.problems, Steps: facts.steps, DivergedAt: make([]*int, len(states))}
	for i, s := range states {
		switch s.State {
		case rundir.StateDone:
			row.Done++
		case rundir.StateDiverged:
			row.Diverged++
			if s.Run != nil && s.Run.Result != nil {
				row.DivergedAt[i] = s.Run.Result.DivergedAt
			}
		case rundir.StateFailed:
			row.Failed++
		default:
			row.Left++
		}
	}
	row.Status = armStatus(&row)
	for _, m := range Metrics {
		row.Set(m, m.summarize(facts))
	}
	return row
}

// newFigure is the figure of an arm's values, with its interval cut to the range
// of the quantity: no reward is above 1.
func NewSummary(values []float64, resolution, least, most float64) Summary {
	e := stats.StudentT(values, resolution).Clip(least, most)
	return Summary{Values: values, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi}
}

// armStatus is how an arm's runs stand, in words.
func armStatus(r *ArmResult) string {
	total := len(r.Runs)
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d of %s)", what, n, textutil.Count(total, "seed")))
		}
	}
	if r.Diverged > 0 {
		s := fmt.Sprintf("diverged (%d of %s", r.Diverged, textutil.Count(total, "seed"))
		if at := stepRange(r.DivergedAt); at != "" {
			s += ", " + at
		}
		parts = append(parts, s+")")
	}
	add(r.Failed, "failed")
	states := map[string]int{}
	for _, s := range r.Runs {
		states[s.State]++
	}
	for _, s := range []string{rundir.StateRunning, rundir.StateInterrupted, sweepdir.Dead, sweepdir.Missing} {
		add(states[s], s)
	}
	switch {
	case len(parts) == 0 && total > 0:
		return rundir.StateDone
	case len(parts) == 0:
		return sweepdir.Missing
	}
	if r.Done > 0 {
		parts = append([]string{fmt.Sprintf("done (%d of %s)", r.Done, textutil.Count(total, "seed"))}, parts...)
	}
	return strings.Join(parts, ", ")
}

// stepRange is "step 20" or "steps 20 to 40"; empty where no step is known.
func stepRange(at []*int) string {
	var steps []int
	for _, s := range at {
		if s != nil {
			steps = append(steps, *s)
		}
	}
	if len(steps) == 0 {
		return ""
	}
	lo, hi := slices.Min(steps), slices.Max(steps)
	if lo == hi {
		return fmt.Sprintf("step %d", lo)
	}
	return fmt.Sprintf("steps %d to %d", lo, hi)
}

// levels fills in the base level and the majority-answer baseline that all arms
// share. Arms that start apart (from another prompt or base model) share no
// base level: the mean over them would be the level of none.
func (a *Analysis) levels(facts []armFacts) {
	var majority []float64
	answers := map[string]bool{}
	for i, f := range facts {
		for _, r := range f.runs {
			majority = append(majority, r.majority)
		}
		a.Arms[i].Majority = f.majority
		if f.majorityAnswer != "" {
			answers[f.majorityAnswer] = true
			a.MajorityAnswer = f.majorityAnswer
		}
	}
	if len(answers) > 1 {
		a.MajorityAnswer = ""
	}
	a.Base, a.Majority = a.sharedBase(), shared(majority)
}

// sharedBase is the mean over the arms of the reward before training, NaN where
// two arms differ in it with the same seed.
func (a *Analysis) sharedBase() float64 {
	var means []float64
	for _, r := range a.Arms {
		means = append(means, r.Of(InitialMetric).Mean)
	}
	for i := range a.Sweep.Manifest.Seeds {
		var values []float64
		for _, r := range a.Arms {
			values = append(values, r.Of(InitialMetric).Values[i])
		}
		if len(stats.Finite(values)) > 0 && !stats.IsFinite(shared(values)) {
			return math.NaN()
		}
	}
	base, _, _ := stats.MeanSD(means)
	return base
}

// shared is the finite value of x if all finite values are equal, else NaN.
func shared(x []float64) float64 {
	x = slices.Compact(stats.Finite(x))
	if len(x) != 1 {
		return math.NaN()
	}
	return x[0]
}

const (
	BadgeBest = "best"
	badgeTied = "highest mean, not separable"
	badgeMean = "highest mean"
)

func (a *Analysis) bestBadge() string {
	badge := ""
	for i, r := range a.Arms {
		if a.Best < 0 || i == a.Best || r.Of(FinalMetric).N == 0 {
			continue
		}
		if r.Of(FinalMetric).Mean > a.Arms[a.Best].Of(FinalMetric).Mean {
			return ""
		}
		switch c := a.Find("final", a.Best, i); {
		case c != nil && !c.Separable:
			badge = badgeTied
		case c == nil || c.Mean < 0: // not compared, or behind on the seeds that both have
			if badge != badgeTied {
				badge = badgeMean
			}
		case badge == "":
			badge = BadgeBest
		}
	}
	return badge
}

// bestArm is the arm of the highest mean final reward among those that are
// eligible, the first of equals; -1 where there is none.
func bestArm(arms []ArmResult, eligible func(ArmResult) bool) int {
	best := -1
	for i, r := range arms {
		if eligible(r) && r.Of(FinalMetric).N > 0 && (best < 0 || r.Of(FinalMetric).Mean > arms[best].Of(FinalMetric).Mean) {
			best = i
		}
	}
	return best
}

// Finished counts the runs that have their result.
func (a *Analysis) Finished() int {
	n := 0
	for _, r := range a.Arms {
		n += r.Done + r.Diverged
	}
	return n
}

func (a *Analysis) Runs() int { return len(a.Arms) * len(a.Sweep.Manifest.Seeds) }

// Listed joins words: "a", "a and b", "a, b and c".
func Listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Divergence is "3 of 4 seeds (steps 20 to 40)".
func (a *Analysis) Divergence(r ArmResult) string {
	s := fmt.Sprintf("%d of %s", r.Diverged, textutil.Count(len(r.Runs), "seed"))
	if at := stepRange(r.DivergedAt); at != "" {
		s += " (" + at + ")"
	}
	return s
}

// SharedArm is an arm that stands in all comparisons; -1 where there is none.
func SharedArm(all []Comparison) int {
	for _, arm := range []int{all[0].ArmB, all[0].ArmA} {
		if !slices.ContainsFunc(all, func(c Comparison) bool { return c.ArmA != arm && c.ArmB != arm }) {
			return arm
		}
	}
	return -1
}

// Control says whether an arm is marked as one.
func (a *Analysis) Control(arm int) bool { return arm >= 0 && a.Arms[arm].Arm.Control }

// SameProblems says whether all arms were validated on as many problems.
func (a *Analysis) SameProblems() bool {
	return !slices.ContainsFunc(a.Arms, func(r ArmResult) bool { return r.Problems != a.Arms[0].Problems })
}
