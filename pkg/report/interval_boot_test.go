package report

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"grpo/pkg/rng"
)

const (
	// bootExact is the largest n whose resamples are enumerated: of 8 values
	// there are 6435 multisets, of 9 there are 24310.
	bootExact = 8
	// bootDraws is the number of resamples beyond.
	bootDraws = 4000
	// bootPurpose keeps these draws apart from the streams of training.
	bootPurpose rng.Purpose = 0x626f6f74
)

// bootstrapBand returns the percentile bootstrap interval, at [Level], of the
// mean of the finite values: the quantiles (1-Level)/2 and (1+Level)/2 of the
// means of all samples of size n with replacement. Source: B. Efron and R. J.
// Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
//
// Up to 8 values it is exact: every multiset of the values counts with its
// multinomial probability. Beyond, 4000 resamples are drawn from a fixed
// counter-based stream, so the same values give the same band in any order.
//
// It never leaves the range of the values. Reports do not use it: it is here to
// measure how much too narrow it is with few values (docs/statistics.md). NaN for
// fewer than 2 finite values.
func bootstrapBand(values []float64) (lo, hi float64) {
	x := finite(values)
	if len(x) < 2 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(x)
	means := resamplesOf(len(x)).means(x)
	lo = tailOf(means)
	for i := range means {
		means[i].value = -means[i].value
	}
	return lo, -tailOf(means)
}

// weighted is a resampled mean with its probability.
type weighted struct{ value, weight float64 }

// tailOf is the least value with at least (1-Level)/2 of the weight at or below
// it.
func tailOf(all []weighted) float64 {
	// Rounding of the weights must not move a quantile by one value.
	const tail = (1-Level)/2 - 1e-12
	var mean, square float64
	for _, m := range all {
		mean += m.weight * m.value
		square += m.weight * m.value * m.value
	}
	// The quantile is nearly always more than a standard deviation below the
	// mean; only that part has to be sorted then.
	limit := mean - math.Sqrt(max(0, square-mean*mean))
	var low []weighted
	sum := 0.0
	for _, m := range all {
		if m.value < limit {
			low, sum = append(low, m), sum+m.weight
		}
	}
	if sum < tail {
		low = slices.Clone(all)
	}
	slices.SortFunc(low, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	sum = 0
	for _, m := range low {
		if sum += m.weight; sum >= tail {
			return m.value
		}
	}
	return low[len(low)-1].value
}

// resamples are the samples with replacement of n values: row k holds how often
// each value is in sample k.
type resamples struct {
	n       int
	counts  []uint16 // n to a row
	weights []float64
}

// resampleCache holds what resamplesOf has made; a pure function of n.
var resampleCache sync.Map

func resamplesOf(n int) *resamples {
	if r, ok := resampleCache.Load(n); ok {
		return r.(*resamples)
	}
	r := &resamples{n: n}
	if n <= bootExact {
		r.enumerate()
	} else {
		r.draw()
	}
	resampleCache.Store(n, r)
	return r
}

// enumerate lists every multiset of n of n values with its probability,
// n!/(k1!·k2!·...)/n^n.
func (r *resamples) enumerate() {
	whole := 1.0 // n!/n^n
	for i := 1; i <= r.n; i++ {
		whole *= float64(i) / float64(r.n)
	}
	row := make([]uint16, r.n)
	var walk func(i, left int, weight float64)
	walk = func(i, left int, weight float64) {
		if i == r.n-1 {
			for k := 2; k <= left; k++ {
				weight /= float64(k)
			}
			row[i] = uint16(left)
			r.counts, r.weights = append(r.counts, row...), append(r.weights, weight)
			return
		}
		for k := 0; k <= left; k++ {
			if k > 1 {
				weight /= float64(k)
			}
			row[i] = uint16(k)
			walk(i+1, left-k, weight)
		}
	}
	walk(0, r.n, whole)
}

// draw takes samples from the fixed stream of this n.
func (r *resamples) draw() {
	stream := rng.New(0, bootPurpose)
	n := uint64(r.n)
	r.counts = make([]uint16, bootDraws*r.n)
	for k := range bootDraws {
		row := r.counts[k*r.n : (k+1)*r.n]
		for i := range r.n {
			// The high half of a product with 32 random bits picks evenly, to n in
			// 2^32.
			pick := uint64(stream.Block(uint32(k), uint32(i), uint32(n), 0)[0]) * n >> 32
			row[pick]++
		}
		r.weights = append(r.weights, 1.0/bootDraws)
	}
}

// means are the means of x, of n values, over each sample.
func (r *resamples) means(x []float64) []weighted {
	out := make([]weighted, len(r.weights))
	for k, w := range r.weights {
		sum := 0.0
		for i, c := range r.counts[k*r.n : (k+1)*r.n] {
			sum += float64(c) * x[i]
		}
		out[k] = weighted{sum / float64(r.n), w}
	}
	return out
}
