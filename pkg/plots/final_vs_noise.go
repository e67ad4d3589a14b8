package plots

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

// finalVsNoise draws the last validation against the error rate of the verifier, with a line for each kind of
// errors; all begin at the arm without errors. A ring is the first rate that is clearly worse.
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
	var knees []int
	var texts []string
	for _, f := range v.FindingsOf(analysis.NoiseKnee) {
		knees = append(knees, f.Arms[0])
		texts = append(texts, f.Keys[0]+" at "+f.Values[len(f.Values)-1]+", lower by "+
			analysis.WithInterval(f.Numbers.Mean, f.Numbers.Lo, f.Numbers.Hi))
	}
	number := func(s string) float64 {
		x, _ := strconv.ParseFloat(s, 64)
		return x
	}
	slices.SortFunc(axis.Values, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	axis.Values = slices.Compact(axis.Values)
	fig := v.finalAgainst(axis, lines, func(arm int) string { return rates[arm] }, knees...)
	if fig != nil && len(knees) > 0 {
		fig.caption = append(fig.caption, "Rings: "+strings.Join(texts, "; ")+".")
	}
	return fig
}
