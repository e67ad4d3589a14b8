package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson returns the Wilson score interval of a binomial proportion, k
// successes of n, at the given confidence level:
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
func Wilson(k, n int, level float64) (lo, hi float64) {
	if n < 0 || k < 0 || k > n {
		panic(fmt.Sprintf("stats: Wilson of %d successes of %d", k, n))
	}
	if !(level > 0 && level < 1) {
		panic(fmt.Sprintf("stats: Wilson at level %v", level))
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	z := distuv.UnitNormal.Quantile((1 + level) / 2)
	m := float64(n)
	p := float64(k) / m
	centre := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	// The exact ends at k = 0 and k = n are 0 and 1; rounding must not exceed them.
	return max(0, (centre-half)/scale), min(1, (centre+half)/scale)
}
