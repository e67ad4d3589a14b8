package stats

import (
	"math"
	"sort"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"grpo/pkg/elementary"
)

// Estimate is a mean with its interval and test. All but N and P are in the unit
// of the values.
type Estimate struct {
	N        int     // finite values
	Mean, SD float64 // see [MeanSD]
	SE       float64 // the standard error of the mean; NaN for N < 2
	Lo, Hi   float64 // the interval of the mean at [Level]; NaN for N < 2
	P        float64 // the two-sided p value of the mean being 0; NaN for N < 2
}

// StudentT estimates the mean of the finite values in x by Student's t:
//
//	mean ± t(n-1, (1+Level)/2) · s/√n,    p = 2·P(T(n-1) > |mean|·√n/s)
//
// Source: Student, The probable error of a mean, Biometrika 6 (1908). It is exact
// for normal values. For paired differences it keeps its level with 4 values,
// where the bootstrap does not (docs/statistics.md).
//
// s is the sample standard deviation, but not less than resolution: the unit in
// which the values are counted, for example one problem of 1024. A few coarse
// values that are equal by chance show that the spread is below the resolution, not
// that it is 0. With resolution 0 and equal values the interval is that value,
// and p is that of the sign-flip test: 2^(1-n), or 1 if the value is 0.
func StudentT(x []float64, resolution float64) Estimate {
	e := Estimate{}
	e.Mean, e.SD, e.N = MeanSD(x)
	return e.With(max(e.SD, resolution) / math.Sqrt(float64(e.N)))
}

// With is the estimate with another standard error of its mean.
func (e Estimate) With(se float64) Estimate {
	if e.N < 2 {
		se = math.NaN()
	}
	e.SE = se
	e.Lo, e.Hi = e.Interval(Alpha)
	e.P = min(1, 2*e.tail(math.Abs(e.Mean)))
	return e
}

// Interval is the interval of the mean at the confidence level 1 - alpha:
// mean ± t(n-1, 1-alpha/2)·SE. Both ends are NaN for N < 2.
func (e Estimate) Interval(alpha float64) (lo, hi float64) {
	half := tHalf(e.N-1, 1-float64(alpha/2), e.SE)
	return e.Mean - half, e.Mean + half
}

// Bound is an upper bound of the true mean's size at the confidence level 1 - alpha:
//
//	|mean| + t(n-1, 1-alpha)·SE
//
// It is the smallest margin at which [Estimate.TOST] is at most alpha, so no margin has to be
// chosen before. NaN for N < 2.
func (e Estimate) Bound(alpha float64) float64 {
	return math.Abs(e.Mean) + tHalf(e.N-1, 1-alpha, e.SE)
}

// TOST is the p value of the true mean being at or beyond ±margin, by two one-sided tests: the
// larger one's. At most alpha shows that the mean is between them. Source: D. J. Schuirmann,
// Journal of Pharmacokinetics and Biopharmaceutics 15 (1987). NaN for N < 2.
func (e Estimate) TOST(margin float64) float64 {
	p := e.tail(math.Abs(margin - math.Abs(e.Mean)))
	if math.Abs(e.Mean) > margin {
		p = 1 - p
	}
	return p
}

// tail is P(T(n-1) > distance/SE). Without a standard error (equal values that are not counts) it
// is the probability that n signs agree.
func (e Estimate) tail(distance float64) float64 {
	switch {
	case e.SE == 0 && distance == 0:
		return 0.5
	case e.SE == 0:
		return math.Exp2(-float64(e.N))
	case math.IsNaN(e.SE):
		return math.NaN()
	}
	return tDistribution(e.N - 1).Survival(distance / e.SE)
}

// tHalf is se times the quantile of Student's t.
func tHalf(df int, level, se float64) float64 {
	if se == 0 || math.IsNaN(se) {
		return se
	}
	return tQuantile(df, level) * se
}

// Clip returns e with its interval cut to [lo, hi], the range of the quantity. An
// NaN interval is unchanged.
func (e Estimate) Clip(lo, hi float64) Estimate {
	e.Lo, e.Hi = max(e.Lo, lo), min(e.Hi, hi)
	return e
}

// tDistribution is Student's t with df degrees of freedom.
func tDistribution(df int) distuv.StudentsT {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}
}

// tQuantile is a quantile of Student's t. It is cached, because a report needs the same
// few quantiles thousands of times.
func tQuantile(df int, level float64) float64 {
	type key struct {
		df    int
		level float64
	}
	if q, ok := tQuantiles.Load(key{df, level}); ok {
		return q.(float64)
	}
	q := tDistribution(df).Quantile(level)
	tQuantiles.Store(key{df, level}, q)
	return q
}

var tQuantiles, effects, densities sync.Map

// Differences returns a[i] - b[i] for each index that both have, NaN where either
// value is not finite. [StudentT] of the differences is the paired t test of a
// against b.
func Differences(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
		if !IsFinite(out[i]) {
			out[i] = math.NaN()
		}
	}
	return out
}

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

// EffectForPower is the true mean difference, in standard deviations of the differences, that n
// pairs detect with the given power in a two-sided t test at level alpha: with 4 pairs 2.1 for 80% at
// 5%, with 8 pairs 1.2. NaN for n < 2. It is cached, as [tQuantile] is.
func EffectForPower(n int, alpha, power float64) float64 {
	if n < 2 {
		return math.NaN()
	}
	type key struct {
		n            int
		alpha, power float64
	}
	if effect, ok := effects.Load(key{n, alpha, power}); ok {
		return effect.(float64)
	}
	lo, hi := 0.0, 1.0
	for pairedPower(n, hi, alpha) < power {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1e-6*hi {
		if mid := (lo + hi) / 2; pairedPower(n, mid, alpha) < power {
			lo = mid
		} else {
			hi = mid
		}
	}
	effects.Store(key{n, alpha, power}, hi)
	return hi
}

// SDBound is the upper confidence bound of the standard deviation of normal values, as a factor of the
// one estimated from n of them: √((n-1)/χ²(n-1, 1-level)). With 4 values it is 1.73 at the level 0.8.
func SDBound(n int, level float64) float64 {
	df := float64(n - 1)
	return math.Sqrt(df / distuv.ChiSquared{K: df}.Quantile(1-level))
}

// pairedPower is the probability that n pairs with a true mean difference of
// effect standard deviations give a two-sided p of at most alpha:
//
//	P(|T| > t(n-1, 1-alpha/2)),    T noncentral t with shift effect·√n
func pairedPower(n int, effect, alpha float64) float64 {
	df := n - 1
	critical := tQuantile(df, 1-float64(alpha/2))
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
	sum := 0.0
	for _, p := range chiDensity(df) {
		sum += float64(p.weight * (distuv.UnitNormal.CDF(float64(t*p.x)-shift) * p.density))
	}
	return sum
}

// point is where a quadrature looks at a density.
type point struct{ x, weight, density float64 }

// chiDensity is f of [noncentralT] at the points of the quadrature, cached.
func chiDensity(df int) []point {
	if points, ok := densities.Load(df); ok {
		return points.([]point)
	}
	nu := float64(df)
	reach := 9 / math.Sqrt(2*nu)
	gamma, _ := math.Lgamma(nu / 2)
	logScale := math.Ln2 + float64(nu/2*elementary.Log(nu/2)) - gamma
	points := make([]point, 100)
	for i := range points {
		x, weight := quad.Legendre{}.FixedLocationSingle(len(points), i, max(0, 1-reach), 1+reach)
		points[i] = point{x, weight, elementary.Exp(logScale + float64((nu-1)*elementary.Log(x)) - float64(nu*x*x/2))}
	}
	densities.Store(df, points)
	return points
}
