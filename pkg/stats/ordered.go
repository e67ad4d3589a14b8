package stats

import (
	"cmp"
	"math"
	"slices"
)

// OrderedWeight is the share of the level that [Ordered] gives to the largest
// difference of a family.
const OrderedWeight = 0.5

// Ordered adjusts the p values of a family of comparisons of one metric over the same
// seeds. q has the mean square of each comparison's differences; its order, not its size,
// steers the test. Of the r comparisons that are left, the one with the largest q (the first
// of equals) gets the share c = w + (1-w)/r of the level, every other one c = (1-w)/r:
//
//	repeat: j = argmin over the rest of p(j)/c(j)
//	        adjusted(j) = max of this and all earlier min(1, p(j)/c(j)); take j out of the rest
//
// Weight 0 is [Holm], weight 1 a test in the order of q. Whichever hypotheses are true, the
// probability that any true one has an adjusted value of at most α is at most α, if the
// differences are normal, with any variances and correlations: given all q the direction of a
// column without an effect is uniform, so that its t does not depend on the order (Kropf and
// Läuter, Biometrical Journal 44, 2002; Westfall, Kropf and Finos, 2004), and shares of the
// level only grow as comparisons are taken out (sequential rejection: Goeman and Solari,
// Annals of Statistics 38, 2010).
//
// A NaN (nothing to compare) is unchanged and does not count in r. A comparison that was planned
// but stopped has p 1 and q -1: it is last and counts. The result has the order of the input.
func Ordered(p, q []float64, weight float64) []float64 {
	out := slices.Clone(p)
	for _, s := range OrderedSteps(p, q, weight) {
		out[s.Index] = s.Adjusted
	}
	return out
}

// OrderedStep takes one comparison out of the rest: its index, its share of the level (c), and its
// adjusted p value.
type OrderedStep struct {
	Index           int
	Share, Adjusted float64
}

// OrderedSteps are the steps of [Ordered].
func OrderedSteps(p, q []float64, weight float64) []OrderedStep {
	var byP []int
	for i, v := range p {
		if IsFinite(v) {
			byP = append(byP, i)
		}
	}
	byQ := slices.Clone(byP)
	slices.SortStableFunc(byP, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	slices.SortStableFunc(byQ, func(i, j int) int { return cmp.Compare(q[j], q[i]) })
	n := len(byP)
	var steps []OrderedStep
	out := make([]bool, len(p))
	left := func(order []int, except int) []int { // the order from its first comparison that is left
		for len(order) > 0 && (out[order[0]] || order[0] == except) {
			order = order[1:]
		}
		return order
	}
	adjusted := 0.0
	for len(steps) < n {
		byQ, byP = left(byQ, -1), left(byP, -1)
		// Of those with equal shares the one with the smallest p is next, or the first in the order of q.
		first, share := byQ[0], (1-weight)/float64(n-len(steps))
		next := OrderedStep{first, share + weight, p[first] / (share + weight)}
		if others := left(byP, first); len(others) > 0 && share > 0 && p[others[0]]/share < next.Adjusted {
			next = OrderedStep{others[0], share, p[others[0]] / share}
		}
		adjusted = max(adjusted, min(1, next.Adjusted))
		next.Adjusted = adjusted
		out[next.Index] = true
		steps = append(steps, next)
	}
	return steps
}

// Holm adjusts the p values of m comparisons. Whichever hypotheses are true, the
// probability that any true one has an adjusted value of at most α is at most α, whatever
// the comparisons have in common: with the values sorted,
//
//	adjusted(i) = max over j <= i of min(1, (m-j+1)·p(j))
//
// Source: S. Holm, A simple sequentially rejective multiple test procedure,
// Scandinavian Journal of Statistics 6 (1979). A NaN (nothing to compare) is
// unchanged and does not count in m. The result has the order of the input.
func Holm(p []float64) []float64 { return Ordered(p, make([]float64, len(p)), 0) }

// MeanSquare is the mean of the squares of the finite values in x; NaN without any.
func MeanSquare(x []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range x {
		if IsFinite(v) {
			sum, n = sum+float64(v*v), n+1
		}
	}
	return sum / float64(n)
}

// Contrasts are the three questions of a grid of two keys with two values each, seed by seed: x10
// has the second value of the first key and the first of the second key. All three have the same
// variance if the arms have:
//
//	first key    ((x10+x11) - (x00+x01))/2
//	second key   ((x01+x11) - (x00+x10))/2
//	interaction  ((x00+x11) - (x01+x10))/2
//
// A seed that one of the arms lacks is NaN.
func Contrasts(x00, x01, x10, x11 []float64) [3][]float64 {
	var out [3][]float64
	for s := range min(len(x00), len(x01), len(x10), len(x11)) {
		a, b, c, d := x00[s], x01[s], x10[s], x11[s]
		if !IsFinite(a + b + c + d) {
			a = math.NaN()
		}
		out[0] = append(out[0], ((c+d)-(a+b))/2)
		out[1] = append(out[1], ((b+d)-(a+c))/2)
		out[2] = append(out[2], ((a+d)-(b+c))/2)
	}
	return out
}
