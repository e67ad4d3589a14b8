package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// MaxPairs is the largest number that [PairsForPower] returns.
const MaxPairs = 1000

// PairsForPower returns the smallest number of pairs with which a two-sided t test at level alpha
// detects a true mean difference with the given power. effect is that difference in standard
// deviations of the differences, without sign. It returns 0 when more than [MaxPairs] pairs are
// needed, or when effect is not positive.
//
// It is exact for normal differences (noncentral t with n-1 degrees of freedom and noncentrality
// effect·√n; Cohen, Statistical Power Analysis, 1988, chapter 2). If effect is estimated from the
// same few pairs, the result is a rough guide: n = 4 leaves the effect uncertain by a factor of two
// and more.
func PairsForPower(effect, alpha, power float64) int {
	if !(effect > 0) {
		return 0
	}
	n := 2 + sort.Search(MaxPairs-1, func(i int) bool { return pairedPower(i+2, effect, alpha) >= power })
	if n > MaxPairs {
		return 0
	}
	return n
}

// pairedPower is the probability that n pairs with a true mean difference of
// effect standard deviations give a two-sided p of at most alpha:
//
//	P(|T| > t(n-1, 1-alpha/2)),    T noncentral t with shift effect·√n
func pairedPower(n int, effect, alpha float64) float64 {
	df := n - 1
	critical := tDistribution(df).Quantile(1 - alpha/2)
	shift := effect * math.Sqrt(float64(n))
	return 1 - noncentralT(critical, df, shift) + noncentralT(-critical, df, shift)
}

// noncentralT is the distribution function at t of (Z + shift)/√(V/df), Z
// standard normal and V chi-squared with df degrees of freedom:
//
//	∫ Φ(t·x - shift) · f(x) dx,   f the density of x = √(V/df)
//
// by Gauss-Legendre quadrature over a range that leaves out 1e-15 of f.
func noncentralT(t float64, df int, shift float64) float64 {
	nu := float64(df)
	reach := 9 / math.Sqrt(2*nu)
	gamma, _ := math.Lgamma(nu / 2)
	logScale := math.Ln2 + nu/2*math.Log(nu/2) - gamma
	f := func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		return distuv.UnitNormal.CDF(t*x-shift) * math.Exp(logScale+(nu-1)*math.Log(x)-nu*x*x/2)
	}
	return quad.Fixed(f, max(0, 1-reach), 1+reach, 100, nil, 0)
}
