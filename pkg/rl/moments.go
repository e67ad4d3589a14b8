package rl

import "math"

// moments are the count, the mean and the sample standard deviation of the
// values that are not NaN.
type moments struct {
	n         int
	mean, std float64 // NaN where undefined: the mean of none, the std of fewer than two
}

// momentsOf computes the moments of x in two passes. Differences are taken from
// the first value, so that equal values give a mean of exactly that value and a
// standard deviation of exactly 0, also where their sum is not exact (0.1 x 3).
func momentsOf(x []float64) moments {
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
			ss += d * d
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
		sum += float64(w[i]) * (v - first)
		weight += w[i]
	}
	if weight == 0 {
		return math.NaN()
	}
	return first + sum/float64(weight)
}
