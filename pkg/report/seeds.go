package report

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// The statistics over seeds, from the ground up:
//
//	seeds.go            mean and standard deviation
//	interval.go         Student's t interval of a mean (tables, verdicts, figures)
//	paired.go           paired differences, their p value, Holm's adjustment
//	paired_power.go     how many seeds a difference would need
//
// docs/statistics.md says why each was chosen, with measured rates of error.

// MeanSD returns the mean and the sample standard deviation (divisor n-1) of
// the finite values in x, and how many those are. Values that are not finite
// (a run without that figure) are left out, so a caller says n. The mean is
// NaN for n = 0, the standard deviation for n < 2.
func MeanSD(x []float64) (mean, sd float64, n int) {
	x = finite(x)
	switch n = len(x); n {
	case 0:
		return math.NaN(), math.NaN(), 0
	case 1:
		return x[0], math.NaN(), 1
	}
	mean, sd = stat.MeanStdDev(x, nil)
	return mean, sd, n
}

// finite returns the finite values of x in their order.
func finite(x []float64) []float64 {
	out := make([]float64, 0, len(x))
	for _, v := range x {
		if isFinite(v) {
			out = append(out, v)
		}
	}
	return out
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
