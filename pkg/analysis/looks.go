package analysis

import (
	"fmt"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Planned looks: a sweep of --seeds 4..16 compares its arms when each has 4, 8 and 16 seeds. Each look tests
// at its own level, and the levels add up to 5%, so that any claim at any look is wrong in at most 5% of
// sweeps (Bonferroni). A p value is the smallest over the looks that were taken of adjusted·Alpha/Level,
// as in [stats.Sequential]. An arm that is out has no seeds of later looks: its comparisons keep their
// claims, and stay in the family with p = 1.

// looks are the looks that were taken, the last one also if nobody wrote that down.
func (a *Analysis) looks() []sweepdir.Look {
	m := &a.Sweep.Manifest
	if next := m.NextLook(); next >= 0 && next == len(m.Looks)-1 && a.Sweep.Finished() {
		return m.Looks
	}
	return m.Looks[:m.LooksTaken()]
}

// HasLookLevels reports whether intervals of differences are at the levels of planned looks instead of 95%.
func (a *Analysis) HasLookLevels() bool {
	return slices.ContainsFunc(a.Comparisons, func(c Comparison) bool { return c.Level > 0 && c.Level != stats.Alpha })
}

// isTested reports whether a look was taken that tests.
func (a *Analysis) isTested() bool {
	taken := a.looks()
	return len(taken) > 0 && !taken[len(taken)-1].Choice
}

// lookOf is the last look that was taken with both arms of a comparison; the first look while there is none.
func (a *Analysis) lookOf(c *Comparison) sweepdir.Look {
	m := &a.Sweep.Manifest
	for k := len(a.looks()) - 1; k > 0; k-- {
		if a.isIn(c, k) {
			return m.Looks[k]
		}
	}
	if m.Looks[0].Choice {
		return m.Looks[1]
	}
	return m.Looks[0]
}

// isIn reports whether both arms of a comparison have the seeds of a look. All arms of a grid have them.
func (a *Analysis) isIn(c *Comparison, look int) bool {
	m := &a.Sweep.Manifest
	return c.ArmA < 0 || m.GoesOn(c.ArmA, look) && m.GoesOn(c.ArmB, look)
}

// adjustLooks adjusts the p values of comparisons of the final reward over the looks and over the family.
func (a *Analysis) adjustLooks(all []Comparison) {
	adjusted, same := make([]float64, len(all)), make([]float64, len(all))
	for i := range all {
		adjusted[i], same[i] = 1, 1
		all[i].Ordered = true
	}
	from := a.Sweep.Manifest.ChosenOn()
	before := from
	for k, look := range a.looks() {
		if look.Choice {
			continue
		}
		p, q, tost := make([]float64, len(all)), make([]float64, len(all)), make([]float64, len(all))
		sofar := make([]Comparison, len(all))
		for i := range all {
			p[i], q[i], tost[i] = 1, -1, 1
			sofar[i].Diffs = all[i].Diffs[from:look.Seeds]
			if !a.isIn(&all[i], k) || len(stats.Finite(all[i].Diffs[before:look.Seeds])) == 0 {
				continue
			}
			if e, _ := a.estimate(&all[i], from, look.Seeds); stats.IsFinite(e.P) {
				sofar[i].N = e.N
				p[i], q[i], tost[i] = e.P, stats.MeanSquare(sofar[i].Diffs), e.TOST(a.Margin)
			}
		}
		weight := stats.OrderedWeight
		if !sameSeeds(sofar, 0, look.Seeds-from) {
			weight = 0
		}
		for i, x := range stats.Ordered(p, q, weight) {
			adjusted[i] = min(adjusted[i], x*stats.Alpha/look.Level)
			all[i].Ordered = all[i].Ordered && weight > 0
		}
		for i, x := range stats.Holm(tost) {
			same[i] = min(same[i], x*stats.Alpha/look.Level)
		}
		before = look.Seeds
	}
	for i := range all {
		c := &all[i]
		if c.Family = len(all); c.N < 2 {
			continue
		}
		c.PAdjusted, c.Separable = adjusted[i], adjusted[i] <= stats.Alpha
		c.PSame, c.Same = same[i], same[i] <= stats.Alpha
	}
}

// Decide is the decision at the next look of a sweep, by the final rewards of the runs up to it. It is
// an error if an arm that is still in has fewer than two of them.
func Decide(sw *sweepdir.Sweep) (sweepdir.Decision, error) {
	m := sw.Manifest
	k := m.NextLook()
	if k < 0 {
		return sweepdir.Decision{}, fmt.Errorf("decide the looks of %s: none is left", sw.Dir)
	}
	look := m.Looks[k]
	now := &sweepdir.Sweep{Dir: sw.Dir, Manifest: m}
	now.Manifest.Seeds = m.Seeds[:look.Seeds]
	// With it the sweep would end: its comparisons are those of this look.
	now.Manifest.Looks = slices.Clone(m.Looks[:k+1])
	now.Manifest.Looks[k].Taken = &sweepdir.Decision{Ended: sweepdir.EndLast}
	if look.Choice {
		now.Manifest.Looks = nil
	}
	for _, s := range sw.Runs {
		if m.LookOf(s.Entry) <= k {
			now.Runs = append(now.Runs, s)
		}
	}
	a, err := compare(now, marginOf(now))
	if err != nil {
		return sweepdir.Decision{}, err
	}
	if look.Choice {
		return a.choose()
	}
	for i := range a.Arms {
		if n := len(stats.Finite(a.Arms[i].Of(FinalMetric).Values[m.ChosenOn():])); n < 2 && m.GoesOn(i, k) {
			return sweepdir.Decision{}, fmt.Errorf("the look at %d seeds needs two finished runs of each arm, and %q has %d",
				look.Seeds, a.Arms[i].Arm.Name, n)
		}
	}
	return a.decide(m, k), nil
}

// choose is the choice of the best point of each tuned arm.
func (a *Analysis) choose() (d sweepdir.Decision, err error) {
	for _, t := range a.tunedArms() {
		if t.best < 0 {
			return d, fmt.Errorf("the choice of a point needs a finished run of %q or of another point of its arm",
				a.Arms[t.points[0]].Arm.Name)
		}
		d.GoOn = append(d.GoOn, t.best)
		for _, k := range t.points {
			if k != t.best {
				d.Out = append(d.Out, sweepdir.ArmOut{Arm: k, Why: sweepdir.OutWorse, By: t.best})
			}
		}
	}
	slices.Sort(d.GoOn)
	return d, nil
}

// decide is [Decide] for an analysis that ends with look k of the manifest.
func (a *Analysis) decide(m sweepdir.Manifest, k int) sweepdir.Decision {
	open, out := a.openPairs(m, k)
	last := m.Looks[len(m.Looks)-1]
	last.Seeds -= m.ChosenOn()
	futile := len(open) > 0 && !slices.ContainsFunc(open, func(c Comparison) bool { return !c.isFutile(a.Margin, last) })
	d := sweepdir.Decision{GoOn: []int{}, Out: out}
	switch {
	case len(open) == 0:
		d.Ended = sweepdir.EndAnswered
	case k == len(m.Looks)-1:
		d.Ended = sweepdir.EndLast
	case futile:
		d.Ended = sweepdir.EndFutile
	default:
		for i := range a.Arms {
			has := func(c Comparison) bool { return c.ArmA == i || c.ArmB == i || c.ArmA < 0 }
			if m.GoesOn(i, k) && slices.ContainsFunc(open, has) {
				d.GoOn = append(d.GoOn, i)
			}
		}
	}
	return d
}

// openPairs are the comparisons at a look that more seeds may still answer, and the arms that are out:
// of all contrasts of a grid; of every arm with the reference; or of the best arm with each that can
// still be it.
func (a *Analysis) openPairs(m sweepdir.Manifest, k int) (open []Comparison, out []sweepdir.ArmOut) {
	race := a.plan().chosen
	gone := map[int]bool{}
	drop := func(arm, by int, why string) {
		if !gone[arm] && m.GoesOn(arm, k) {
			out = append(out, sweepdir.ArmOut{Arm: arm, Why: why, By: by})
		}
		gone[arm] = true
	}
	anchor := a.Best
	if race {
		for i := range a.Arms {
			if f, ok := a.clearlyWorse(i); ok {
				drop(i, f.Arms[1], sweepdir.OutBeaten)
			} else if anchor >= 0 && a.Arms[i].Diverged > 0 {
				drop(i, i, sweepdir.OutDiverged)
			}
			if !m.GoesOn(i, k) {
				gone[i] = true
			}
		}
		if anchor < 0 || gone[anchor] {
			anchor = -1
			for i := range a.Arms {
				if !gone[i] && (anchor < 0 || a.Arms[i].Of(FinalMetric).Mean > a.Arms[anchor].Of(FinalMetric).Mean) {
					anchor = i
				}
			}
		}
	}
	for _, c := range a.finals() {
		if race {
			if c.ArmA != anchor && c.ArmB != anchor || gone[c.ArmA] || gone[c.ArmB] {
				continue
			}
			if c.ArmA != anchor {
				c = c.swapped()
			}
			if a.isSame(&c) {
				drop(c.ArmB, anchor, sweepdir.OutSame)
				continue
			}
		} else if !a.isIn(&c, k) {
			continue
		} else if c.Separable || a.isSame(&c) {
			if c.ArmA >= 0 && c.Separable {
				drop(c.ArmA, c.ArmB, sweepdir.OutSeparated)
			} else if c.ArmA >= 0 {
				drop(c.ArmA, c.ArmB, sweepdir.OutSame)
			}
			continue
		}
		open = append(open, c)
	}
	return open, out
}

// isSame: the arms are the same within the margin, or the same experiment.
func (a *Analysis) isSame(c *Comparison) bool {
	return c.Same || c.ArmA >= 0 && a.identical(c.ArmA, c.ArmB)
}

// isFutile: the difference is within the margin, and a true one of the margin would need more than twice
// the seeds of the last look.
func (c *Comparison) isFutile(margin float64, last sweepdir.Look) bool {
	n := c.pairsFor(margin, max(c.SD, c.Resolution), last.Level)
	return math.Abs(c.Mean) < margin && (n == 0 || n > 2*last.Seeds)
}

// lookFindings say which looks were taken and why the sweep ended.
func (a *Analysis) lookFindings() []Finding {
	m := &a.Sweep.Manifest
	if len(m.Looks) == 0 || m.ChosenOn() > 0 && len(m.Looks) == 2 { // nothing but the choice was planned
		return nil
	}
	f := Finding{Kind: Looks}
	taken := a.looks()
	f.Count, f.Of = len(taken), len(m.Looks)
	for k, l := range m.Looks {
		if l.Choice {
			f.Of--
			f.Count = max(0, f.Count-1)
			continue
		}
		l.Seeds -= m.ChosenOn()
		f.Steps = append(f.Steps, l.Seeds)
		f.Values = append(f.Values, textutil.Number(math.Round(1e5*l.Level)/1e3))
		if k >= len(taken) || l.Taken == nil {
			continue
		}
		for _, out := range l.Taken.Out {
			if l.Taken.Ended != "" {
				break // the verdict names them
			}
			f.Parts = append(f.Parts, Finding{
				Kind: LookOut, Arms: []int{out.Arm, out.By}, Count: l.Seeds, Values: []string{out.Why},
			})
		}
		if l.Taken.Ended != "" {
			f.Parts = append(f.Parts, Finding{Kind: LookEnd, Count: l.Seeds, Values: []string{l.Taken.Ended}})
		}
	}
	return []Finding{f}
}

// Seeds that were added without a plan: the claims are those of the first seeds, because a test that is
// repeated when its result is known errs more often than 5%. The added seeds are tested alone.

// claimed are the seeds, by their place in the manifest, that claims are made from: those before any were
// added, or, if that is a single seed, which shows nothing, the first that were added.
func (a *Analysis) claimed() (from, to int) {
	m := &a.Sweep.Manifest
	all := len(m.Seeds)
	if len(m.Added) == 0 || len(m.Looks) > 0 {
		return min(m.ChosenOn(), all), all
	}
	start := func(k int) int {
		if k >= len(m.Added) {
			return all
		}
		return max(0, slices.Index(m.Seeds, m.Added[k].Seeds[0]))
	}
	if to = start(0); to < 2 {
		from, to = to, start(1)
	}
	return from, to
}

// NotClaimed are the seeds that claims leave out of a sweep to which seeds were added without a plan.
func (a *Analysis) NotClaimed() []uint64 {
	m := a.Sweep.Manifest
	if len(m.Added) == 0 {
		return nil
	}
	from, to := a.claimed()
	return slices.Concat(m.Seeds[:from], m.Seeds[to:])
}

// OfClaimed are the values x of the seeds that claims are made from, and NaN for the others: those on which points of
// tuned arms were chosen, and those that were added without a plan.
func (a *Analysis) OfClaimed(x []float64) []float64 {
	from, to := a.claimed()
	out := slices.Clone(x)
	for i := range out {
		if i < from || i >= to {
			out[i] = math.NaN()
		}
	}
	return out
}

// judge sets what a claim about a comparison is made from: the estimate over the seeds of [Analysis.claimed],
// with the interval and the bound of its look.
func (a *Analysis) judge(c *Comparison) {
	from, to := a.claimed()
	c.all, c.Diffs = c.Diffs, a.OfClaimed(c.Diffs)
	c.MeanSquare = stats.MeanSquare(c.Diffs[from:to])
	var e stats.Estimate
	if e, c.Crossed = a.estimate(c, from, to); c.Crossed {
		c.PSeeds = stats.StudentT(c.Diffs[from:to], c.Resolution).P
	}
	c.use(e)
	if len(a.Sweep.Manifest.Looks) > 0 {
		c.Level = a.lookOf(c).Level
		c.Lo, c.Hi = c.estimate.Interval(c.Level)
		c.Bound = c.estimate.Bound(c.Level)
	}
}

// addedSeeds are the caveats on seeds that were added later, each with what these seeds show alone, and the
// differences over all seeds, which are no claims.
func (a *Analysis) addedSeeds() []Finding {
	var out []Finding
	m := &a.Sweep.Manifest
	from, to := a.claimed()
	for _, added := range m.Added {
		out = append(out, Finding{Kind: SeedsAdded, Seeds: added.Seeds, Count: added.Finished, Of: added.Runs})
		if m.Seeds[from] != added.Seeds[0] {
			out = append(out, a.alone(added)...)
		}
	}
	if len(out) == 0 || to-from == len(m.Seeds) {
		return out
	}
	f := Finding{Kind: SeedsPooled, Count: len(m.Seeds)}
	for _, c := range a.finals() {
		if all, _ := a.crossed(c.all, 0, c.contrast, c.Resolution, lastValidation); !c.Aside && all.N > max(c.N, 1) {
			f.Parts = append(f.Parts, Finding{
				Kind: SeedsPooled, Arms: armsOf(&c), Values: []string{c.A, c.B}, Numbers: summaryOf(c.all, all),
			})
		}
	}
	return append(out, withAny(f, len(f.Parts))...)
}

// alone are the comparisons of seeds that were added, as if they were a sweep of their own.
func (a *Analysis) alone(added sweepdir.Addition) []Finding {
	m := a.Sweep.Manifest
	if len(m.Looks) > 0 {
		return nil
	}
	own := &sweepdir.Sweep{Dir: a.Sweep.Dir, Manifest: m}
	own.Manifest.Seeds, own.Manifest.Added = added.Seeds, nil
	for _, s := range a.Sweep.Runs {
		if slices.Contains(added.Seeds, s.Seed) {
			own.Runs = append(own.Runs, s)
		}
	}
	alone, err := compare(own, a.Margin) // the whole sweep was analysed: it has no error
	if err != nil {
		return nil
	}
	f := Finding{Kind: SeedsAlone, Seeds: added.Seeds}
	for _, c := range alone.finals() {
		if c.Aside || c.N < 2 {
			continue
		}
		part := Finding{Kind: Open, Arms: armsOf(&c), Values: []string{c.A, c.B}, Numbers: c.Summary(), Bound: c.Bound}
		if c.Separable && c.Mean > 0 {
			part.Kind = Beats
		} else if c.Separable {
			part.Kind = BeatenBy
		}
		f.Parts = append(f.Parts, part)
	}
	return withAny(f, len(f.Parts))
}

// armsOf are the arms of a comparison; nil for a contrast.
func armsOf(c *Comparison) []int {
	if c.ArmA < 0 {
		return nil
	}
	return []int{c.ArmA, c.ArmB}
}

// Trained counts the runs of an arm that were trained or shall be: not those of seeds that it does not get.
func (r *ArmResult) Trained() int {
	n := len(r.Runs)
	for _, s := range r.Runs {
		if sweepdir.LeftOut(s.State) && s.Run == nil {
			n--
		}
	}
	return n
}
