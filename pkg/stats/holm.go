package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts the p values of m comparisons. Whichever hypotheses are true, the
// probability that any true one has an adjusted value of at most α is at most α:
// with the values sorted,
//
//	adjusted(i) = max over j <= i of min(1, (m-j+1)·p(j))
//
// Source: S. Holm, A simple sequentially rejective multiple test procedure,
// Scandinavian Journal of Statistics 6 (1979). A NaN (nothing to compare) is
// unchanged and does not count in m. The result has the order of the input.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i, v := range p {
		if IsFinite(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := 0.0
	for rank, i := range order {
		adjusted = max(adjusted, min(1, float64(len(order)-rank)*p[i]))
		out[i] = adjusted
	}
	return out
}
