package rl

import (
	"math"
	"slices"
)

// moments are the count, the mean and the sample standard deviation of the
// values that are not NaN.
type moments struct {
	n         int
	mean, std float64 // NaN where undefined: the mean of none, the std of fewer than two
}

// momentsOf computes the moments of x. If squares of the values leave the range of a float64, it
// scales the values by a power of two, which is exact. So the standard deviation is 0 only for
// equal values, and infinite only if out of range.
func momentsOf(x []float64) moments {
	m := plainMoments(x)
	const low, high = 1e-140, 1e140
	if m.n == 0 || math.Abs(m.mean) < high && (m.n == 1 || m.std > low && m.std < high || m.std == 0 && equal(x)) {
		return m
	}
	largest := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			largest = max(largest, math.Abs(v))
		}
	}
	if largest == 0 || math.IsInf(largest, 1) {
		return m
	}
	_, exp := math.Frexp(largest)
	scaled := make([]float64, len(x))
	for i, v := range x {
		scaled[i] = math.Ldexp(v, -exp)
	}
	m = plainMoments(scaled)
	m.mean, m.std = math.Ldexp(m.mean, exp), math.Ldexp(m.std, exp)
	return m
}

// equal reports whether all values of x that are not NaN are the same.
func equal(x []float64) bool {
	return len(slices.Compact(slices.DeleteFunc(slices.Clone(x), math.IsNaN))) < 2
}

// plainMoments computes the moments in two passes, of the differences from the first
// value. So equal values have exactly that value as their mean and a standard
// deviation of exactly 0, even if their sum is not exact (0.1 x 3).
func plainMoments(x []float64) moments {
	m := moments{mean: math.NaN(), std: math.NaN()}
	first, sum := 0.0, 0.0
	for _, v := range x {
		if math.IsNaN(v) {
			continue
		}
		if m.n == 0 {
			first = v
		}
		m.n++
		sum += v - first
	}
	if m.n == 0 {
		return m
	}
	shift := sum / float64(m.n)
	m.mean = first + shift
	if m.n == 1 {
		return m
	}
	ss := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			d := v - first - shift
			ss += float64(d * d)
		}
	}
	m.std = math.Sqrt(ss / float64(m.n-1))
	return m
}

// weightedMean returns sum(w*x)/sum(w) over the values that are not NaN, again
// exact for equal values; NaN if the weights sum to 0.
func weightedMean(x []float64, w []int) float64 {
	first, sum, weight := math.NaN(), 0.0, 0
	for i, v := range x {
		if math.IsNaN(v) {
			continue
		}
		if math.IsNaN(first) {
			first = v
		}
		sum += float64(float64(w[i]) * (v - first))
		weight += w[i]
	}
	if weight == 0 {
		return math.NaN()
	}
	return first + sum/float64(weight)
}
