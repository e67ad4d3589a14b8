package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// comparisonText is the sentence, without its full stop, that a comparison
// allows.
func (a *Report) comparisonText(c *analysis.Comparison) string {
	if c.Metric != "final" {
		return a.metricLabel(c.Metric) + ": " + a.metricText(c)
	}
	if a.Identical(analysis.Pair{A: c.ArmA, B: c.ArmB}) {
		return fmt.Sprintf("%s and %s are the same experiment: their runs are identical to the bit (%s)", a.compared(c.ArmA), a.compared(c.ArmB), textutil.Count(c.N, "seed"))
	}
	n := analysis.FormatOf(analysis.MetricOf(c.Metric), 0)
	x, y := a.compared(c.ArmA), a.compared(c.ArmB)
	difference := n.Difference(c.Mean, c.Lo, c.Hi)
	switch {
	case !c.Separable:
		return fmt.Sprintf("%s and %s %s", x, y, notSeparable(c, n))
	case c.Mean < 0:
		return fmt.Sprintf("%s is beaten by %s (difference %s), %s", x, y, difference, textutil.Count(c.N, "seed"))
	}
	return fmt.Sprintf("%s beats %s by %s, %s", x, y, difference, textutil.Count(c.N, "seed"))
}

// notSeparable says that a difference can't be told apart from 0, and why.
func notSeparable(d *analysis.Comparison, n analysis.NumberFormat) string {
	switch {
	case d.N == 0:
		return "can't be compared: no seed has finished in both"
	case d.N == 1:
		return fmt.Sprintf("can't be told apart with 1 seed (difference %s, without an interval)", n.Difference(d.Mean, d.Lo, d.Hi))
	case d.Mean == 0 && d.SD == 0:
		return fmt.Sprintf("are not separable with %d seeds (no difference in any of them)", d.N)
	}
	s := fmt.Sprintf("are not separable with %d seeds (difference %s", d.N, n.Difference(d.Mean, d.Lo, d.Hi))
	if d.P <= stats.Alpha {
		s += fmt.Sprintf("; p = %s by itself, %s among %d comparisons", analysis.PValue(d.P), analysis.PValue(d.PHolm), d.Family)
	}
	s += ")"
	if d.SeedsNeeded > 0 {
		s += fmt.Sprintf("; %s would be needed to see a difference of this size", d.Needed())
	}
	return s
}

// metricText is "A 14.6 tokens, B 24.6 tokens (difference -10.0 [...])".
func (a *Report) metricText(c *analysis.Comparison) string {
	x, y := a.metricMean(c, c.ArmA), a.metricMean(c, c.ArmB)
	n := a.metricNumbers(c)
	return fmt.Sprintf("%s %s, %s %s (difference %s)", a.compared(c.ArmA), n.Value(x), a.compared(c.ArmB), n.Value(y),
		n.Difference(c.Mean, c.Lo, c.Hi))
}

func (a *Report) metricNumbers(c *analysis.Comparison) analysis.NumberFormat {
	problems := a.Arms[c.ArmA].Problems
	if a.Arms[c.ArmB].Problems != problems {
		problems = 0
	}
	return analysis.FormatOf(analysis.MetricOf(c.Metric), problems, a.metricMean(c, c.ArmA), a.metricMean(c, c.ArmB))
}

// metricMean is the arm's mean over the seeds of the comparison.
func (a *Report) metricMean(c *analysis.Comparison, arm int) float64 {
	values := a.Arms[arm].Of(analysis.MetricOf(c.Metric)).Values
	var x []float64
	for i, d := range c.Diffs {
		if stats.IsFinite(d) {
			x = append(x, values[i])
		}
	}
	mean, _, _ := stats.MeanSD(x)
	return mean
}

func (a *Report) metricLabel(metric string) string {
	label := analysis.MetricOf(metric).Label
	return strings.ToUpper(label[:1]) + label[1:]
}

// interactionText says whether the effect of one key depends on the other.
func (a *Report) interactionText(c *analysis.Comparison) string {
	g := analysis.GridOf(&a.Sweep.Manifest)
	first, second := a.Effects(g)
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	x, y := g.Factors[0], g.Factors[1]
	e0, e1 := stats.StudentT(first, c.Resolution), stats.StudentT(second, c.Resolution)
	effects := fmt.Sprintf("%s instead of %s changes the final reward by %s at %s %s and by %s at %s",
		x.Values[1], x.Values[0], n.Difference(e0.Mean, e0.Lo, e0.Hi), y.Label, y.Values[0], n.Difference(e1.Mean, e1.Lo, e1.Hi), y.Values[1])
	if !c.Separable {
		return fmt.Sprintf("%s; the two effects %s", effects, notSeparable(c, n))
	}
	s := "the effect of " + x.Label + " depends on " + y.Label
	if e0.Lo > 0 && e1.Hi < 0 || e0.Hi < 0 && e1.Lo > 0 {
		s = "the effect of " + x.Label + " reverses with " + y.Label
	}
	return fmt.Sprintf("%s: %s (the first effect minus the second: %s, %s)", s, effects, n.Difference(c.Mean, c.Lo, c.Hi), textutil.Count(c.N, "seed"))
}
