package analysis

import (
	"slices"

	"grpo/pkg/stats"
)

// Section is the part of a verdict that a finding belongs to.
type Section string

const (
	Headline Section = "headline" // the answer to the question, after what qualifies it
	Line     Section = "line"
	Caveat   Section = "caveat"
	Missing  Section = "missing" // what an unfinished sweep lacks
)

// Finding is one result of an analysis as data. Which fields it has depends on
// its kind; package report turns it into a sentence. Findings follow from the
// numbers and the manifest, never from the name of an arm.
type Finding struct {
	Section Section `json:"section,omitempty"` // empty for a part of another finding
	Kind    Kind    `json:"kind"`
	// Arms are indexes of arms. The arm that the finding is about is first; of a
	// difference, it is the arm that the second is subtracted from.
	Arms   []int  `json:"arms,omitempty"`
	Metric string `json:"metric,omitempty"` // its name, as in a comparison
	// Numbers are those of the metric of the first arm, or of a difference.
	Numbers *Summary  `json:"numbers,omitempty"`
	Bound   float64   `json:"bound,omitempty"` // of a difference, see [Comparison]
	Count   int       `json:"count,omitempty"` // Count of Of: finished runs of all runs, say
	Of      int       `json:"of,omitempty"`
	Seeds   []uint64  `json:"seeds,omitempty"`
	Steps   []int     `json:"steps,omitempty"`
	Keys    []string  `json:"keys,omitempty"`   // of the configuration
	Values  []string  `json:"values,omitempty"` // of the keys; other labels
	Parts   []Finding `json:"parts,omitempty"`
}

// Kind describes what a finding is. The comment of each kind names the fields it has.
type Kind string

// The headline: one answer, after what qualifies it.
const (
	NoResults     Kind = "no_results"         // no run of Of has a result
	Unfinished    Kind = "unfinished"         // Count runs of Of have one
	NotComparable Kind = "not_comparable"     // the arms were evaluated differently
	OtherContents Kind = "other_contents"     // Values: files of which the runs had different contents
	OnlyArm       Kind = "only_arm"           // Arms, Numbers: its final reward
	AllDiverged   Kind = "all_diverged"       // each arm in a seed; Keys: RateKey if the arms are rates
	NoneCompared  Kind = "nothing_compared"   // no two arms have a result yet, or none that may be the best; Keys as above
	Ranking       Kind = "ranking"            // Arms, Numbers: the arm that all Parts (pairs) compare with
	Race          Kind = "race"               // Arms, Numbers: the arm with the highest mean; Parts: ClearlyWorse, pairs with it
	BestRate      Kind = "best_learning_rate" // the same of learning rates, Values: the rate; then Parts on how rates failed
	ClearlyWorse  Kind = "clearly_worse"      // Arms: an arm, then those that beat it; Numbers, Parts: by how much
	Interaction   Kind = "interaction"        // the effect of Keys[0] depends on Keys[1]; Parts: its two effects
	Reversal      Kind = "reversal"           // the same, and the two effects have opposite signs
	NoInteraction Kind = "no_interaction"     // it is not known to; Parts: MainEffect of each key
	LadderTop     Kind = "ladder_top"         // Values: the highest difficulty where most seeds converge; Parts: RungConverged
	RungConverged Kind = "rung_converged"     // Arms, Numbers, Values: a difficulty; Count seeds of Of converged
	Effect        Kind = "effect"             // Numbers: of Keys[0], Values[0] less Values[1], at Values[2]
	MainEffect    Kind = "main_effect"        // the same, as the mean over the values of Keys[1]
)

// Pairs: Arms[0] less Arms[1] in Metric, with Numbers of the difference.
const (
	Beats       Kind = "beats"
	BeatenBy    Kind = "beaten_by"
	Open        Kind = "open"         // not separable: at most Bound
	SameWithin  Kind = "same_within"  // the same within the margin: at most Bound
	NotCompared Kind = "not_compared" // fewer than two seeds
	Identical   Kind = "identical"    // to the bit
	SeedsSee    Kind = "seeds_see"    // Count seeds see Numbers; Of, with a large spread Steps, see the margin
	Difference  Kind = "difference"   // a separable one, in a metric other than the final reward
)

// Lines.
const (
	// Learning rates: Arms, Numbers (final reward), Values (the rate); Parts: StillRising.
	RateBest        Kind = "rate_best"
	RateSlow        Kind = "rate_slow"      // below the best, worse, and still rising
	RateCollapsed   Kind = "rate_collapsed" // see collapsed
	RateWorse       Kind = "rate_worse"
	RateTied        Kind = "rate_tied"         // no other rate beats it
	RateUncompared  Kind = "rate_uncompared"   // there is no best, or it is not compared with it
	StillRising     Kind = "still_rising"      // Numbers: the gain over the last quarter
	BestAtLargest   Kind = "best_at_largest"   // of the rates with a result
	BestAtSmallest  Kind = "best_at_smallest"  //
	TunedBest       Kind = "tuned_best"        // Arms: the best point of a tuned arm, then its other points
	Diverged        Kind = "diverged"          // Arms, Numbers, Count seeds of Of, at Steps
	AtCeiling       Kind = "at_ceiling"        // all arms, in the final reward
	AtFloor         Kind = "at_floor"          //
	FormatHacked    Kind = "format_hacked"     // Arms
	ControlFell     Kind = "control_collapsed" // Arms
	ControlGained   Kind = "control_gained"    // Arms, Numbers: the gain over the base level
	ControlStayed   Kind = "control_unchanged" // Arms
	CollapseRate    Kind = "collapse_rate"     // Parts: SeedsCollapsed of each arm; CollapsesMore
	SeedsCollapsed  Kind = "seeds_collapsed"   // Arms: each Count seeds of Of; Numbers: the share, with its interval
	CollapsesMore   Kind = "collapses_more"    // Arms: the first more often than each other; Numbers: the largest p
	Bimodal         Kind = "bimodal"           // Arms, Numbers; Parts: SeedsStayed, SeedsLearned
	SeedsStayed     Kind = "seeds_not_learned" // Seeds, Numbers
	SeedsLearned    Kind = "seeds_learned"     // Seeds, Numbers
	ClipHolds       Kind = "clip_holds"        // Arms: one that collapsed without a clip, those that were stable with one
	ShortCompletion Kind = "short_completions" // Arms, Metric, Numbers; Parts: Differences of longer arms
	ShortReversed   Kind = "short_reversed"    // Arms, Keys, Values: of a grid; Parts: the values that end it
	Trend           Kind = "trend"             // Metric, Parts: Differences
	// Arms, Metric (final or greedy), Numbers: the gain over the base level; Parts: GainByFormat and
	// GainByAnswers, if the base level has formatted completions, and GainSources of greedy decoding.
	GainSources   Kind = "gain_sources"
	GainByFormat  Kind = "gain_by_format"
	GainByAnswers Kind = "gain_by_answers"
	// Keys: the kind of errors of a verifier. Up to the first of Values, a rate, no arm is clearly worse than the
	// reference, which has no errors, and what errors cost is at most Bound.
	NoiseHarmless Kind = "noise_harmless" // Arms: the reference; of no rate an arm is clearly worse
	NoiseKnee     Kind = "noise_knee"     // the last of Values is the first that is; Arms: its arm and the reference, Numbers
)

// Caveats.
const (
	RewardMeasure      Kind = "reward_measure"             // Of validation problems; 0 where arms differ in them
	Intervals          Kind = "intervals"                  // Values: what the seed changes
	IntervalsCrossed   Kind = "intervals_and_problems"     // the same, where differences cover other problems too
	AdjustedPlanned    Kind = "adjusted_over_comparisons"  // Count; Values: the method
	AdjustedAll        Kind = "adjusted_over_all_pairs"    // the same; because the results chose the anchor
	NotOnTest          Kind = "not_repeated_on_test"       // Parts: pairs or contrasts with the Numbers of the test problems
	FewProblems        Kind = "few_problems"               // Count
	UnequalSpread      Kind = "unequal_spread"             // Arms: the widest, the narrowest
	SurvivorsBiased    Kind = "survivors_biased"           // halving chose the arms that were ahead
	FewSeeds           Kind = "few_seeds"                  // Count
	ChosenOnValidation Kind = "chosen_on_validation"       //
	HeldFixed          Kind = "held_fixed"                 // Keys, Values
	EvaluationsDiffer  Kind = "evaluation_settings_differ" // Values
	EntropyDiffers     Kind = "entropy_not_comparable"     // Values: the temperatures
	TunedArms          Kind = "tuned_arms"                 // Keys: over which; Values
	Confounded         Kind = "confounded"                 // Keys in which all compared arms differ
	SomeConfounded     Kind = "some_confounded"            // Parts: Confounded, with Arms
	SharedRate         Kind = "shared_learning_rate"       // Values: the rate, where it is known
	MixedArms          Kind = "mixed_arms"                 // Parts: an arm and the Keys in which its runs differ
	ArmsStopped        Kind = "arms_stopped"               // Parts: ArmStopped
	ArmStopped         Kind = "arm_stopped"                // Arms, Steps; Values: its reward then
	SeedsAdded         Kind = "seeds_added_later"          // Seeds, when Count runs of Of had finished
	SeedsAlone         Kind = "seeds_alone"                // Seeds that were added; Parts: pairs of these alone
	SeedsPooled        Kind = "seeds_pooled"               // Parts: pairs over all Count seeds
	Looks              Kind = "looks"                      // Count of Of were taken, at Steps seeds; Values: levels in percent
	LookOut            Kind = "look_out"                   // Arms: one that is out, and by which; Count seeds; Values: why
	LookEnd            Kind = "look_end"                   // Count seeds; Values: why the sweep ended
	Note               Kind = "note"                       // Values: a note of the manifest
)

// Missing runs.
const (
	RunsMissing Kind = "runs_missing"      // Count runs of Of
	RunMissing  Kind = "run_missing"       // Arms, Seeds, Values: state and error; Steps: its last
	MoreMissing Kind = "more_runs_missing" // Count
	LogsMissing Kind = "logs_missing"      // Count finished runs, Values: the files
)

// rules find what a verdict has, in its order.
var rules = []struct {
	section Section
	find    func(*Analysis) []Finding
	results bool // it needs a finished run
}{
	{Headline, (*Analysis).headline, false},
	{Line, (*Analysis).rateFindings, true},
	{Line, (*Analysis).tunedFindings, true},
	{Line, (*Analysis).divergedArms, true},
	{Line, (*Analysis).noiseKnees, true},
	{Line, (*Analysis).finalFindings, true},
	{Line, (*Analysis).limits, true},
	{Line, (*Analysis).seedsSee, true},
	{Line, (*Analysis).gainFindings, true},
	{Line, (*Analysis).formatsAndControls, true},
	{Line, (*Analysis).collapseRates, true},
	{Line, (*Analysis).bimodalArms, true},
	{Line, (*Analysis).stableWithClip, true},
	{Line, (*Analysis).shortArms, true},
	{Line, (*Analysis).shortReversed, true},
	{Line, (*Analysis).trends, true},
	{Caveat, (*Analysis).onTest, true},
	{Caveat, (*Analysis).measures, true},
	{Caveat, (*Analysis).unequalSpread, true},
	{Caveat, (*Analysis).heldFixed, false},
	{Caveat, (*Analysis).evaluationsDiffer, false},
	{Caveat, (*Analysis).tunedCaveat, false},
	{Caveat, (*Analysis).confounded, false},
	{Caveat, (*Analysis).sharedRate, false},
	{Caveat, (*Analysis).mixedArms, false},
	{Caveat, (*Analysis).stoppedArms, false},
	{Caveat, (*Analysis).lookFindings, false},
	{Caveat, (*Analysis).addedSeeds, false},
	{Caveat, (*Analysis).notes, false},
	{Missing, (*Analysis).missingRuns, false},
}

// findings are what the rules find.
func (a *Analysis) findings() []Finding {
	var out []Finding
	for _, rule := range rules {
		if rule.results && a.Finished() == 0 {
			continue
		}
		for _, f := range rule.find(a) {
			f.Section = rule.section
			out = append(out, f)
		}
	}
	return out
}

// armFinding is a finding on an arm, with its numbers of a metric.
func (a *Analysis) armFinding(kind Kind, arm int, m *Metric) Finding {
	numbers := a.Arms[arm].Of(m)
	return Finding{Kind: kind, Arms: []int{arm}, Metric: m.Name, Numbers: &numbers}
}

// Summary is the difference as a summary over the seeds.
func (c *Comparison) Summary() *Summary {
	return &Summary{Values: c.Diffs, N: c.N, Mean: c.Mean, SD: c.SD, Lo: c.Lo, Hi: c.Hi}
}

// pairFinding is what a comparison of two arms shows.
func (a *Analysis) pairFinding(c *Comparison) Finding {
	f := Finding{
		Kind: Open, Arms: []int{c.ArmA, c.ArmB}, Metric: c.Metric, Numbers: c.Summary(),
	}
	if stats.IsFinite(c.Bound) {
		f.Bound = c.Bound
	}
	switch {
	case c.Metric != FinalMetric.Name:
		f.Kind = Difference
	case a.identical(c.ArmA, c.ArmB):
		f.Kind = Identical
	case c.N < 2:
		f.Kind = NotCompared
	case c.Separable && c.Mean > 0:
		f.Kind = Beats
	case c.Separable:
		f.Kind = BeatenBy
	case c.Same:
		f.Kind = SameWithin
	}
	return f
}

// FindingOf is what a comparison shows.
func (a *Analysis) FindingOf(c *Comparison) Finding {
	switch c.Kind {
	case KindInteraction:
		return a.interactionFinding(c)
	case KindEffect:
		return a.mainEffect(c)
	}
	return a.pairFinding(c)
}

// headline answers the question, after what qualifies the answer.
func (a *Analysis) headline() []Finding {
	done, runs := a.Finished(), a.Runs()
	if done == 0 {
		return []Finding{{Kind: NoResults, Of: runs}}
	}
	var out []Finding
	if done < runs {
		out = append(out, Finding{Kind: Unfinished, Count: done, Of: runs})
	}
	if files := a.OtherContents(); len(files) > 0 {
		out = append(out, Finding{Kind: OtherContents, Values: files})
	}
	if a.armsDiffer(evalSettingsOf) != nil {
		out = append(out, Finding{Kind: NotComparable})
	}
	return append(out, a.answer())
}

// FindingsOf are the findings of some kinds, in their order.
func (a *Analysis) FindingsOf(kinds ...Kind) (out []*Finding) {
	for i := range a.Findings {
		if slices.Contains(kinds, a.Findings[i].Kind) {
			out = append(out, &a.Findings[i])
		}
	}
	return out
}

func (a *Analysis) answer() Finding {
	finals := a.finals()
	interaction := slices.IndexFunc(finals, func(c Comparison) bool { return c.Kind == KindInteraction })
	switch {
	case interaction >= 0:
		return a.interactionFinding(&finals[interaction])
	case a.RateAxis() != nil:
		return a.bestRate()
	case a.Ladder() != nil:
		return a.ladder()
	case len(a.Arms) == 1:
		return a.armFinding(OnlyArm, 0, FinalMetric)
	case len(finals) == 1:
		return a.pairFinding(&finals[0])
	case a.Best < 0 && a.Sweep.Manifest.Reference == "":
		return a.noBest()
	case len(finals) == 0:
		return Finding{Kind: NoneCompared}
	}
	if a.plan().chosen && a.Best >= 0 {
		f := a.armFinding(Race, a.Best, FinalMetric)
		f.Parts = a.raceParts()
		return f
	}
	finals = slices.DeleteFunc(finals, func(c Comparison) bool { return c.Aside })
	f := a.armFinding(Ranking, sharedArm(finals), FinalMetric)
	for i := range finals {
		f.Parts = append(f.Parts, a.pairFinding(&finals[i]))
	}
	return f
}

// AllDiverged reports whether every arm that may be the best diverged in a seed.
func (a *Analysis) AllDiverged() bool {
	arms := slices.DeleteFunc(slices.Clone(a.Arms), func(r ArmResult) bool { return r.Arm.Control })
	return len(arms) > 0 && !slices.ContainsFunc(arms, func(r ArmResult) bool { return r.Diverged == 0 })
}

// noBest answers where no arm is the best: others than those that diverged may have no result, or be beaten.
func (a *Analysis) noBest(keys ...string) Finding {
	if a.AllDiverged() {
		return Finding{Kind: AllDiverged, Keys: keys}
	}
	return Finding{Kind: NoneCompared, Keys: keys}
}

// finals are the comparisons of the final reward, the contrasts of a grid too.
func (a *Analysis) finals() []Comparison {
	other := func(c Comparison) bool { return c.Metric != FinalMetric.Name }
	return slices.DeleteFunc(slices.Clone(a.Comparisons), other)
}

// mainEffect is the contrast of one key of a grid.
func (a *Analysis) mainEffect(c *Comparison) Finding {
	g := gridOf(&a.Sweep.Manifest)
	k := 0
	if c.A != g.Factors[0].Label+" "+g.Factors[0].Shown[1] {
		k = 1
	}
	x, y := g.Factors[k], g.Factors[1-k]
	return Finding{
		Kind: MainEffect, Metric: c.Metric, Numbers: c.Summary(), Bound: c.Bound,
		Keys: []string{x.Label, y.Label}, Values: []string{x.Values[1], x.Values[0]},
	}
}

// interactionFinding reports whether the effect of the first key of a grid depends on
// the second.
func (a *Analysis) interactionFinding(c *Comparison) Finding {
	g := gridOf(&a.Sweep.Manifest)
	x, y := g.Factors[0], g.Factors[1]
	f := Finding{
		Kind: NoInteraction, Metric: c.Metric, Keys: []string{x.Label, y.Label}, Numbers: c.Summary(), Bound: c.Bound,
	}
	if !c.Separable {
		for i := range a.Comparisons {
			if a.Comparisons[i].Kind == KindEffect && a.Comparisons[i].N > 0 {
				f.Parts = append(f.Parts, a.mainEffect(&a.Comparisons[i]))
			}
		}
		return f
	}
	var effects [2]Comparison
	for j := range effects {
		second, first := g.Arms[1][j], g.Arms[0][j]
		effects[j] = a.comparePair(FinalMetric, pair{second, first})
		f.Parts = append(f.Parts, Finding{
			Kind: Effect, Arms: []int{second, first}, Metric: c.Metric, Numbers: effects[j].Summary(),
			Keys: f.Keys, Values: []string{x.Values[1], x.Values[0], y.Values[j]},
		})
	}
	first, second := effects[0], effects[1]
	f.Kind = Interaction
	if first.Lo > 0 && second.Hi < 0 || first.Hi < 0 && second.Lo > 0 {
		f.Kind = Reversal
	}
	return f
}

// divergedArms are the arms that diverged. Controls, tuned arms and learning rates
// have findings of their own.
func (a *Analysis) divergedArms() []Finding {
	var out []Finding
	for i, r := range a.Arms {
		if r.Diverged == 0 || r.Arm.Control || a.Sweep.Manifest.BestOver != "" || a.RateAxis() != nil {
			continue
		}
		f := a.armFinding(Diverged, i, FinalMetric)
		f.Count, f.Of, f.Steps = r.Diverged, r.Trained(), r.DivergedSteps()
		out = append(out, f)
	}
	return out
}

// A task can't separate arms that are all at or beyond one of these means.
const (
	ceilingReward = 0.98
	floorReward   = 0.02
)

// finalFindings are the comparisons of the final reward, unless the headline has the
// only one. Learning rates have findings of their own.
func (a *Analysis) finalFindings() []Finding {
	var out []Finding
	finals := a.finals()
	for i := range finals {
		c := &finals[i]
		empty := c.Kind == KindEffect && c.N == 0
		if len(finals) > 1 && c.Kind != KindInteraction && !empty && !c.Aside && a.RateAxis() == nil {
			out = append(out, a.FindingOf(c))
		}
	}
	return out
}

// limits reports that the measure has no room left.
func (a *Analysis) limits() []Finding {
	if len(a.Arms) < 2 || a.Ladder() != nil {
		return nil
	}
	ceiling, floor := true, true
	for _, r := range a.Arms {
		final := r.Of(FinalMetric)
		ceiling, floor = ceiling && final.Mean >= ceilingReward, floor && final.Mean <= floorReward
	}
	switch {
	case ceiling:
		return []Finding{{Kind: AtCeiling, Metric: FinalMetric.Name}}
	case floor:
		return []Finding{{Kind: AtFloor, Metric: FinalMetric.Name}}
	}
	return nil
}

// trends are the other metrics in which arms differ separably, except differences
// that a pattern has reported, and how fast an arm that collapsed reached its best.
func (a *Analysis) trends() []Finding {
	var out []Finding
	for _, m := range Metrics {
		f := Finding{Kind: Trend, Metric: m.Name}
		for _, c := range a.Comparisons {
			x, y := c.ArmA, c.ArmB
			switch {
			case c.Metric != m.Name || m == FinalMetric || !c.Separable:
			case m == LengthMetric && (a.short(x, y) || a.short(y, x)):
			case m == StepsTo90Metric && (a.Arms[x].collapsed() || a.Arms[y].collapsed()):
			default:
				f.Parts = append(f.Parts, a.pairFinding(&c))
			}
		}
		out = append(out, withAny(f, len(f.Parts))...)
	}
	return out
}

// sharedArm is an arm that is in all comparisons; -1 where there is none.
func sharedArm(all []Comparison) int {
	for _, arm := range []int{all[0].ArmB, all[0].ArmA} {
		if !slices.ContainsFunc(all, func(c Comparison) bool { return c.ArmA != arm && c.ArmB != arm }) {
			return arm
		}
	}
	return -1
}
