package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// numbers prints the values of one figure in the unit in which people read it:
// rewards and shares in percent, their differences in points, everything else
// with about three digits.
type numbers struct {
	factor  float64
	digits  int
	percent bool
	unit    string
}

// numbersOf chooses how the figure is printed; of are values that must stay
// apart when they are.
func numbersOf(spec *metric, problems int, of ...float64) numbers {
	switch {
	case spec.scale == rewardScale || spec.scale == signedScale:
		return numbers{factor: 100, digits: 1, percent: true}
	case spec.scale == countScale && problems > 0:
		return numbers{factor: 100 / float64(problems), digits: 1, percent: true}
	case spec.scale == tokenScale:
		return numbers{factor: 1, digits: 1, unit: spec.unit}
	case spec.scale == stepScale:
		return numbers{factor: 1, digits: 0, unit: spec.unit}
	}
	largest := 0.0
	for _, v := range of {
		if stats.IsFinite(v) {
			largest = max(largest, math.Abs(v))
		}
	}
	return numbers{factor: 1, digits: digitsFor(largest), unit: spec.unit}
}

// digitsFor is the number of decimals that show three digits of v, at most 6.
func digitsFor(v float64) int {
	if v = math.Abs(v); v == 0 || !stats.IsFinite(v) {
		return 3
	}
	return min(max(2-int(math.Floor(math.Log10(v))), 0), 6)
}

// bare is the number without its unit; never "-0.0".
func (n numbers) bare(v float64) string {
	if !stats.IsFinite(v) {
		return "n/a"
	}
	s := strconv.FormatFloat(v*n.factor, 'f', n.digits, 64)
	if strings.HasPrefix(s, "-") && strings.Trim(s, "-0.") == "" {
		return s[1:]
	}
	return s
}

func (n numbers) value(v float64) string {
	if n.percent {
		return n.bare(v) + "%"
	}
	return n.bare(v) + n.unit
}

func (n numbers) interval(lo, hi float64) string {
	if !stats.IsFinite(lo) || !stats.IsFinite(hi) {
		return ""
	}
	return " [" + n.bare(lo) + ", " + n.bare(hi) + "]"
}

// mean is "93.3% [91.2, 95.4]".
func (n numbers) mean(f Figure) string { return n.value(f.Mean) + n.interval(f.Lo, f.Hi) }

// difference is "4.1 points [1.2, 7.0]", or "-10.0 tokens [-10.6, -9.4]".
func (n numbers) difference(mean, lo, hi float64) string {
	unit := n.unit
	if n.percent {
		unit = " points"
	}
	return n.bare(mean) + unit + n.interval(lo, hi)
}

// reward is a reward in words: "93.3% [91.2, 95.4]".
func reward(f Figure) string { return numbersOf(finalMetric, 0).mean(f) }

// percent is a share in words.
func percent(v float64) string { return numbersOf(finalMetric, 0).value(v) }

// comparisonText is the sentence, without its full stop, that a comparison
// allows.
func (a *Report) comparisonText(c *Comparison) string {
	if c.Metric != "final" {
		return a.metricLabel(c.Metric) + ": " + a.metricText(c)
	}
	if a.identical(pair{c.a, c.b}) {
		return fmt.Sprintf("%s and %s are the same experiment: their runs are identical to the bit (%s)", a.compared(c.a), a.compared(c.b), textutil.Count(c.N, "seed"))
	}
	n := numbersOf(metricOf(c.Metric), 0)
	x, y := a.compared(c.a), a.compared(c.b)
	difference := n.difference(c.Mean, c.Lo, c.Hi)
	switch {
	case !c.Separable:
		return fmt.Sprintf("%s and %s %s", x, y, notSeparable(c, n))
	case c.Mean < 0:
		return fmt.Sprintf("%s is beaten by %s (difference %s), %s", x, y, difference, textutil.Count(c.N, "seed"))
	}
	return fmt.Sprintf("%s beats %s by %s, %s", x, y, difference, textutil.Count(c.N, "seed"))
}

// notSeparable says that a difference can't be told apart from 0, and why.
func notSeparable(d *Comparison, n numbers) string {
	switch {
	case d.N == 0:
		return "can't be compared: no seed has finished in both"
	case d.N == 1:
		return fmt.Sprintf("can't be told apart with 1 seed (difference %s, without an interval)", n.difference(d.Mean, d.Lo, d.Hi))
	case d.Mean == 0 && d.SD == 0:
		return fmt.Sprintf("are not separable with %d seeds (no difference in any of them)", d.N)
	}
	s := fmt.Sprintf("are not separable with %d seeds (difference %s", d.N, n.difference(d.Mean, d.Lo, d.Hi))
	if d.P <= stats.Alpha {
		s += fmt.Sprintf("; p = %s by itself, %s among %d comparisons", pValue(d.P), pValue(d.PHolm), d.family)
	}
	s += ")"
	if d.SeedsNeeded > 0 {
		s += fmt.Sprintf("; %s would be needed to see a difference of this size", d.needed())
	}
	return s
}

// needed is SeedsNeeded in words; a dash where there is no number.
func (c *Comparison) needed() string {
	switch {
	case c.SeedsNeeded == 0:
		return "-"
	case c.SeedsNeeded > stats.MaxPairs:
		return fmt.Sprintf("more than %d", stats.MaxPairs)
	}
	return fmt.Sprintf("about %d", c.SeedsNeeded)
}

// pValue prints p with two digits, and never as 0.
func pValue(p float64) string {
	switch {
	case !stats.IsFinite(p):
		return "n/a"
	case p < 0.001:
		return "<0.001"
	case p < 0.1:
		return decimals(p, 3)
	}
	return decimals(p, 2)
}

// metricText is "A 14.6 tokens, B 24.6 tokens (difference -10.0 [...])".
func (a *Report) metricText(c *Comparison) string {
	x, y := a.metricMean(c, c.a), a.metricMean(c, c.b)
	n := a.metricNumbers(c)
	return fmt.Sprintf("%s %s, %s %s (difference %s)", a.compared(c.a), n.value(x), a.compared(c.b), n.value(y),
		n.difference(c.Mean, c.Lo, c.Hi))
}

func (a *Report) metricNumbers(c *Comparison) numbers {
	problems := a.Arms[c.a].Problems
	if a.Arms[c.b].Problems != problems {
		problems = 0
	}
	return numbersOf(metricOf(c.Metric), problems, a.metricMean(c, c.a), a.metricMean(c, c.b))
}

// metricMean is the arm's mean over the seeds of the comparison.
func (a *Report) metricMean(c *Comparison, arm int) float64 {
	values := a.Arms[arm].of(metricOf(c.Metric)).Values
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
	label := metricOf(metric).label
	return strings.ToUpper(label[:1]) + label[1:]
}

// interactionText says whether the effect of one key depends on the other.
func (a *Report) interactionText(c *Comparison) string {
	g := gridOf(&a.Sweep.Manifest)
	first, second := a.effects(g)
	n := numbersOf(finalMetric, 0)
	x, y := g.factors[0], g.factors[1]
	e0, e1 := stats.StudentT(first, c.resolution), stats.StudentT(second, c.resolution)
	effects := fmt.Sprintf("%s instead of %s changes the final reward by %s at %s %s and by %s at %s",
		x.values[1], x.values[0], n.difference(e0.Mean, e0.Lo, e0.Hi), y.label, y.values[0], n.difference(e1.Mean, e1.Lo, e1.Hi), y.values[1])
	if !c.Separable {
		return fmt.Sprintf("%s; the two effects %s", effects, notSeparable(c, n))
	}
	s := "the effect of " + x.label + " depends on " + y.label
	if e0.Lo > 0 && e1.Hi < 0 || e0.Hi < 0 && e1.Lo > 0 {
		s = "the effect of " + x.label + " reverses with " + y.label
	}
	return fmt.Sprintf("%s: %s (the first effect minus the second: %s, %s)", s, effects, n.difference(c.Mean, c.Lo, c.Hi), textutil.Count(c.N, "seed"))
}
