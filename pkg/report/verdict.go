package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A verdict is put together in this order: the headline answers the question;
// lines say which arms diverged, what the final reward carries, which signs
// the other figures give, and which of them differ clearly; caveats say what
// was held fixed and what the intervals cover. Whatever is named is found by
// rules on the numbers (verdict_signs.go, verdict_rates.go), never by the name
// of an arm.

// verdict says what the data carries.
func (a *Report) verdict() Verdict {
	v := Verdict{Question: a.Sweep.Manifest.Question, Lines: []string{}, Caveats: []string{}, Missing: a.missing()}
	v.Headline = a.headline()
	if a.Finished() == 0 {
		v.Caveats = a.setting()
		return v
	}
	if a.RateAxis() != nil {
		v.Lines = append(v.Lines, a.rateLines()...)
	} else {
		v.Lines = append(v.Lines, a.tunedLines()...)
		v.Lines = append(v.Lines, a.divergedLines()...)
		v.Lines = append(v.Lines, a.finalLines()...)
	}
	signs, told := a.signs()
	v.Lines = append(v.Lines, signs...)
	v.Lines = append(v.Lines, a.trendLines(told)...)
	v.Caveats = append(a.measure(), a.setting()...)
	return v
}

// headline is one sentence on the final reward.
func (a *Report) headline() string {
	done, runs := a.Finished(), a.Runs()
	if done == 0 {
		return fmt.Sprintf("Nothing can be said yet: none of %s has its result.", textutil.Count(runs, "run"))
	}
	s := a.answer()
	if a.ArmsDiffer(analysis.EvalSettingsOf) != nil {
		s = "The arms were evaluated with different settings and are not comparable. As measured: " + s
	}
	if done < runs {
		s = fmt.Sprintf("So far, with %d of %s: %s", done, textutil.Count(runs, "run"), s)
	}
	return strings.TrimSuffix(s, ".") + "."
}

func (a *Report) answer() string {
	var finals []analysis.Comparison
	for _, c := range a.Comparisons {
		switch {
		case c.Kind == analysis.KindInteraction:
			return a.text(&c)
		case c.Metric == "final":
			finals = append(finals, c)
		}
	}
	switch {
	case a.RateAxis() != nil:
		return a.rateAnswer()
	case len(a.Arms) == 1:
		r := a.Arms[0]
		return fmt.Sprintf("%s ends at %s, %s; there is nothing to compare it with", r.Name(), analysis.Reward(r.Of(analysis.FinalMetric)), textutil.Count(r.Of(analysis.FinalMetric).N, "seed"))
	case len(finals) == 1:
		return a.text(&finals[0])
	}
	return a.manyAnswer(finals)
}

// manyAnswer sums up the comparisons with one arm. A signed difference is that of
// the comparison, first arm minus second.
func (a *Report) manyAnswer(finals []analysis.Comparison) string {
	if a.Best < 0 && a.Sweep.Manifest.Reference == "" {
		return "every arm diverged in at least one seed, so none is proposed"
	}
	if len(finals) == 0 {
		return "no two arms can be compared yet"
	}
	anchor := analysis.SharedArm(finals)
	var beats, below, beaten, open, same, unknown []string
	for _, c := range finals {
		name, first := a.compared(c.ArmB), true
		if c.ArmB == anchor {
			name, first = a.compared(c.ArmA), false
		}
		n := analysis.FormatOf(analysis.FinalMetric, 0)
		difference := n.Difference(c.Mean, c.Lo, c.Hi)
		switch {
		case a.Identical(analysis.Pair{A: c.ArmA, B: c.ArmB}):
			same = append(same, name)
		case c.N < 2:
			unknown = append(unknown, name)
		case !c.Separable:
			open = append(open, name)
		case first && c.Mean > 0:
			beats = append(beats, fmt.Sprintf("%s (by %s)", name, difference))
		case first:
			beaten = append(beaten, fmt.Sprintf("%s (difference %s)", name, difference))
		case c.Mean > 0:
			beaten = append(beaten, fmt.Sprintf("%s (by %s)", name, difference))
		default:
			below = append(below, fmt.Sprintf("%s (difference %s)", name, difference))
		}
	}
	r := a.Arms[anchor]
	verb := "ends at"
	if anchor == a.Best && a.BestBadge != "" {
		verb = "has the highest mean,"
	}
	s := fmt.Sprintf("%s %s %s, %s", a.compared(anchor), verb, analysis.Reward(r.Of(analysis.FinalMetric)), textutil.Count(r.Of(analysis.FinalMetric).N, "seed"))
	if len(beats) > 0 {
		s += "; it beats " + analysis.Listed(beats)
	}
	if len(below) > 0 {
		s += "; " + analysis.Listed(below) + map[bool]string{true: " ends below it", false: " end below it"}[len(below) == 1]
	}
	for _, part := range []struct {
		what string
		of   []string
	}{{"is beaten by", beaten}, {"is not separable from", open}, {"is the same experiment, to the bit, as", same}, {"can't be compared yet with", unknown}} {
		if len(part.of) > 0 {
			s += "; it " + part.what + " " + analysis.Listed(part.of)
		}
	}
	return s
}

// divergedLines tell which arms diverged, before anything is made of their
// rewards. Controls have their own lines.
func (a *Report) divergedLines() []string {
	var out []string
	for _, r := range a.Arms {
		if r.Diverged == 0 || r.Arm.Control || a.Sweep.Manifest.BestOver != "" { // the lines of tuned arms say it
			continue
		}
		out = append(out, fmt.Sprintf("%s diverged in %s; the last evaluation counts as its final reward: %s.",
			r.Name(), a.Divergence(r), analysis.Reward(r.Of(analysis.FinalMetric))))
	}
	return out
}

// finalLines are the comparisons of the final reward, except where the
// headline is the only one, and a note where the measure has no room left.
func (a *Report) finalLines() []string {
	var out []string
	var all []analysis.Comparison
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			all = append(all, c)
		}
	}
	for _, c := range all {
		if len(all) > 1 && c.Kind == analysis.KindPair {
			out = append(out, a.text(&c)+".")
		}
	}
	ceiling, floor := true, true
	for _, r := range a.Arms {
		ceiling = ceiling && r.Of(analysis.FinalMetric).N > 0 && r.Of(analysis.FinalMetric).Mean >= 0.98
		floor = floor && r.Of(analysis.FinalMetric).N > 0 && r.Of(analysis.FinalMetric).Mean <= 0.02
	}
	switch {
	case len(a.Arms) > 1 && ceiling:
		out = append(out, "All arms are at the ceiling of the measure (98% or more): this task can't tell them apart.")
	case len(a.Arms) > 1 && floor:
		out = append(out, "All arms are at the floor of the measure (2% or less): this task can't tell them apart.")
	}
	return out
}

// trendLines have a line for each other figure in which arms differ clearly.
// What a sign has told already is left out.
func (a *Report) trendLines(told map[told]bool) []string {
	var out []string
	for _, spec := range analysis.Metrics {
		var clear []analysis.Comparison
		for _, c := range a.Comparisons {
			if c.Kind == analysis.KindPair && c.Metric == spec.Name && c.Metric != "final" && c.Separable && !told[toldOf(&c)] && !a.beside(&c) {
				clear = append(clear, c)
			}
		}
		if len(clear) > 0 {
			out = append(out, a.metricLabel(spec.Name)+": "+a.trendText(clear)+".")
		}
	}
	return out
}

// trendText joins the clear differences of one metric. An arm that all of them
// share is named once: first where it is the first of each pair, else last.
func (a *Report) trendText(clear []analysis.Comparison) string {
	anchor := analysis.SharedArm(clear)
	var parts []string
	for _, c := range clear {
		if len(clear) == 1 || anchor < 0 {
			parts = append(parts, a.metricText(&c))
			continue
		}
		n, other := a.metricNumbers(&c), c.ArmA
		if other == anchor {
			other = c.ArmB
		}
		parts = append(parts, fmt.Sprintf("%s %s (difference %s)", a.compared(other), n.Value(a.metricMean(&c, other)), n.Difference(c.Mean, c.Lo, c.Hi)))
	}
	if len(clear) == 1 || anchor < 0 {
		return strings.Join(parts, "; ")
	}
	shared := a.compared(anchor) + " " + a.metricNumbers(&clear[0]).Value(a.metricMean(&clear[0], anchor))
	if clear[0].ArmA == anchor {
		return shared + " against " + strings.Join(parts, "; ")
	}
	return strings.Join(parts, "; ") + " against " + shared
}

// beside says that a comparison is beside the point: how fast an arm got to the
// best of its own, when it then fell apart.
func (a *Report) beside(c *analysis.Comparison) bool {
	return c.Metric == "steps_to_90" && (fellApart(&a.Arms[c.ArmA]) || fellApart(&a.Arms[c.ArmB]))
}

// missing lists what a half-finished sweep lacks: at most mostMissing runs by
// name.
func (a *Report) missing() []string {
	const mostMissing = 12
	out := []string{}
	left := 0
	for _, r := range a.Arms {
		for _, s := range r.Runs {
			if s.State == rundir.StateDone || s.State == rundir.StateDiverged {
				continue
			}
			if left++; left > mostMissing {
				continue
			}
			line := fmt.Sprintf("%s, seed %d: %s", r.Name(), s.Seed, stateWords(s))
			out = append(out, line+".")
		}
	}
	if left > mostMissing {
		out = append(out, fmt.Sprintf("And %s more.", textutil.Count(left-mostMissing, "run")))
	}
	if left > 0 {
		out = append([]string{fmt.Sprintf("%d of %s %s no result; comparisons use the seeds that both arms have.",
			left, textutil.Count(a.Runs(), "run"), map[bool]string{true: "has", false: "have"}[left == 1])}, out...)
	}
	return out
}

// stateWords says how a run without a result stands.
func stateWords(s sweepdir.RunState) string {
	words := map[string]string{sweepdir.Missing: "not begun", sweepdir.Dead: "its process is gone"}[s.State]
	switch {
	case words == "":
		words = s.State
	case s.State == sweepdir.Missing && s.Error != "":
		words = s.Error
	}
	if s.Run != nil && s.State != rundir.StateFailed {
		if step := analysis.LastStep(s.Run); step > 0 {
			words += fmt.Sprintf(" after step %d", step)
		}
	}
	if s.Error != "" && s.State == rundir.StateFailed {
		words += ": " + strings.TrimSuffix(s.Error, ".")
	}
	return words
}
