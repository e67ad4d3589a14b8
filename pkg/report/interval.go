package report

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a mean over seeds with what the seeds say about it.
type Estimate struct {
	N        int // finite values
	Mean, SD float64
	// Lo and Hi bound the mean at [Level]; P is the two-sided p value of the
	// mean being 0. NaN for N < 2.
	Lo, Hi, P float64
}

// StudentT estimates the mean of the finite values in x by Student's t:
//
//	mean ± t(n-1, (1+Level)/2) · s/√n,    p = 2·P(T(n-1) > |mean|·√n/s)
//
// Source: Student, The probable error of a mean, Biometrika 6 (1908). For
// paired differences of two arms it keeps its level with 4 values where the
// bootstrap does not, see docs/statistics.md.
//
// s is the sample standard deviation, but not less than resolution: the unit
// in which the values are counted (one problem of 1024, one evaluation
// interval). Where a few coarse values happen to be equal, they show that the
// spread is below what the measure can tell, not that it is 0. With resolution
// 0 and values that are all equal, the interval is that value and p is that of
// the sign-flip test, 2^(1-n), or 1 where the value is 0.
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
	e.P = min(1, 2*studentT(e.N-1).Survival(math.Abs(e.Mean)/se))
	return e
}

func studentT(df int) distuv.StudentsT {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}
}

// tQuantile is t(df, (1+Level)/2), kept because a report asks for the same few
// again and again.
func tQuantile(df int) float64 {
	if q, ok := tQuantiles.Load(df); ok {
		return q.(float64)
	}
	q := studentT(df).Quantile((1 + Level) / 2)
	tQuantiles.Store(df, q)
	return q
}

var tQuantiles sync.Map

// newFigure sums up the values of an arm. The interval is cut to the range in
// which the quantity lies: no reward is above 1.
func newFigure(values []float64, resolution, least, most float64) Figure {
	e := StudentT(values, resolution)
	f := Figure{Values: values, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi}
	if e.N > 1 {
		f.Lo, f.Hi = max(e.Lo, least), min(e.Hi, most)
	}
	return f
}
