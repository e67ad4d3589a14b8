package stats

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a mean with its interval and test. All but N and P are in the unit
// of the values.
type Estimate struct {
	N        int     // finite values
	Mean, SD float64 // see [MeanSD]
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
	nan := math.NaN()
	e := Estimate{Lo: nan, Hi: nan, P: nan}
	e.Mean, e.SD, e.N = MeanSD(x)
	if e.N < 2 {
		return e
	}
	n := float64(e.N)
	se := max(e.SD, resolution) / math.Sqrt(n)
	if se == 0 {
		e.Lo, e.Hi, e.P = e.Mean, e.Mean, 1
		if e.Mean != 0 {
			e.P = math.Exp2(1 - n)
		}
		return e
	}
	half := tQuantile(e.N-1) * se
	e.Lo, e.Hi = e.Mean-half, e.Mean+half
	e.P = min(1, 2*tDistribution(e.N-1).Survival(math.Abs(e.Mean)/se))
	return e
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

// tQuantile is t(df, (1+Level)/2). It is cached, because a report needs the same
// few quantiles thousands of times.
func tQuantile(df int) float64 {
	if q, ok := tQuantiles.Load(df); ok {
		return q.(float64)
	}
	q := tDistribution(df).Quantile((1 + Level) / 2)
	tQuantiles.Store(df, q)
	return q
}

var tQuantiles sync.Map

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
