package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"grpo/internal/words"

	"grpo/pkg/stats"
)

// absent is the cell of a figure that an arm has not.
const Absent = "n/a"

// Decimals prints v with so many decimals, n/a when there is no such figure.
func Decimals(v float64, digits int) string {
	if !stats.IsFinite(v) {
		return "n/a"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Significant prints v with so many significant digits.
func Significant(v float64, digits int) string {
	if !stats.IsFinite(v) {
		return "not finite"
	}
	return words.Exponent(strconv.FormatFloat(v, 'g', digits, 64))
}

// Rate prints a learning rate as it is typed: 0.001, 1e-5.
func Rate(v float64) string { return words.Number(v) }

// numbers prints the values of one figure in the unit in which people read it:
// rewards and shares in percent, their differences in points, everything else
// with about three digits.
type NumberFormat struct {
	factor  float64
	digits  int
	percent bool
	unit    string
}

// numbersOf chooses how the figure is printed; of are values that must stay
// apart when they are.
func FormatOf(spec *Metric, problems int, of ...float64) NumberFormat {
	switch {
	case spec.scale == rewardScale || spec.scale == signedScale:
		return NumberFormat{factor: 100, digits: 1, percent: true}
	case spec.scale == countScale && problems > 0:
		return NumberFormat{factor: 100 / float64(problems), digits: 1, percent: true}
	case spec.scale == tokenScale:
		return NumberFormat{factor: 1, digits: 1, unit: spec.unit}
	case spec.scale == stepScale:
		return NumberFormat{factor: 1, digits: 0, unit: spec.unit}
	}
	largest := 0.0
	for _, v := range of {
		if stats.IsFinite(v) {
			largest = max(largest, math.Abs(v))
		}
	}
	return NumberFormat{factor: 1, digits: DigitsFor(largest), unit: spec.unit}
}

// DigitsFor is the number of decimals that show three digits of v, at most 6.
func DigitsFor(v float64) int {
	if v = math.Abs(v); v == 0 || !stats.IsFinite(v) {
		return 3
	}
	return min(max(2-int(math.Floor(math.Log10(v))), 0), 6)
}

// Bare is the number without its unit; never "-0.0".
func (n NumberFormat) Bare(v float64) string {
	if !stats.IsFinite(v) {
		return "n/a"
	}
	s := strconv.FormatFloat(v*n.factor, 'f', n.digits, 64)
	if strings.HasPrefix(s, "-") && strings.Trim(s, "-0.") == "" {
		return s[1:]
	}
	return s
}

func (n NumberFormat) Value(v float64) string {
	if n.percent {
		return n.Bare(v) + "%"
	}
	return n.Bare(v) + n.unit
}

func (n NumberFormat) Interval(lo, hi float64) string {
	if !stats.IsFinite(lo) || !stats.IsFinite(hi) {
		return ""
	}
	return " [" + n.Bare(lo) + ", " + n.Bare(hi) + "]"
}

// mean is "93.3% [91.2, 95.4]".
func (n NumberFormat) mean(f Summary) string { return n.Value(f.Mean) + n.Interval(f.Lo, f.Hi) }

// Difference is "4.1 points [1.2, 7.0]", or "-10.0 tokens [-10.6, -9.4]".
func (n NumberFormat) Difference(mean, lo, hi float64) string {
	unit := n.unit
	if n.percent {
		unit = " points"
	}
	return n.Bare(mean) + unit + n.Interval(lo, hi)
}

// Reward is a reward in words: "93.3% [91.2, 95.4]".
func Reward(f Summary) string { return FormatOf(FinalMetric, 0).mean(f) }

// Percent is a share in words.
func Percent(v float64) string { return FormatOf(FinalMetric, 0).Value(v) }

// Needed is SeedsNeeded in words; a dash where there is no number.
func (c *Comparison) Needed() string {
	switch {
	case c.SeedsNeeded == 0:
		return "-"
	case c.SeedsNeeded > stats.MaxPairs:
		return fmt.Sprintf("more than %d", stats.MaxPairs)
	}
	return fmt.Sprintf("about %d", c.SeedsNeeded)
}

// PValue prints p with two digits, and never as 0.
func PValue(p float64) string {
	switch {
	case !stats.IsFinite(p):
		return "n/a"
	case p < 0.001:
		return "<0.001"
	case p < 0.1:
		return Decimals(p, 3)
	}
	return Decimals(p, 2)
}
