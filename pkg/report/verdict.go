package report

import (
	"fmt"
	"slices"
	"strings"

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
	if a.finished() == 0 {
		v.Caveats = a.setting()
		return v
	}
	if a.rateAxis() != nil {
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

// finished counts the runs that have their result.
func (a *Analysis) finished() int {
	n := 0
	for _, r := range a.Arms {
		n += r.Done + r.Diverged
	}
	return n
}

func (a *Analysis) runs() int { return len(a.Arms) * len(a.Sweep.Manifest.Seeds) }

// headline is one sentence on the final reward.
func (a *Report) headline() string {
	done, runs := a.finished(), a.runs()
	if done == 0 {
		return fmt.Sprintf("Nothing can be said yet: none of %s has its result.", textutil.Count(runs, "run"))
	}
	s := a.answer()
	if a.armsDiffer(evalSettings) != nil {
		s = "The arms were evaluated with different settings and are not comparable. As measured: " + s
	}
	if done < runs {
		s = fmt.Sprintf("So far, with %d of %s: %s", done, textutil.Count(runs, "run"), s)
	}
	return strings.TrimSuffix(s, ".") + "."
}

func (a *Report) answer() string {
	var finals []Comparison
	for _, c := range a.Comparisons {
		switch {
		case c.Kind == KindInteraction:
			return a.text(&c)
		case c.Metric == "final":
			finals = append(finals, c)
		}
	}
	switch {
	case a.rateAxis() != nil:
		return a.rateAnswer()
	case len(a.Arms) == 1:
		r := a.Arms[0]
		return fmt.Sprintf("%s ends at %s, %s; there is nothing to compare it with", r.Name(), reward(r.of(finalMetric)), textutil.Count(r.of(finalMetric).N, "seed"))
	case len(finals) == 1:
		return a.text(&finals[0])
	}
	return a.manyAnswer(finals)
}

// manyAnswer sums up the comparisons with one arm. A signed difference is that of
// the comparison, first arm minus second.
func (a *Report) manyAnswer(finals []Comparison) string {
	if a.Best < 0 && a.Sweep.Manifest.Reference == "" {
		return "every arm diverged in at least one seed, so none is proposed"
	}
	if len(finals) == 0 {
		return "no two arms can be compared yet"
	}
	anchor := sharedArm(finals)
	var beats, below, beaten, open, same, unknown []string
	for _, c := range finals {
		name, first := a.compared(c.b), true
		if c.b == anchor {
			name, first = a.compared(c.a), false
		}
		n := numbersOf(finalMetric, 0)
		difference := n.difference(c.Mean, c.Lo, c.Hi)
		switch {
		case a.identical(pair{c.a, c.b}):
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
	s := fmt.Sprintf("%s %s %s, %s", a.compared(anchor), verb, reward(r.of(finalMetric)), textutil.Count(r.of(finalMetric).N, "seed"))
	if len(beats) > 0 {
		s += "; it beats " + listed(beats)
	}
	if len(below) > 0 {
		s += "; " + listed(below) + map[bool]string{true: " ends below it", false: " end below it"}[len(below) == 1]
	}
	for _, part := range []struct {
		what string
		of   []string
	}{{"is beaten by", beaten}, {"is not separable from", open}, {"is the same experiment, to the bit, as", same}, {"can't be compared yet with", unknown}} {
		if len(part.of) > 0 {
			s += "; it " + part.what + " " + listed(part.of)
		}
	}
	return s
}

// listed joins words: "a", "a and b", "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
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
			r.Name(), a.divergence(r), reward(r.of(finalMetric))))
	}
	return out
}

// divergence is "3 of 4 seeds (steps 20 to 40)".
func (a *Analysis) divergence(r ArmRow) string {
	s := fmt.Sprintf("%d of %s", r.Diverged, textutil.Count(len(r.Runs), "seed"))
	if at := stepRange(r.DivergedAt); at != "" {
		s += " (" + at + ")"
	}
	return s
}

// finalLines are the comparisons of the final reward, except where the
// headline is the only one, and a note where the measure has no room left.
func (a *Report) finalLines() []string {
	var out []string
	var all []Comparison
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			all = append(all, c)
		}
	}
	for _, c := range all {
		if len(all) > 1 && c.Kind == KindPair {
			out = append(out, a.text(&c)+".")
		}
	}
	ceiling, floor := true, true
	for _, r := range a.Arms {
		ceiling = ceiling && r.of(finalMetric).N > 0 && r.of(finalMetric).Mean >= 0.98
		floor = floor && r.of(finalMetric).N > 0 && r.of(finalMetric).Mean <= 0.02
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
	for _, spec := range metrics {
		var clear []Comparison
		for _, c := range a.Comparisons {
			if c.Kind == KindPair && c.Metric == spec.name && c.Metric != "final" && c.Separable && !told[toldOf(&c)] && !a.beside(&c) {
				clear = append(clear, c)
			}
		}
		if len(clear) > 0 {
			out = append(out, a.metricLabel(spec.name)+": "+a.trendText(clear)+".")
		}
	}
	return out
}

// trendText joins the clear differences of one metric. An arm that all of them
// share is named once: first where it is the first of each pair, else last.
func (a *Report) trendText(clear []Comparison) string {
	anchor := sharedArm(clear)
	var parts []string
	for _, c := range clear {
		if len(clear) == 1 || anchor < 0 {
			parts = append(parts, a.metricText(&c))
			continue
		}
		n, other := a.metricNumbers(&c), c.a
		if other == anchor {
			other = c.b
		}
		parts = append(parts, fmt.Sprintf("%s %s (difference %s)", a.compared(other), n.value(a.metricMean(&c, other)), n.difference(c.Mean, c.Lo, c.Hi)))
	}
	if len(clear) == 1 || anchor < 0 {
		return strings.Join(parts, "; ")
	}
	shared := a.compared(anchor) + " " + a.metricNumbers(&clear[0]).value(a.metricMean(&clear[0], anchor))
	if clear[0].a == anchor {
		return shared + " against " + strings.Join(parts, "; ")
	}
	return strings.Join(parts, "; ") + " against " + shared
}

// sharedArm is an arm that stands in all comparisons; -1 where there is none.
func sharedArm(all []Comparison) int {
	for _, arm := range []int{all[0].b, all[0].a} {
		if !slices.ContainsFunc(all, func(c Comparison) bool { return c.a != arm && c.b != arm }) {
			return arm
		}
	}
	return -1
}

// beside says that a comparison is beside the point: how fast an arm got to the
// best of its own, when it then fell apart.
func (a *Report) beside(c *Comparison) bool {
	return c.Metric == "steps_to_90" && (fellApart(&a.Arms[c.a]) || fellApart(&a.Arms[c.b]))
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
			left, textutil.Count(a.runs(), "run"), map[bool]string{true: "has", false: "have"}[left == 1])}, out...)
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
		if step := lastStep(s.Run); step > 0 {
			words += fmt.Sprintf(" after step %d", step)
		}
	}
	if s.Error != "" && s.State == rundir.StateFailed {
		words += ": " + strings.TrimSuffix(s.Error, ".")
	}
	return words
}

// control says whether an arm is marked as one.
func (a *Analysis) control(arm int) bool { return arm >= 0 && a.Arms[arm].Arm.Control }

// sameProblems says whether all arms were validated on as many problems.
func (a *Analysis) sameProblems() bool {
	return !slices.ContainsFunc(a.Arms, func(r ArmRow) bool { return r.Problems != a.Arms[0].Problems })
}
