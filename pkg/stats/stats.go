// Package stats has the statistics of reports, on plain slices.
//
//	stats.go    sample mean and standard deviation
//	student.go  Student's t: the interval of a mean and its p value; paired differences
//	holm.go     p values of several comparisons
//	power.go    how many pairs a difference needs (noncentral t)
//	wilson.go   the interval of a binomial proportion
//
// A value that is not finite is a missing measurement: it is ignored, and every result
// has the number of values it is computed from. docs/statistics.md explains the choice
// of each method, with measured error rates.
package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
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

// Finite returns the finite values of x, in their order, as a new slice.
func Finite(x []float64) []float64 {
	out := make([]float64, 0, len(x))
	for _, v := range x {
		if IsFinite(v) {
			out = append(out, v)
		}
	}
	return out
}

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
