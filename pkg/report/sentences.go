package report

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
)

// sentence is a finding in words, without its full stop. Every sentence of a verdict
// is made here; package analysis decides which there are.
func (a *Report) sentence(f *analysis.Finding) string {
	values := strings.Join(f.Values, ", ")
	switch f.Kind {
	// The headline.
	case analysis.NoResults:
		return fmt.Sprintf("No results yet (0 of %s finished)", textutil.Count(f.Of, "run"))
	case analysis.Unfinished:
		return fmt.Sprintf("So far, with %d of %s: ", f.Count, textutil.Count(f.Of, "run"))
	case analysis.NotComparable:
		return "The arms were evaluated with different settings and are not comparable. As measured: "
	case analysis.OtherContents:
		return "Runs were made with different contents of " + values + " and are not comparable. As measured: "
	case analysis.OnlyArm:
		return fmt.Sprintf("%s ends at %s; there is nothing to compare it with", a.arm(f), rewardOf(f))
	case analysis.AllDiverged:
		what := "arm"
		if len(f.Keys) > 0 {
			what = "learning rate"
		}
		return fmt.Sprintf("every %s diverged in at least one seed, so none is proposed", what)
	case analysis.NoneCompared:
		return "no two arms can be compared yet"
	case analysis.Ranking:
		return a.ranking(f)
	case analysis.BestRate:
		return a.bestRate(f)
	case analysis.Interaction, analysis.Reversal, analysis.NoInteraction:
		return a.interaction(f)

	// Pairs.
	case analysis.Beats:
		return fmt.Sprintf("%s beats %s by %s, %s", a.arm(f), a.other(f), points(f), seeds(f))
	case analysis.BeatenBy:
		return fmt.Sprintf("%s is beaten by %s (difference %s), %s", a.arm(f), a.other(f), points(f), seeds(f))
	case analysis.NotSeparable, analysis.NotCompared:
		c := a.Find(f.Metric, f.Arms[0], f.Arms[1])
		return fmt.Sprintf("%s and %s %s", a.arm(f), a.other(f), notSeparable(c))
	case analysis.Identical:
		return fmt.Sprintf("%s and %s are the same experiment: their runs are identical to the bit (%s)",
			a.arm(f), a.other(f), seeds(f))
	case analysis.Difference:
		return a.difference(f)
	case analysis.SeedsToAdd:
		return fmt.Sprintf("more seeds: --seeds %s trains %d seeds in all; finished runs are used again", values, f.Count)

	// Lines on the arms.
	case analysis.RateBest, analysis.RateSlow, analysis.RateCollapsed, analysis.RateWorse, analysis.RateTied,
		analysis.RateUncompared:
		return a.rate(f)
	case analysis.StillRising:
		return fmt.Sprintf("still rising (%s over the last quarter)", points(f))
	case analysis.BestAtLargest:
		return "the highest mean is at the largest rate with a result (" + a.shownRate(f) + "): a larger one may be better"
	case analysis.BestAtSmallest:
		return "the highest mean is at the smallest rate with a result (" + a.shownRate(f) + "): a smaller one may be better"
	case analysis.TunedBest:
		return a.tunedBest(f)
	case analysis.Diverged:
		return fmt.Sprintf("%s diverged in %s; the last evaluation counts as its final reward: %s",
			a.arm(f), a.divergence(f.Arms[0]), analysis.Reward(*f.Numbers))
	case analysis.AtCeiling:
		return "All arms are at the ceiling of the measure (98% or more): this task can't separate them"
	case analysis.AtFloor:
		return "All arms are at the floor of the measure (2% or less): this task can't separate them"
	case analysis.FormatHacked:
		return a.formatHacked(f)
	case analysis.ControlFell:
		return fmt.Sprintf("%s: collapsed as expected (%s)", a.control(f), a.ending(f.Arms[0]))
	case analysis.ControlGained:
		return fmt.Sprintf("%s: did not collapse but gained %s over the base level, which its reward can't "+
			"explain; look for a leak, or for a format that the base level lacked", a.control(f), points(f))
	case analysis.ControlStayed:
		return fmt.Sprintf("%s: did not learn and did not collapse (%s; base level %s)",
			a.control(f), a.ending(f.Arms[0]), a.percent(f, analysis.InitialMetric))
	case analysis.GainSources:
		return a.gainSources(f)
	case analysis.GainByFormat:
		return points(f) + " by format"
	case analysis.GainByAnswers:
		return points(f) + " by answers"
	case analysis.Bimodal:
		return a.bimodal(f)
	case analysis.ClipHolds:
		return a.clipHolds(f)
	case analysis.ShortCompletion:
		return a.shortCompletions(f)
	case analysis.ShortReversed:
		return a.shortReversed(f)
	case analysis.Trend:
		return a.trend(f)
	}
	return a.caveat(f)
}

// caveat is a finding on the conditions of a sweep, or on its missing runs.
func (a *Report) caveat(f *analysis.Finding) string {
	values := strings.Join(f.Values, ", ")
	switch f.Kind {
	case analysis.RewardMeasure:
		on := "the validation problems"
		if f.Of > 0 {
			on = fmt.Sprintf("%d validation problems", f.Of)
		}
		return "Rewards are the share of " + on + " answered right by sampling; points are percentage points of it"
	case analysis.Intervals:
		return fmt.Sprintf("In brackets: 95%% intervals by Student's t over the seeds, for differences over pairs of "+
			"runs with the same seed. They cover what the seed changes (%s), not other base models and not other "+
			"validation problems", listed(f.Values))
	case analysis.AdjustedPlanned, analysis.AdjustedAll:
		over := fmt.Sprintf("over the %d comparisons", f.Count)
		if f.Kind == analysis.AdjustedAll {
			over = fmt.Sprintf("over all %d pairs of arms, because the results chose the arm that the others "+
				"are compared with", f.Count)
		}
		return "A difference counts as separable when its p value, adjusted (Holm) " + over +
			", is at most 0.05; the brackets are not adjusted"
	case analysis.FewSeeds:
		if f.Count == 1 {
			return "One seed shows what happened once: no difference can be distinguished from chance"
		}
		return fmt.Sprintf("With %d seeds only large differences can be distinguished from chance", f.Count)
	case analysis.ChosenOnValidation:
		s := "The best arm and the best step were chosen on the validation problems"
		if a.hasTest() {
			s += "; the test problems were evaluated once, after training, and chose nothing"
		}
		return s
	case analysis.HeldFixed:
		var fixed []string
		for i, key := range f.Keys {
			fixed = append(fixed, key+"="+f.Values[i])
		}
		return "Held fixed: " + strings.Join(fixed, ", ") + ". With other values the answer may differ"
	case analysis.EvaluationsDiffer:
		return "The arms were evaluated with different settings (" + strings.Join(f.Values, "; ") + "), so their " +
			"rewards are not comparable. Train them again with this version, which evaluates all arms in the same way"
	case analysis.EntropyDiffers:
		return "Entropy is that of each arm's own sampling temperature (" + values +
			") and is not comparable between arms"
	case analysis.TunedArms:
		axis := a.TunedOver()
		var shown []string
		for _, value := range f.Values {
			shown = append(shown, axis.Shown(value))
		}
		s := fmt.Sprintf("Each arm is compared at its own best %s of %s, chosen by the final validation reward that "+
			"is compared: the rewards flatter, every arm's alike", axis.Label, listed(shown))
		if a.hasTest() {
			s += ". The test rewards chose nothing"
		}
		return s
	case analysis.Confounded:
		return "The arms differ in more than one key (" + strings.Join(f.Keys, ", ") +
			"): a difference belongs to all of them together"
	case analysis.SomeConfounded:
		return "Some arms differ in more than one key (" + a.confounded(f.Parts) +
			"): a difference between them belongs to all of these together"
	case analysis.SharedRate:
		at := "one learning rate"
		if values != "" {
			at = "learning rate " + values
		}
		return "All arms ran at " + at + ". A rate tuned for one arm favors that arm; with a tuned rate for each " +
			"arm the order may change"
	case analysis.MixedArms:
		var arms []string
		for i := range f.Parts {
			arms = append(arms, a.arm(&f.Parts[i])+": "+strings.Join(f.Parts[i].Keys, ", "))
		}
		return "Runs of one arm differ in more than their seeds (" + strings.Join(arms, "; ") +
			"): their mean and interval are of unlike runs"
	case analysis.ArmsStopped:
		var arms []string
		for i := range f.Parts {
			p := &f.Parts[i]
			arms = append(arms, fmt.Sprintf("%s after step %d, at %s", a.arm(p), p.Steps[0], p.Values[0]))
		}
		return "Stopped by --halving, because other arms had a higher validation reward then: " +
			strings.Join(arms, "; ") + ". They have no final reward and are not compared; a slow starter may have " +
			"caught up. Holm's adjustment still counts them. The same command without --halving trains them " +
			"to the end"
	case analysis.SeedsAdded:
		verb := "were"
		if len(f.Seeds) == 1 {
			verb = "was"
		}
		return fmt.Sprintf("%s %s added later, when %d of the %d runs with the other seeds had finished: intervals "+
			"and p values assume that the number of seeds was decided before", analysis.SeedsText(f.Seeds), verb, f.Count, f.Of)
	case analysis.Note:
		return values
	case analysis.RunsMissing:
		verb := "have"
		if f.Count == 1 {
			verb = "has"
		}
		return fmt.Sprintf("%d of %s %s no result; comparisons use the seeds that both arms have",
			f.Count, textutil.Count(f.Of, "run"), verb)
	case analysis.RunMissing:
		return fmt.Sprintf("%s, seed %d: %s", a.arm(f), f.Seeds[0], missingState(f))
	case analysis.MoreMissing:
		return fmt.Sprintf("and %s more", textutil.Count(f.Count, "run"))
	}
	panic("report: no sentence for a finding of kind " + string(f.Kind))
}
