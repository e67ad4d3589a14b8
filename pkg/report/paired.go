package report

import (
	"cmp"
	"math"
	"slices"
)

// Alpha is the level at which a difference is told apart from 0.
const Alpha = 1 - Level

// differences are a - b for the seeds that both have; NaN where one has none.
func differences(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
		if !isFinite(out[i]) {
			out[i] = math.NaN()
		}
	}
	return out
}

// compare is the paired comparison of two lists of values, seed by seed,
// before any adjustment.
func compare(a, b []float64, resolution float64) Comparison {
	return comparisonOf(differences(a, b), resolution)
}

func comparisonOf(diffs []float64, resolution float64) Comparison {
	e := StudentT(diffs, resolution)
	return Comparison{
		Diffs: diffs, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi,
		P: e.P, PHolm: e.P, resolution: resolution,
	}
}

// Holm adjusts p values so that, whichever of the hypotheses hold, the chance
// that any true one has an adjusted value of at most alpha is at most alpha:
// with the m values sorted,
//
//	adjusted(i) = max over j <= i of min(1, (m-j+1)·p(j))
//
// Source: S. Holm, A simple sequentially rejective multiple test procedure,
// Scandinavian Journal of Statistics 6 (1979). A NaN (nothing to compare) stays
// NaN and does not count. The order of the input is kept.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i, v := range p {
		if isFinite(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(order)-rank)*p[i]))
		out[i] = least
	}
	return out
}

// settle fills in what follows from the adjusted p value.
func (c *Comparison) settle(adjusted float64) {
	c.PHolm = adjusted
	c.Separable = adjusted <= Alpha
	c.SeedsNeeded = 0
	if c.Separable || c.N < 2 || c.Mean == 0 || c.Metric != "final" {
		return
	}
	sd := max(c.SD, c.resolution)
	if !(sd > 0) {
		return
	}
	alpha := Alpha
	if c.P > 0 && adjusted > c.P {
		alpha *= c.P / adjusted // what the adjustment left for this comparison
	}
	if c.SeedsNeeded = SeedsForPower(math.Abs(c.Mean)/sd, alpha, targetPower); c.SeedsNeeded == 0 {
		c.SeedsNeeded = mostSeeds + 1
	}
}
