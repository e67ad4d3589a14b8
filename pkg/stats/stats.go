// Package stats has the statistics of reports, on plain slices.
//
//	stats.go     sample mean and standard deviation; the interval of a binomial proportion
//	student.go   Student's t: interval, p value, bound and equivalence; paired differences; power
//	ordered.go   the p values of several comparisons
//	collapse.go  two proportions of a few seeds
//	problems.go  seeds and problems as two sources of chance
//
// A value that is not finite is a missing measurement: it is ignored, and every result
// has the number of values it is computed from. docs/statistics.md explains the choice
// of each method, with measured error rates.
package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// Level is the confidence level of every interval.
	Level = 0.95
	// Alpha is the significance level of every test.
	Alpha = 1 - Level
)

// MeanSD returns the mean and the sample standard deviation of the finite values
// in x, and their number n:
//
//	mean = Σx/n,    sd = √(Σ(x - mean)²/(n-1))
//
// Both are in the unit of x. The mean is NaN for n = 0, the standard deviation
// for n < 2.
func MeanSD(x []float64) (mean, sd float64, n int) {
	x = Finite(x)
	switch n = len(x); n {
	case 0:
		return math.NaN(), math.NaN(), 0
	case 1:
		return x[0], math.NaN(), 1
	}
	mean, sd = stat.MeanStdDev(x, nil)
	return mean, sd, n
}

// Mean returns the mean of [MeanSD].
func Mean(x []float64) float64 {
	mean, _, _ := MeanSD(x)
	return mean
}

// Finite returns the finite values of x, in their order, as a new slice.
func Finite(x []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return !IsFinite(v) })
}

// FiniteAt lists the places of the finite values of x.
func FiniteAt(x []float64) (places []int) {
	for i, v := range x {
		if IsFinite(v) {
			places = append(places, i)
		}
	}
	return places
}

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Wilson returns the Wilson score interval of a binomial proportion, k
// successes of n (k may be a sum of shares), at the given confidence level:
//
//	(p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n),  p = k/n
//
// with z the standard normal quantile of (1 + level)/2. Unlike p ± z·se it is
// inside [0, 1] and keeps its level near 0 and 1. Source: E. B. Wilson, Probable
// inference, the law of succession, and statistical inference, JASA 22 (1927),
// the roots of equation 3; recommended by Brown, Cai and DasGupta, Interval
// estimation for a binomial proportion, Statistical Science 16 (2001).
//
// It covers the randomness of the n trials, not the spread over repetitions of the
// whole experiment; for that, see [StudentT].
//
// With n = 0 both ends are NaN. It panics if k is not in [0, n] or level is not in
// (0, 1).
func Wilson(k float64, n int, level float64) (lo, hi float64) {
	if n < 0 || !(k >= 0) || k > float64(n) {
		panic(fmt.Sprintf("stats: Wilson of %v successes of %d", k, n))
	}
	if !(level > 0 && level < 1) {
		panic(fmt.Sprintf("stats: Wilson at level %v", level))
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	z := distuv.UnitNormal.Quantile((1 + level) / 2)
	m := float64(n)
	p := k / m
	centre := p + z*z/(2*m)
	half := float64(z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)))
	scale := 1 + z*z/m
	// The exact ends at k = 0 and k = n are 0 and 1; rounding must not exceed them.
	return max(0, (centre-half)/scale), min(1, (centre+half)/scale)
}
