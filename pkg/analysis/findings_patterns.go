package analysis

import (
	"cmp"
	"math"
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Patterns in the metrics of an arm explain its reward or overrule it. Each is a
// rule on numbers with these thresholds.
const (
	// shortShare: a length below this share of another is clearly shorter.
	shortShare = 0.9
	// The format is hacked if at least this share of completions is formatted, this
	// share is formatted and wrong, and training paid this much more than the answers
	// earned.
	hackedFormat = 0.9
	hackedWrong  = 0.8
	hackedPay    = 0.5
	// collapsedShare: a final reward below this share of the best on the way is a
	// collapse, as in the rule of training.
	collapsedShare = 0.5
	// learnedBy: a seed learned if its reward rose by more than this many standard
	// errors of a difference of two shares of the problems.
	learnedBy = 2.0
	// bimodalGap is the least distance between seeds that learned and seeds that did not; it is also at
	// least this many times as wide as the wider of the two groups.
	bimodalGap    = 0.1
	bimodalWidths = 2
	// sameUpdates: numbers of updates a step that are closer than this are equal.
	sameUpdates = 0.01
)

// formatsAndControls are the arms whose format is hacked, and the controls.
func (a *Analysis) formatsAndControls() []Finding {
	var out []Finding
	for i := range a.Arms {
		switch r := &a.Arms[i]; {
		case r.Of(FinalMetric).N == 0:
		case r.hacked():
			out = append(out, a.armFinding(FormatHacked, i, FinalMetric))
		case r.Arm.Control:
			out = append(out, a.controlFinding(i))
		}
	}
	return out
}

// hacked: nearly all completions have the format, more than before training,
// nearly all of them are wrong, the answers are no better than before, and the
// training reward paid for that.
func (r *ArmResult) hacked() bool {
	if r.Problems == 0 {
		return false
	}
	format, final := r.Of(FormatMetric).Mean, r.Of(FinalMetric).Mean
	return format >= hackedFormat && format > r.Of(InitialFormatMetric).Mean &&
		r.Of(FormattedWrongMetric).Mean/float64(r.Completions(FormattedWrongMetric)) >= hackedWrong &&
		final <= r.Of(InitialMetric).Mean &&
		r.Of(TrainRewardMetric).Mean-r.Of(TrainAnswerMetric).Mean >= hackedPay
}

// gain is the change of the reward over training.
func (r *ArmResult) gain() Summary { return sampledGain.of(r).Total }

// BelowBase: training lost more than the seeds explain. One seed can't show that.
func (r *ArmResult) BelowBase() bool { return r.gain().Hi < 0 }

// collapsed: the arm diverged in a seed, ended below its base level, or lost half of
// its best reward.
func (r *ArmResult) collapsed() bool {
	return r.Diverged > 0 || r.BelowBase() || r.LostHalf()
}

// LostHalf: the arm lost half of its best reward.
func (r *ArmResult) LostHalf() bool {
	return r.Of(FinalMetric).Mean < collapsedShare*r.Of(BestMetric).Mean
}

// controlFinding: a control must collapse, because its reward says nothing of the
// answers.
func (a *Analysis) controlFinding(arm int) Finding {
	r := &a.Arms[arm]
	if r.collapsed() {
		return a.armFinding(ControlFell, arm, FinalMetric)
	}
	if g := r.gain(); g.Lo > 0 {
		f := a.armFinding(ControlGained, arm, FinalMetric)
		f.Numbers = &g
		return f
	}
	return a.armFinding(ControlStayed, arm, FinalMetric)
}

// collapses counts the seeds of an arm that collapsed, and those of which it is known, which have a result: the run
// diverged, or ended below half of its own best reward.
func (r *ArmResult) collapses() (count, of int) {
	for k, run := range r.Runs {
		final, best := r.Of(FinalMetric).Values[k], r.Of(BestMetric).Values[k]
		switch {
		case run.State == rundir.StateDiverged, final < collapsedShare*best:
			count, of = count+1, of+1
		case stats.IsFinite(final):
			of++
		}
	}
	return count, of
}

// collapseRates counts the seeds that collapsed in each arm, if there is one, and says which arms do so more
// often than which ([stats.Collapse], adjusted by Holm over all pairs of arms). Of a few seeds without a
// collapse it says how often one may be still.
func (a *Analysis) collapseRates() []Finding {
	f := Finding{Kind: CollapseRate}
	var arms []armCollapses
	for i := range a.Arms {
		count, of := a.Arms[i].collapses()
		if of == 0 || a.Arms[i].Arm.Control {
			continue
		}
		arms = append(arms, armCollapses{i, count, of})
		if k := slices.IndexFunc(f.Parts, func(g Finding) bool { return g.Count == count && g.Of == of }); k >= 0 {
			f.Parts[k].Arms = append(f.Parts[k].Arms, i)
			continue
		}
		lo, hi := stats.ClopperPearson(count, of, stats.Alpha)
		f.Parts = append(f.Parts, Finding{
			Kind: SeedsCollapsed, Arms: []int{i}, Count: count, Of: of,
			Numbers: &Summary{N: of, Mean: float64(count) / float64(of), SD: math.NaN(), Lo: lo, Hi: hi},
		})
	}
	if !slices.ContainsFunc(arms, func(c armCollapses) bool { return c.count > 0 }) {
		return nil
	}
	slices.SortStableFunc(f.Parts, func(x, y Finding) int { return cmp.Compare(y.Numbers.Mean, x.Numbers.Mean) })
	f.Parts = append(f.Parts, collapsesMore(arms)...)
	return []Finding{f}
}

// armCollapses is an arm with its collapsed seeds, of those of which it is known.
type armCollapses struct{ arm, count, of int }

// collapsesMore compares the rates of collapse of every two of the arms.
func collapsesMore(arms []armCollapses) []Finding {
	var pairs []pair
	var ps []float64
	known := map[[4]int]float64{} // many arms have few counts, and the exact test is slow
	for i, x := range arms {
		for _, y := range arms[i+1:] {
			q, counts := pair{x.arm, y.arm}, [4]int{x.count, x.of, y.count, y.of}
			if x.count*y.of < y.count*x.of {
				q = pair{y.arm, x.arm}
			}
			if _, ok := known[counts]; !ok {
				known[counts], _ = stats.Collapse(x.count, x.of, y.count, y.of)
			}
			pairs, ps = append(pairs, q), append(ps, known[counts])
		}
	}
	var out []Finding
	for i, p := range stats.Holm(ps) {
		if p > stats.Alpha {
			continue
		}
		k := slices.IndexFunc(out, func(f Finding) bool { return f.Arms[0] == pairs[i].a })
		if k < 0 {
			k = len(out)
			out = append(out, Finding{
				Kind: CollapsesMore, Arms: []int{pairs[i].a},
				Numbers: &Summary{N: len(ps), SD: math.NaN(), Lo: math.NaN(), Hi: math.NaN()},
			})
		}
		out[k].Arms = append(out[k].Arms, pairs[i].b)
		out[k].Numbers.Mean = max(out[k].Numbers.Mean, p)
	}
	return out
}

// bimodalArms are the arms with a gap between the seeds that learned and those that
// did not. The mean of such an arm is where no seed is, and an interval by Student's
// t presumes seeds of one kind.
func (a *Analysis) bimodalArms() []Finding {
	var out []Finding
	for i := range a.Arms {
		r := &a.Arms[i]
		if r.Problems == 0 {
			continue
		}
		groups := [2]Finding{{Kind: SeedsStayed, Numbers: &Summary{}}, {Kind: SeedsLearned, Numbers: &Summary{}}}
		for k, rise := range r.gain().Values {
			if math.IsNaN(rise) {
				continue
			}
			p, q := r.Of(InitialMetric).Values[k], r.Of(FinalMetric).Values[k]
			group := &groups[0]
			if rise > learnedBy*math.Sqrt((float64(p*(1-p))+float64(q*(1-q)))/float64(r.Problems)) {
				group = &groups[1]
			}
			group.Seeds = append(group.Seeds, a.Sweep.Manifest.Seeds[k])
			group.Numbers.Values = append(group.Numbers.Values, q)
		}
		stayed, learned := groups[0].Numbers.Values, groups[1].Numbers.Values
		if len(stayed) == 0 || len(learned) == 0 || len(stayed)+len(learned) < fewSeeds {
			continue
		}
		width := func(x []float64) float64 { return slices.Max(x) - slices.Min(x) }
		gap := slices.Min(learned) - slices.Max(stayed)
		if gap < bimodalGap || gap < bimodalWidths*max(width(stayed), width(learned)) {
			continue
		}
		f := a.armFinding(Bimodal, i, FinalMetric)
		for k := range groups {
			*groups[k].Numbers = NewSummary(groups[k].Numbers.Values, FinalMetric.resolution(r), 0, 1)
			f.Parts = append(f.Parts, groups[k])
		}
		out = append(out, f)
	}
	return out
}

// stableWithClip are the arms that collapsed off-policy without a clip where others,
// with the same learning rate and number of updates a step, held with one; not if another of these collapsed as well.
func (a *Analysis) stableWithClip() []Finding {
	offPolicy := func(r *ArmResult) bool { return !r.Arm.Control && r.Of(UpdatesPerStepMetric).Mean > 1 }
	var out []Finding
	for i := range a.Arms {
		free := &a.Arms[i]
		if !offPolicy(free) || free.Of(ClipFractionMetric).N > 0 || !free.collapsed() {
			continue
		}
		f := a.armFinding(ClipHolds, i, FinalMetric)
		updates, rate := free.Of(UpdatesPerStepMetric).Mean, a.ConfigOf(i)[RateKey]
		fell := false
		for j := range a.Arms {
			clipped := &a.Arms[j]
			same := math.Abs(clipped.Of(UpdatesPerStepMetric).Mean-updates) < sameUpdates &&
				a.ConfigOf(j)[RateKey] == rate
			switch {
			case !same || !offPolicy(clipped) || clipped.Of(ClipFractionMetric).N == 0:
			case clipped.collapsed():
				fell = true
			default:
				f.Arms = append(f.Arms, j)
			}
		}
		if len(f.Arms) > 1 && !fell {
			out = append(out, f)
		}
	}
	return out
}

// short: arm x writes clearly shorter completions than arm y and than before
// training, beyond what the seeds explain, and neither arm collapsed.
func (a *Analysis) short(x, y int) bool {
	p, q := &a.Arms[x], &a.Arms[y]
	if x == y || p.Arm.Control || q.Arm.Control || p.collapsed() || q.collapsed() || p.hacked() {
		return false
	}
	c := a.Find(LengthMetric.Name, x, y)
	length := p.Of(LengthMetric).Mean
	return c != nil && c.Separable && length < shortShare*q.Of(LengthMetric).Mean &&
		length < shortShare*p.Of(InitialLengthMetric).Mean
}

func (a *Analysis) shortArms() []Finding {
	var out []Finding
	for x := range a.Arms {
		f := a.armFinding(ShortCompletion, x, LengthMetric)
		for y := range a.Arms {
			if a.short(x, y) {
				f.Parts = append(f.Parts, a.pairFinding(a.Find(LengthMetric.Name, y, x)))
			}
		}
		out = append(out, withAny(f, len(f.Parts))...)
	}
	return out
}

// shortReversed finds, in a grid, completions that are short at one value of a key
// and no longer at the other value of the other key.
func (a *Analysis) shortReversed() []Finding {
	g := gridOf(&a.Sweep.Manifest)
	if g == nil {
		return nil
	}
	sound := func(arm int) bool { return a.Arms[arm].Of(LengthMetric).N > 0 && !a.Arms[arm].collapsed() }
	x, y := g.Factors[0], g.Factors[1]
	var out []Finding
	for i := range 2 {
		for j := range 2 {
			arm, otherX, otherY, opposite := g.Arms[i][j], g.Arms[1-i][j], g.Arms[i][1-j], g.Arms[1-i][1-j]
			if !sound(otherX) || !sound(otherY) || !sound(opposite) {
				continue
			}
			f := a.armFinding(ShortReversed, arm, LengthMetric)
			f.Keys, f.Values = []string{x.Label, y.Label}, []string{x.Values[i], y.Values[j]}
			ends := func(by int, key, value string) {
				part := a.armFinding(ShortReversed, by, LengthMetric)
				part.Keys, part.Values = []string{key}, []string{value}
				f.Parts = append(f.Parts, part)
			}
			if a.short(arm, otherX) && !a.short(otherY, opposite) {
				ends(otherY, y.Label, y.Values[1-j])
			}
			if a.short(arm, otherY) && !a.short(otherX, opposite) {
				ends(otherX, x.Label, x.Values[1-i])
			}
			out = append(out, withAny(f, len(f.Parts))...)
		}
	}
	return out
}
