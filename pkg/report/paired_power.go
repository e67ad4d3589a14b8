package report

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	targetPower = 0.8
	// mostSeeds is where counting seeds stops to be of use.
	mostSeeds = 1000
)

// SeedsForPower returns the least number of paired seeds with which a two-sided
// t test at level alpha finds a true mean difference of effect standard
// deviations (of the differences) with the given power. It returns 0 when more
// than 1000 would be needed, or when effect is not a positive number.
//
// It is exact for normal differences (noncentral t with n-1 degrees of freedom
// and noncentrality effect·√n). With the effect estimated from the same few
// seeds, as in a verdict, it is a rough guide: n = 4 leaves the effect
// uncertain by a factor of two and more.
func SeedsForPower(effect, alpha, power float64) int {
	if !(effect > 0) || math.IsInf(effect, 1) && power >= 1 {
		return 0
	}
	enough := func(n int) bool { return pairedPower(n, effect, alpha) >= power }
	top := 2
	for top < mostSeeds && !enough(top) {
		top *= 2
	}
	n := 2 + sort.Search(min(top, mostSeeds)-1, func(i int) bool { return enough(i + 2) })
	if n > mostSeeds {
		return 0
	}
	return n
}

// pairedPower is the chance that n pairs with a true mean difference of effect
// standard deviations give a two-sided p of at most alpha.
func pairedPower(n int, effect, alpha float64) float64 {
	df := n - 1
	critical := studentT(df).Quantile(1 - alpha/2)
	shift := effect * math.Sqrt(float64(n))
	return 1 - noncentralT(critical, df, shift) + noncentralT(-critical, df, shift)
}

// noncentralT is the distribution function at t of (Z + shift)/√(V/df) with Z
// standard normal and V chi-squared with df degrees of freedom:
//
//	∫ Φ(t·x - shift) · f(x) dx,   f the density of x = √(V/df)
//
// by Gauss-Legendre quadrature over the range that holds f but for 1e-15.
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
