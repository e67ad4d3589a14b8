package plots

import (
	"cmp"
	"slices"
	"strconv"

	"grpo/pkg/sweepdir"
)

// finalVsNoise draws the last validation against the error rate of the verifier, with a line for each kind of
// errors; all begin at the arm without errors.
func finalVsNoise(v *view) *figure {
	axis := sweepdir.Axis{Key: "reward.noise", Label: "error rate of the verifier"}
	rates := map[int]string{}
	var lines []finalLine
	for _, l := range v.NoiseLines() {
		lines = append(lines, finalLine{l.Errors, l.Arms})
		for k, arm := range l.Arms {
			rates[arm] = strconv.FormatFloat(l.Rates[k], 'g', -1, 64)
			axis.Values = append(axis.Values, rates[arm])
		}
	}
	number := func(s string) float64 {
		x, _ := strconv.ParseFloat(s, 64)
		return x
	}
	slices.SortFunc(axis.Values, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	axis.Values = slices.Compact(axis.Values)
	return v.finalAgainst(axis, lines, func(arm int) string { return rates[arm] })
}
