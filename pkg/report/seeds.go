package report

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Statistics over seeds. Intervals over seeds and paired differences between
// arms belong here too; a mean with its standard deviation claims nothing
// about either.

// MeanSD returns the mean and the sample standard deviation (divisor n-1) of
// the finite values in x, and how many those are. Values that are not finite
// (a run without that figure) are left out, so a caller says n. The mean is
// NaN for n = 0, the standard deviation for n < 2.
func MeanSD(x []float64) (mean, sd float64, n int) {
	finite := make([]float64, 0, len(x))
	for _, v := range x {
		if isFinite(v) {
			finite = append(finite, v)
		}
	}
	switch n = len(finite); n {
	case 0:
		return math.NaN(), math.NaN(), 0
	case 1:
		return finite[0], math.NaN(), 1
	}
	mean, sd = stat.MeanStdDev(finite, nil)
	return mean, sd, n
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
