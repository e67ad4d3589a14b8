package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// Absent is printed for a number that does not exist.
const Absent = "n/a"

// Decimals prints v with this number of decimals; never "-0.0".
func Decimals(v float64, digits int) string {
	if !stats.IsFinite(v) {
		return Absent
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.HasPrefix(s, "-") && strings.Trim(s, "-0.") == "" {
		return s[1:]
	}
	return s
}

// WithInterval is "0.933 [0.912, 0.954]", or the mean alone if there is no interval.
func WithInterval(mean, lo, hi float64) string {
	s := Decimals(mean, 3)
	if stats.IsFinite(lo) {
		s += " [" + Decimals(lo, 3) + ", " + Decimals(hi, 3) + "]"
	}
	return s
}

// Significant prints v with this number of significant digits.
func Significant(v float64, digits int) string {
	if !stats.IsFinite(v) {
		return "not finite"
	}
	return textutil.Exponent(strconv.FormatFloat(v, 'g', digits, 64))
}

// NumberFormat prints the values of one metric in the unit in which people read it:
// rewards and shares in percent, their differences in points, everything else with
// about three digits.
type NumberFormat struct {
	factor  float64
	digits  int
	percent bool
	unit    string
}

// InPercent prints rewards, and their differences.
var InPercent = NumberFormat{factor: 100, digits: 1, percent: true}

// FormatOf chooses how a metric is printed. completions are what it is a count of
// ([ArmResult.Completions]), 0 if that is not one number; of are values that must differ in print if they do.
func FormatOf(m *Metric, completions int, of ...float64) NumberFormat {
	switch {
	case m.scale == rewardScale || m.scale == signedScale:
		return InPercent
	case m.scale == countScale && completions > 0:
		return NumberFormat{factor: 100 / float64(completions), digits: 1, percent: true}
	case m.scale == tokenScale:
		return NumberFormat{factor: 1, digits: 1, unit: m.unit}
	case m.scale == stepScale:
		return NumberFormat{factor: 1, digits: 0, unit: m.unit}
	}
	largest := 0.0
	for _, v := range stats.Finite(of) {
		largest = max(largest, math.Abs(v))
	}
	return NumberFormat{factor: 1, digits: DigitsFor(largest), unit: m.unit}
}

// Plain prints numbers without a unit, with this number of decimals.
func Plain(digits int) NumberFormat { return NumberFormat{factor: 1, digits: digits} }

// DigitsFor is the number of decimals that show three digits of v, at most 6.
func DigitsFor(v float64) int {
	if v = math.Abs(v); v == 0 || !stats.IsFinite(v) {
		return 3
	}
	return min(max(2-int(math.Floor(math.Log10(v))), 0), 6)
}

// Bare is the number without its unit.
func (n NumberFormat) Bare(v float64) string { return Decimals(v*n.factor, n.digits) }

// Value is the number with its unit: "93.3%", "24.6 tokens". What does not exist has none: "n/a".
func (n NumberFormat) Value(v float64) string {
	switch {
	case !stats.IsFinite(v):
		return n.Bare(v)
	case n.percent:
		return n.Bare(v) + "%"
	}
	return n.Bare(v) + n.unit
}

// Interval is " [91.2, 95.4]"; empty without one.
func (n NumberFormat) Interval(lo, hi float64) string {
	if !stats.IsFinite(lo) || !stats.IsFinite(hi) {
		return ""
	}
	return " [" + n.Bare(lo) + ", " + n.Bare(hi) + "]"
}

// Difference is a summary of differences: "4.1 points [1.2, 7.0]", or "-10.0 tokens [-10.6, -9.4]".
func (n NumberFormat) Difference(d *Summary) string {
	unit := n.unit
	if n.percent {
		unit = " points"
	}
	return n.Bare(d.Mean) + unit + n.Interval(d.Lo, d.Hi)
}

// Reward is "93.3% [91.2, 95.4]".
func Reward(s Summary) string { return Percent(s.Mean) + InPercent.Interval(s.Lo, s.Hi) }

// SeedsText is "seed 1" or "seeds 1, 2".
func SeedsText(seeds []uint64) string {
	all := strings.Trim(strings.ReplaceAll(fmt.Sprint(seeds), " ", ", "), "[]")
	if len(seeds) == 1 {
		return "seed " + all
	}
	return "seeds " + all
}

// Percent is a share: "93.3%".
func Percent(v float64) string { return InPercent.Value(v) }

// PValue prints p with two digits, and never as 0.
func PValue(p float64) string {
	switch {
	case p < 0.001:
		return "<0.001"
	case p < 0.1:
		return Decimals(p, 3)
	}
	return Decimals(p, 2)
}
