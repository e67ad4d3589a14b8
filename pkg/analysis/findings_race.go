package analysis

import (
	"cmp"
	"math"
	"slices"
)

// raceParts sort the other arms of a sweep in which the data choose the best: each arm that another
// one beats ([ClearlyWorse]), then the best arm against each that can still be the best.
func (a *Analysis) raceParts() []Finding {
	var worse, open []Finding
	for i := range a.Arms {
		if a.Arms[i].Of(FinalMetric).N == 0 {
			continue
		}
		if f, ok := a.clearlyWorse(i); ok { // the best arm too: a control may beat it
			worse = append(worse, f)
		} else if i == a.Best {
			continue
		} else if c := a.Find(FinalMetric.Name, a.Best, i); c != nil {
			open = append(open, a.pairFinding(c))
		}
	}
	byMean := func(f, g Finding) int {
		mean := func(f Finding) float64 { return a.Arms[f.Arms[0]].Of(FinalMetric).Mean }
		return cmp.Compare(mean(f), mean(g))
	}
	slices.SortStableFunc(worse, byMean)
	slices.SortStableFunc(open, func(f, g Finding) int {
		return cmp.Compare(math.Abs(f.Numbers.Mean), math.Abs(g.Numbers.Mean))
	})
	return append(worse, open...)
}

// clearlyWorse is the finding on an arm that others beat: the one with the smallest adjusted p value first. An arm
// that diverged can't be the best, so it takes no other arm out.
func (a *Analysis) clearlyWorse(arm int) (Finding, bool) {
	var beaten []Comparison
	for i := range a.Arms {
		if c := a.Find(FinalMetric.Name, i, arm); c != nil && c.Separable && c.Mean > 0 && a.Arms[i].Diverged == 0 {
			beaten = append(beaten, *c)
		}
	}
	if len(beaten) == 0 {
		return Finding{}, false
	}
	slices.SortStableFunc(beaten, func(c, d Comparison) int { return cmp.Compare(c.PAdjusted, d.PAdjusted) })
	f := Finding{Kind: ClearlyWorse, Arms: []int{arm}, Metric: FinalMetric.Name, Numbers: beaten[0].Summary()}
	for i := range beaten {
		f.Arms = append(f.Arms, beaten[i].ArmA)
		f.Parts = append(f.Parts, a.pairFinding(&beaten[i]))
	}
	return f, true
}

// mostSeeds is the highest number of seeds that is worth a mention.
const mostSeeds = 100

// seedsSee is what this number of seeds can see in the comparison that the answer waits for, and how many
// would see a difference of the margin. It is a property of the spread alone: a number of seeds for the
// difference that was observed would be a function of its p value, and a test that is repeated until it
// is small errs more often than 5%.
func (a *Analysis) seedsSee() []Finding {
	c := a.deciding()
	if c == nil || !(c.Visible() > 0) {
		return nil
	}
	likely, most := c.SeedsFor(a.Margin)
	capped := func(n int) int {
		if n == 0 || n > mostSeeds {
			return mostSeeds + 1
		}
		return n
	}
	f := Finding{
		Kind: SeedsSee, Metric: c.Metric, Count: c.N,
		Numbers: &Summary{N: c.N, Mean: c.Visible(), SD: c.SD, Lo: math.NaN(), Hi: math.NaN()},
	}
	f.Of, f.Steps = capped(likely), []int{capped(most)}
	return []Finding{f}
}

// deciding is the comparison that the answer waits for: the interaction in a grid; where the best arm is looked
// for, that arm with the closest of those that can still be it; with a reference, the first that is open. nil if
// there is none, and where every arm diverged.
func (a *Analysis) deciding() *Comparison {
	open := a.finals()
	interaction := func(c Comparison) bool { return c.Kind == KindInteraction }
	if slices.ContainsFunc(open, interaction) {
		open = slices.DeleteFunc(open, func(c Comparison) bool { return !interaction(c) })
	}
	chosen := a.plan().chosen
	out := func(c Comparison) bool {
		return chosen && !(isCandidate(a.Arms[c.ArmA]) && isCandidate(a.Arms[c.ArmB]))
	}
	open = slices.DeleteFunc(open, func(c Comparison) bool {
		return c.Separable || c.Aside || c.N < 2 || c.ArmA >= 0 && (a.identical(c.ArmA, c.ArmB) || out(c))
	})
	if len(open) == 0 || a.Best < 0 && a.Sweep.Manifest.Reference == "" {
		return nil
	}
	if chosen {
		slices.SortStableFunc(open, func(c, d Comparison) int { return cmp.Compare(math.Abs(c.Mean), math.Abs(d.Mean)) })
	}
	return &open[0]
}
