package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// arm is the label of the first arm of a finding, other that of the second.
func (a *Report) arm(f *analysis.Finding) string   { return a.label(f.Arms[0]) }
func (a *Report) other(f *analysis.Finding) string { return a.label(f.Arms[1]) }

// label quotes the label of an arm; a tuned arm has its point after it.
func (a *Report) label(arm int) string {
	if axis := a.TunedOver(); axis != nil {
		return fmt.Sprintf("%s (%s %s)", a.tunedLabel(arm), axis.Label, a.point(arm))
	}
	return quote(a.Arms[arm].Name())
}

// quote keeps the words of a label apart from those of a sentence.
func quote(label string) string { return `"` + label + `"` }

func (a *Report) tunedLabel(arm int) string {
	return quote(analysis.LabelWithout(&a.Sweep.Manifest, arm, a.TunedOver().Key))
}

// point is the value of an arm on the axis that is tuned.
func (a *Report) point(arm int) string {
	tuned := func(x sweepdir.Axis) bool { return x.Key == a.Sweep.Manifest.BestOver }
	i := slices.IndexFunc(a.Sweep.Manifest.Axes, tuned)
	if p := a.Arms[arm].Arm.Point; i < len(p) {
		return a.Sweep.Manifest.Axes[i].Shown(p[i])
	}
	return analysis.Absent
}

// control reports that the arm is a control, if its own label does not.
func (a *Report) control(f *analysis.Finding) string {
	r := &a.Arms[f.Arms[0]]
	if !r.Arm.Control || strings.Contains(strings.ToLower(r.Name()), "control") {
		return quote(r.Name())
	}
	return "control " + quote(r.Name())
}

// points is the difference of a finding: "4.1 points [1.2, 7.0]".
func points(f *analysis.Finding) string {
	return analysis.FormatOf(analysis.FinalMetric, 0).Difference(f.Numbers.Mean, f.Numbers.Lo, f.Numbers.Hi)
}

func seeds(f *analysis.Finding) string { return textutil.Count(f.Numbers.N, "seed") }

// rewardOf is "93.3% [91.2, 95.4], 4 seeds".
func rewardOf(f *analysis.Finding) string { return analysis.Reward(*f.Numbers) + ", " + seeds(f) }

// percent is another metric of the finding's first arm.
func (a *Report) percent(f *analysis.Finding, m *analysis.Metric) string {
	return analysis.Percent(a.Arms[f.Arms[0]].Of(m).Mean)
}

// divergence is "3 of 4 seeds (steps 20 to 40)".
func (a *Report) divergence(arm int) string {
	r := a.Arms[arm]
	s := fmt.Sprintf("%d of %s", r.Diverged, textutil.Count(len(r.Runs), "seed"))
	if at := analysis.StepRange(r.DivergedSteps()); at != "" {
		s += " (" + at + ")"
	}
	return s
}

// ending is how an arm ended.
func (a *Report) ending(arm int) string {
	r := &a.Arms[arm]
	s := "final reward " + analysis.Reward(r.Of(analysis.FinalMetric))
	switch {
	case r.BelowBase():
		s += ", below the base level of " + analysis.Percent(r.Of(analysis.InitialMetric).Mean)
	case r.Diverged == 0 && r.LostHalf():
		s += ", below half of its best, " + analysis.Percent(r.Of(analysis.BestMetric).Mean)
	}
	if r.Diverged > 0 {
		s = "diverged in " + a.divergence(arm) + ", " + s
	}
	return s
}

// hasTest reports whether test problems were evaluated.
func (a *Report) hasTest() bool {
	return slices.ContainsFunc(a.Arms, func(r analysis.ArmResult) bool { return r.Of(analysis.TestMetric).N > 0 })
}

// listed joins words: "a", "a and b", "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// few shortens a long list: of each of its arms, a line and the table of differences say more.
func few(names []string) []string {
	const most = 4
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most-1]), fmt.Sprintf("%d more", len(names)-most+1))
}

// ranking lists what the first arm beats, and what it does not. A signed difference
// is that of the comparison, whichever arm is first in it.
func (a *Report) ranking(f *analysis.Finding) string {
	anchor := f.Arms[0]
	verb := "ends at"
	if anchor == a.Best && a.BestBadge != "" {
		verb = "has the highest mean,"
	}
	var beats, below, beaten []string
	others := map[analysis.Kind][]string{}
	for i := range f.Parts {
		p := &f.Parts[i]
		by, difference := " (by "+points(p)+")", " (difference "+points(p)+")"
		switch first := p.Arms[0] == anchor; {
		case first && p.Kind == analysis.Beats:
			beats = append(beats, a.other(p)+by)
		case first && p.Kind == analysis.BeatenBy:
			beaten = append(beaten, a.other(p)+difference)
		case p.Kind == analysis.Beats:
			beaten = append(beaten, a.arm(p)+by)
		case p.Kind == analysis.BeatenBy:
			below = append(below, a.arm(p)+difference)
		case first:
			others[p.Kind] = append(others[p.Kind], a.other(p))
		default:
			others[p.Kind] = append(others[p.Kind], a.arm(p))
		}
	}
	s := fmt.Sprintf("%s %s %s", a.arm(f), verb, rewardOf(f))
	for _, part := range []struct {
		text  string
		names []string
	}{
		{"it beats", beats}, {"below it:", below}, {"it is beaten by", beaten},
		{"it is not separable from", others[analysis.NotSeparable]},
		{"it is the same experiment, to the bit, as", others[analysis.Identical]},
		{"it can't be compared yet with", others[analysis.NotCompared]},
	} {
		if len(part.names) > 0 {
			s += "; " + part.text + " " + listed(few(part.names))
		}
	}
	return s
}

// notSeparable reports that a difference is not separable from 0, and why.
func notSeparable(c *analysis.Comparison) string {
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	difference := n.Difference(c.Mean, c.Lo, c.Hi)
	switch {
	case c.N == 0:
		return "can't be compared: no seed has finished in both"
	case c.N == 1:
		return fmt.Sprintf("can't be separated with 1 seed (difference %s, without an interval)", difference)
	case c.Mean == 0 && c.SD == 0:
		return fmt.Sprintf("are not separable with %d seeds (no difference in any of them)", c.N)
	}
	s := fmt.Sprintf("are not separable with %d seeds (difference %s", c.N, difference)
	if c.P <= stats.Alpha {
		s += fmt.Sprintf("; p = %s by itself, %s among %d comparisons",
			analysis.PValue(c.P), analysis.PValue(c.PHolm), c.Family)
	}
	s += ")"
	if c.SeedsNeeded > 0 {
		s += fmt.Sprintf("; %s would be needed to see a difference of this size", c.Needed())
	}
	return s
}

// interaction reports whether the effect of one key depends on the other.
func (a *Report) interaction(f *analysis.Finding) string {
	first, second := &f.Parts[0], &f.Parts[1]
	x, y := f.Keys[0], f.Keys[1]
	shown := func(axis int, value string) string {
		if axes := a.Sweep.Manifest.Axes; axis < len(axes) {
			return axes[axis].Shown(value)
		}
		return value // of arms with names
	}
	effects := fmt.Sprintf("%s %s instead of %s changes the final reward by %s at %s %s and by %s at %s",
		x, shown(0, first.Values[0]), shown(0, first.Values[1]), points(first),
		y, shown(1, first.Values[2]), points(second), shown(1, second.Values[2]))
	verb := "depends on"
	switch f.Kind {
	case analysis.NoInteraction:
		interaction := func(c analysis.Comparison) bool { return c.Kind == analysis.KindInteraction }
		i := slices.IndexFunc(a.Comparisons, interaction)
		return fmt.Sprintf("%s; the two effects %s", effects, notSeparable(&a.Comparisons[i]))
	case analysis.Reversal:
		verb = "reverses with"
	}
	return fmt.Sprintf("the effect of %s %s %s: %s (the first effect minus the second: %s, %s)",
		x, verb, y, effects, points(f), seeds(f))
}

// bestRate names the best learning rate, and how the others did.
func (a *Report) bestRate(f *analysis.Finding) string {
	what := "highest mean validation reward"
	switch a.BestBadge {
	case analysis.BadgeBest:
		what = "best validation reward"
	case "":
		what += " of those that did not diverge"
	}
	s := fmt.Sprintf("learning rate %s has the %s, %s", a.shownRate(f), what, rewardOf(f))
	for _, group := range []struct {
		kind             analysis.Kind
		before           string
		singular, plural string
	}{
		{analysis.RateTied, ", not separable from ", "", ""},
		{analysis.RateUncompared, "; not compared with ", "", ""},
		{analysis.RateSlow, "; ", " learns slowly", " learn slowly"},
		{analysis.RateWorse, "; ", " is worse", " are worse"},
		{analysis.RateCollapsed, "; ", " collapses", " collapse"},
	} {
		var rates []string
		for i := range f.Parts {
			if p := &f.Parts[i]; p.Kind == group.kind {
				rates = append(rates, a.shownRate(p))
			}
		}
		switch len(rates) {
		case 0:
		case 1:
			s += group.before + rates[0] + group.singular
		default:
			s += group.before + listed(rates) + group.plural
		}
	}
	return s
}

// rateVerbs say how a learning rate did.
var rateVerbs = map[analysis.Kind]string{
	analysis.RateBest: " has the highest mean", analysis.RateSlow: " learns slowly",
	analysis.RateWorse: " is worse", analysis.RateCollapsed: " collapses",
}

// shownRate is the learning rate of the arm that a finding is about, as readers see it.
func (a *Report) shownRate(f *analysis.Finding) string {
	return a.RateAxis().Shown(a.Arms[f.Arms[0]].Arm.Point[0])
}

// rate is the line of a learning rate.
func (a *Report) rate(f *analysis.Finding) string {
	arm, verb := f.Arms[0], rateVerbs[f.Kind]
	if f.Kind == analysis.RateCollapsed {
		return a.shownRate(f) + verb + ": " + a.ending(arm)
	}
	if f.Kind == analysis.RateBest && a.BestBadge == analysis.BadgeBest {
		verb = " is best"
	}
	s := a.shownRate(f) + verb + ": " + analysis.Reward(*f.Numbers)
	c := a.Find(f.Metric, a.Best, arm) // nil for the best
	if steps := a.Arms[arm].Steps; steps > 0 && (f.Kind == analysis.RateBest || f.Kind == analysis.RateSlow) {
		s += " after " + textutil.Count(steps, "step")
	}
	if f.Kind == analysis.RateSlow || f.Kind == analysis.RateWorse {
		lower := analysis.FormatOf(analysis.FinalMetric, 0).Difference(c.Mean, c.Lo, c.Hi)
		s += ", " + lower + " below the best"
	}
	if len(f.Parts) > 0 {
		s += ", " + a.sentence(&f.Parts[0])
	}
	if f.Kind == analysis.RateTied {
		who := "the best and it"
		if c.Reversed { // keep the order of the planned comparison
			c, who = a.Find(f.Metric, arm, a.Best), "it and the best"
		}
		s += fmt.Sprintf("; %s %s", who, notSeparable(c))
	}
	return s
}

// tunedBest names the best point of a tuned arm, and how its others ended.
func (a *Report) tunedBest(f *analysis.Finding) string {
	best := f.Arms[0]
	s := fmt.Sprintf("%s has its highest mean at %s %s: %s",
		a.tunedLabel(best), a.TunedOver().Label, a.point(best), analysis.Reward(*f.Numbers))
	if a.Arms[best].Diverged > 0 {
		s += fmt.Sprintf(", although it diverged in %s there as everywhere", a.divergence(best))
	}
	for i, arm := range f.Arms[1:] {
		r := &a.Arms[arm]
		s += map[bool]string{true: "; ", false: ", "}[i == 0]
		s += fmt.Sprintf("at %s %s", a.point(arm), analysis.Percent(r.Of(analysis.FinalMetric).Mean))
		if r.Diverged > 0 {
			s += fmt.Sprintf(" (diverged in %d of %s)", r.Diverged, textutil.Count(len(r.Runs), "seed"))
		}
	}
	return s
}

func (a *Report) formatHacked(f *analysis.Finding) string {
	r := &a.Arms[f.Arms[0]]
	share := func(m *analysis.Metric) string { return analysis.Decimals(r.Of(m).Mean, 2) }
	tokens := func(m *analysis.Metric) string { return analysis.FormatOf(m, 0).Value(r.Of(m).Mean) }
	return fmt.Sprintf("%s: the format is hacked: format reward %s with answer reward %s and %s a completion "+
		"(before training %s, %s and %s)", a.control(f),
		share(analysis.FormatMetric), share(analysis.FinalMetric), tokens(analysis.LengthMetric),
		share(analysis.InitialFormatMetric), share(analysis.InitialMetric), tokens(analysis.InitialLengthMetric))
}

// bimodal states which seeds of an arm learned and which did not.
func (a *Report) bimodal(f *analysis.Finding) string {
	ends := func(p *analysis.Finding) string {
		lo, hi := analysis.Percent(slices.Min(p.Numbers.Values)), analysis.Percent(slices.Max(p.Numbers.Values))
		if lo == hi {
			return lo
		}
		return lo + " to " + hi
	}
	stayed, learned := &f.Parts[0], &f.Parts[1]
	return fmt.Sprintf("%s is bimodal across seeds: %d of %d seeds did not learn (%s, at %s; before training %s), the "+
		"others end at %s. Its mean and interval describe neither kind of seed", a.arm(f),
		len(stayed.Seeds), len(stayed.Seeds)+len(learned.Seeds), analysis.SeedsText(stayed.Seeds), ends(stayed),
		a.percent(f, analysis.InitialMetric), ends(learned))
}

func (a *Report) clipHolds(f *analysis.Finding) string {
	free := f.Arms[0]
	var held []string
	for _, arm := range f.Arms[1:] {
		r := &a.Arms[arm]
		held = append(held, fmt.Sprintf("%s at %s (the clip binds on %s of the tokens)", a.label(arm),
			analysis.Reward(r.Of(analysis.FinalMetric)), analysis.Percent(r.Of(analysis.ClipFractionMetric).Mean)))
	}
	updates := analysis.Decimals(a.Arms[free].Of(analysis.UpdatesPerStepMetric).Mean, 0)
	return fmt.Sprintf("off-policy, with %s updates a step and without a clip, %s collapses: %s. "+
		"With a clip the policy holds: %s", updates, a.label(free), a.ending(free), listed(held))
}

func (a *Report) shortCompletions(f *analysis.Finding) string {
	n := analysis.FormatOf(analysis.LengthMetric, 0)
	var others []string
	for i := range f.Parts {
		p := &f.Parts[i]
		others = append(others, fmt.Sprintf("%s writes %s (%s more)", a.arm(p),
			n.Bare(a.Arms[p.Arms[0]].Of(analysis.LengthMetric).Mean),
			n.Difference(p.Numbers.Mean, p.Numbers.Lo, p.Numbers.Hi)))
	}
	others = append(others, "the base model "+n.Bare(a.Arms[f.Arms[0]].Of(analysis.InitialLengthMetric).Mean))
	return fmt.Sprintf("%s falls into short completions: %s, where %s",
		a.arm(f), n.Value(f.Numbers.Mean), listed(others))
}

func (a *Report) shortReversed(f *analysis.Finding) string {
	n := analysis.FormatOf(analysis.LengthMetric, 0)
	var by []string
	for _, p := range f.Parts {
		by = append(by, fmt.Sprintf("%s %s (%s)", p.Keys[0], p.Values[0], n.Value(p.Numbers.Mean)))
	}
	return fmt.Sprintf("the short completions belong to %s %s together with %s %s: %s ends them",
		f.Keys[0], f.Values[0], f.Keys[1], f.Values[1], strings.Join(by, " or "))
}

// trend joins the differences of one metric.
func (a *Report) trend(f *analysis.Finding) string {
	var parts []string
	for i := range f.Parts {
		parts = append(parts, a.difference(&f.Parts[i]))
	}
	return a.metricLabel(f.Metric) + ": " + strings.Join(parts, "; ")
}

// difference is `"a" 14.6 tokens, "b" 24.6 tokens (difference -10.0 tokens [...])`.
func (a *Report) difference(f *analysis.Finding) string {
	n := a.metricNumbers(a.Find(f.Metric, f.Arms[0], f.Arms[1]))
	return fmt.Sprintf("%s %s, %s %s (difference %s)", a.arm(f), n.Value(a.metricMean(f, f.Arms[0])),
		a.other(f), n.Value(a.metricMean(f, f.Arms[1])), n.Difference(f.Numbers.Mean, f.Numbers.Lo, f.Numbers.Hi))
}

// metricMean is the arm's mean over the seeds of a difference.
func (a *Report) metricMean(f *analysis.Finding, arm int) float64 {
	return a.Arms[arm].Of(analysis.MetricOf(f.Metric)).MeanWhere(f.Numbers.Values)
}

// metricNumbers is how the metric of a comparison is printed.
func (a *Report) metricNumbers(c *analysis.Comparison) analysis.NumberFormat {
	problems := a.Arms[c.ArmA].Problems
	if a.Arms[c.ArmB].Problems != problems {
		problems = 0
	}
	f := a.FindingOf(c)
	x, y := a.metricMean(&f, c.ArmA), a.metricMean(&f, c.ArmB)
	return analysis.FormatOf(analysis.MetricOf(c.Metric), problems, x, y)
}

func (a *Report) metricLabel(metric string) string { return capital(analysis.MetricOf(metric).Label) }

// confounded lists pairs of arms with the keys in which they differ.
func (a *Report) confounded(parts []analysis.Finding) string {
	const most = 4
	var pairs []string
	for i := range parts {
		p := &parts[i]
		x, y := quote(a.Arms[p.Arms[0]].Name()), quote(a.Arms[p.Arms[1]].Name())
		pairs = append(pairs, x+" and "+y+": "+strings.Join(p.Keys, ", "))
	}
	if len(pairs) > most {
		pairs = append(pairs[:most], fmt.Sprintf("and %d more", len(pairs)-most))
	}
	return strings.Join(pairs, "; ")
}

// missingState is the state of a run without a result.
func missingState(f *analysis.Finding) string {
	state, err := f.Values[0], strings.Join(f.Values[1:], "")
	s := state
	switch {
	case state == sweepdir.Missing && err != "":
		s = err
	case state == sweepdir.Missing:
		s = "not started"
	case state == sweepdir.Dead:
		s = "its process is gone"
	case state == rundir.StateFailed && err != "":
		return s + ": " + strings.TrimSuffix(err, ".")
	case state == rundir.StateFailed:
		return s
	}
	if len(f.Steps) > 0 {
		s += fmt.Sprintf(" after step %d", f.Steps[0])
	}
	return s
}
