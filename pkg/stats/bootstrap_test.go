package stats

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	"grpo/internal/statstest"
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
// It never leaves the range of the values. Reports do not use it: the A/A test
// measures how much too narrow it is with few values (docs/statistics.md). NaN for
// fewer than 2 finite values.
func bootstrapBand(values []float64) (lo, hi float64) {
	x := Finite(values)
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

// resamples are the samples with replacement of n values: row k has how often
// each value is in sample k.
type resamples struct {
	n       int
	counts  []uint16 // n to a row
	weights []float64
}

// resampleCache has the results of resamplesOf, a pure function of n.
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

// bruteBand is the band by listing all n^n resamples.
func bruteBand(x []float64) (lo, hi float64) {
	n := len(x)
	total := int(math.Pow(float64(n), float64(n)))
	means := make([]float64, total)
	for k := range total {
		sum := 0.0
		for rest, i := k, 0; i < n; i++ {
			sum += x[rest%n]
			rest /= n
		}
		means[k] = sum / float64(n)
	}
	slices.Sort(means)
	at := int(math.Ceil(0.025*float64(total))) - 1
	return means[at], means[total-1-at]
}

func TestBootstrapBand(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name string
		x    []float64
	}{
		{"two", []float64{0.2, 0.7}},
		{"four", []float64{0.947, 0.927, 0.918, 0.939}},
		{"four with ties", []float64{0.5, 0.5, 0.25, 0.75}},
		{"five, skewed", []float64{0, 0, 0, 0.1, 0.9}},
		{"six", []float64{3, 1, 4, 1.5, 9, 2.6}},
		{"all equal", []float64{0.3, 0.3, 0.3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := bootstrapBand(tt.x)
			wantLo, wantHi := bruteBand(tt.x)
			if !scalar.EqualWithinAbs(lo, wantLo, 1e-12) || !scalar.EqualWithinAbs(hi, wantHi, 1e-12) {
				t.Errorf("[%v, %v], by listing [%v, %v]", lo, hi, wantLo, wantHi)
			}
		})
	}
	for _, x := range [][]float64{nil, {0.4}, {nan, 0.4}} {
		if lo, hi := bootstrapBand(x); !math.IsNaN(lo) || !math.IsNaN(hi) {
			t.Errorf("of %v: [%v, %v]", x, lo, hi)
		}
	}
}

// With many values the drawn band is near mean ± 1.96·sd/√n.
func TestBootstrapBandDrawn(t *testing.T) {
	r := statstest.Rand(77, 0)
	x := make([]float64, 40)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	mean, sd, n := MeanSD(x)
	lo, hi := bootstrapBand(x)
	half := 1.96 * sd / math.Sqrt(float64(n))
	if !scalar.EqualWithinAbs(lo, mean-half, 0.1*half) || !scalar.EqualWithinAbs(hi, mean+half, 0.1*half) {
		t.Errorf("[%v, %v] around %v, want about ±%v", lo, hi, mean, half)
	}
}

func TestBootstrapBandLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 10).Draw(t, "x")
		lo, hi := bootstrapBand(x)
		if lo > hi || lo < slices.Min(x)-1e-12 || hi > slices.Max(x)+1e-12 {
			t.Fatalf("[%v, %v] of %v", lo, hi, x)
		}
		y := rapid.Permutation(x).Draw(t, "y")
		if l, h := bootstrapBand(y); l != lo || h != hi {
			t.Fatalf("in another order [%v, %v], was [%v, %v]", l, h, lo, hi)
		}
		for i := range y {
			y[i] = -x[i]
		}
		if l, h := bootstrapBand(y); len(x) <= bootExact && (!scalar.EqualWithinAbs(l, -hi, 1e-12) || !scalar.EqualWithinAbs(h, -lo, 1e-12)) {
			t.Fatalf("negated [%v, %v], was [%v, %v]", l, h, lo, hi)
		}
	})
}

func TestResampleWeights(t *testing.T) {
	for _, n := range []int{2, 4, 8, 9, 12} {
		r, sum := resamplesOf(n), 0.0
		for k, w := range r.weights {
			sum += w
			rows := 0
			for _, c := range r.counts[k*n : (k+1)*n] {
				rows += int(c)
			}
			if rows != n {
				t.Fatalf("n = %d: sample %d has %d values", n, k, rows)
			}
		}
		if !scalar.EqualWithinAbs(sum, 1, 1e-12) {
			t.Errorf("n = %d: the weights add up to %v", n, sum)
		}
	}
}
