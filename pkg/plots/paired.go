package plots

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"grpo/pkg/analysis"
)

// pairedDifference draws the differences of the last validation reward, seed by
// seed, in points.
func pairedDifference(v *view) *figure {
	var all []analysis.Comparison
	var names []string
	for _, c := range v.Comparisons {
		if c.Metric == analysis.FinalMetric.Name && c.N > 0 && !c.Aside {
			all = append(all, c)
			names = append(names, strings.ReplaceAll(v.pairLabel(v.armName(c.A), v.armName(c.B)), " - ", " − "))
		}
	}
	if len(all) == 0 {
		return nil
	}
	p := newRowsPanel("difference of the final validation answer reward (points)", names)
	var estimates []estimate
	var counts []int
	for i, c := range all {
		counts = append(counts, c.N)
		e := estimate{
			place: float64(len(all) - i), mean: 100 * c.Mean, lo: 100 * c.Lo, hi: 100 * c.Hi, base: math.NaN(),
			style: style{color: dark, marker: shape{}},
		}
		if c.Separable {
			e.style = style{color: blue, marker: draw.CircleGlyph{}}
		}
		for _, d := range c.Diffs {
			e.values = append(e.values, 100*d)
		}
		estimates = append(estimates, e)
		p.side = append(p.side, sideText{e.place, strings.ReplaceAll(names[i], "\n", " "), DifferenceText(c)})
	}
	p.addEstimates(estimates, rowSpread)
	p.legend = nil // the caption says it
	p.addLine(p.across(0, math.Inf(-1), math.Inf(1)), style{color: black}.line(medium))
	pad := cmp.Or(0.06*(p.X.Max-p.X.Min), 1)
	p.X.Min, p.X.Max = p.X.Min-pad, p.X.Max+pad

	fig := &figure{
		title: "Paired differences of the final validation answer reward", width: v.width(pageWidth),
		rows: [][]*panel{{p}}, caption: []string{oneSeed},
	}
	v.fitRows(fig, rowInches)
	if v.severalSeeds() {
		mean := v.meanAndInterval(counts, true)
		if v.HasLookLevels() {
			mean = meanWith(" with its interval (Student's t) at 100% less the level of its last planned look", counts, true)
		}
		fig.caption = []string{mean + "; filled: separable from 0 " +
			"at the 5% level after the adjustment; small circles: each seed."}
	}
	fig.caption = append(fig.caption, "1 point = 1% of "+heldOut(atEnd(v.runs))+".")
	if !analysis.OtherProblems(v.manifest().Varied) {
		fig.notes = []string{"The difference of a seed is between two arms with the same problems " +
			"in the same order."}
	}
	fig.notes = append(fig.notes, "The intervals are not adjusted for the number of comparisons.")
	return fig
}

// armName is the label of an arm, or name itself where it is an interaction's.
func (v *view) armName(name string) string {
	for _, a := range v.Arms {
		if a.Arm.Name == name {
			return a.Name()
		}
	}
	return name
}

// pairLabel is the label of a difference: what only the one has, then what only the other has, then
// in brackets the parts that both have, such as the value of the other key in a grid.
func (v *view) pairLabel(a, b string) string {
	var first, second, shared []string
	if x, y := strings.Split(a, ", "), strings.Split(b, ", "); len(x) == len(y) {
		for i := range x {
			if x[i] == y[i] {
				shared = append(shared, x[i])
			} else {
				first, second = append(first, x[i]), append(second, y[i])
			}
		}
	}
	if len(shared) == 0 || len(first) == 0 {
		return v.rowLabel(a) + "\n" + v.rowLabel("− "+b)
	}
	return v.rowLabel(strings.Join(first, ", ")) + "\n" + v.rowLabel("− "+strings.Join(second, ", ")) + "\n" +
		v.rowLabel("("+strings.Join(shared, ", ")+")")
}

// DifferenceText is the text next to a difference: the number with its interval, and
// whether it is separable.
func DifferenceText(c analysis.Comparison) []string {
	n := analysis.InPercent
	number := strings.ReplaceAll(n.Bare(c.Mean)+n.Interval(c.Lo, c.Hi), "-", "−")
	if c.Mean > 0 {
		number = "+" + number
	}
	switch {
	case c.N < 2:
		return []string{number, "one seed: no interval"}
	case c.Separable:
		return []string{number, fmt.Sprintf("separable, %d seeds", c.N)}
	}
	return []string{number, fmt.Sprintf("at most %s points, %d seeds", n.Bare(c.Bound), c.N)}
}
