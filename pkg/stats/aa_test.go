package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"grpo/internal/statstest"
)

// The A/A test: two samples of the same distribution must not be called different
// more often than 5%. The rejected methods are here as well, so that
// docs/statistics.md can report by how much they exceed that:
//
//	go test ./pkg/stats -run AA -v
//	go test ./pkg/stats -run AA -v -simulations 16000     as in the docs

// aaSource draws a value. Both samples draw from it, so that every difference is
// chance.
type aaSource struct {
	name       string
	resolution float64
	draw       func(r *rand.Rand) float64
}

// binomialShare draws the share of right answers, whose true value is spread over
// draws.
func binomialShare(p, sd float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return statstest.Share(r, p, sd) }
}

func aaSources() []aaSource {
	t3 := func(r *rand.Rand) float64 { return distuv.StudentsT{Mu: 0.8, Sigma: 0.03, Nu: 3, Src: r}.Rand() }
	return []aaSource{
		{"normal", 0, func(r *rand.Rand) float64 { return 0.8 + 0.04*r.NormFloat64() }},
		{"1024 problems, p .9, seed sd .04", 1. / statstest.Problems, binomialShare(0.9, 0.04)},
		{"the same, seed sd 0", 1. / statstest.Problems, binomialShare(0.9, 0)},
		{"near the ceiling, p .999", 1. / statstest.Problems, binomialShare(0.999, 0)},
		{"skewed (exponential)", 0, func(r *rand.Rand) float64 { return r.ExpFloat64() }},
		{"heavy tails (t, 3 df)", 0, t3},
		{"one seed in five collapses", 1. / statstest.Problems, func(r *rand.Rand) float64 {
			if r.Float64() < 0.2 {
				return binomialShare(0.05, 0.02)(r)
			}
			return binomialShare(0.9, 0.02)(r)
		}},
		{"steps in tens", 10, func(r *rand.Rand) float64 { return 10 * math.Round(6+0.7*r.NormFloat64()) }},
	}
}

// method is a test of the mean of paired differences being 0.
type method struct {
	name string
	// differ reports whether the method calls the mean of d different from 0; all has
	// the moments of every resample of d.
	differ func(d []float64, resolution float64, all []resampled) bool
	// used is set for the method in use, which must keep its level.
	used bool
}

var aaMethods = []method{
	{"percentile bootstrap", func(d []float64, _ float64, all []resampled) bool {
		below, above := bootShares(all, func(mean, _ float64) float64 { return mean })
		return below < 0.025 || above < 0.025
	}, false},
	{"BCa bootstrap", bcaDiffers, false},
	{"bootstrap-t", bootTDiffers, false},
	{"sign flips", signFlipDiffers, false},
	{"Student's t", func(d []float64, resolution float64, _ []resampled) bool { return StudentT(d, resolution).P <= Alpha }, true},
}

// bootShares returns how much of the bootstrap distribution of a statistic is
// at most 0, and at least 0, over all resamples.
func bootShares(all []resampled, statistic func(mean, se float64) float64) (below, above float64) {
	for _, m := range all {
		switch v := statistic(m.mean, m.se); {
		case v < 0:
			below += m.weight
		case v > 0:
			above += m.weight
		default:
			below, above = below+m.weight, above+m.weight
		}
	}
	return below, above
}

// resampled has the mean and standard error of a resample, and its probability.
type resampled struct{ mean, se, weight float64 }

// multiset is a resample of n values: how often each is in it, and its probability.
type multiset struct {
	counts []float64
	weight float64
}

// multisets are the resamples of each number of seeds: of 8 values there are 6435.
var multisets = map[int][]multiset{4: multisetsOf(4), 8: multisetsOf(8)}

// multisetsOf lists the resamples of n values with their probabilities, n!/(k1!·k2!·...)/n^n.
func multisetsOf(n int) (out []multiset) {
	whole := 1.0 // n!/n^n
	for i := 1; i <= n; i++ {
		whole *= float64(i) / float64(n)
	}
	row := make([]float64, n)
	var walk func(i, left int, weight float64)
	walk = func(i, left int, weight float64) {
		for k := 0; k <= left; k++ {
			if k > 1 {
				weight /= float64(k)
			}
			row[i] = float64(k)
			switch {
			case i < n-1:
				walk(i+1, left-k, weight)
			case k == left:
				out = append(out, multiset{slices.Clone(row), weight})
			}
		}
	}
	walk(0, n, whole)
	return out
}

// allMoments lists mean and standard error of every resample.
func allMoments(d []float64) []resampled {
	var out []resampled
	for _, m := range multisets[len(d)] {
		mean, variance := stat.MeanVariance(d, m.counts)
		out = append(out, resampled{mean, math.Sqrt(max(0, variance) / float64(len(d))), m.weight})
	}
	return out
}

// The resamples are those of a list of all n^n.
func TestAllMoments(t *testing.T) {
	d := []float64{0.5, -1, 3, 0.25}
	var mean, square, want, total float64
	for k := range 256 {
		m := (d[k%4] + d[k/4%4] + d[k/16%4] + d[k/64]) / 4
		want += m * m / 256
	}
	for _, m := range allMoments(d) {
		total, mean, square = total+m.weight, mean+m.weight*m.mean, square+m.weight*m.mean*m.mean
	}
	if !statstest.Same(total, 1) || !statstest.Same(mean, 2.75/4) || !statstest.Same(square, want) {
		t.Errorf("weights %v, mean %v, mean square %v, want %v", total, mean, square, want)
	}
}

// bcaDiffers is the bias-corrected and accelerated bootstrap (Efron 1987).
func bcaDiffers(d []float64, _ float64, all []resampled) bool {
	mean, _, n := MeanSD(d)
	if slices.Min(d) == slices.Max(d) {
		return mean != 0
	}
	less := 0.0
	for _, m := range all {
		switch {
		case m.mean < mean-1e-12:
			less += m.weight
		case m.mean <= mean+1e-12:
			less += m.weight / 2
		}
	}
	z0 := distuv.UnitNormal.Quantile(less)
	var cubes, squares float64
	for _, v := range d {
		u := (v - mean) / float64(n-1) // the jackknife mean less the one without v
		cubes, squares = cubes+u*u*u, squares+u*u
	}
	acceleration := cubes / (6 * math.Pow(squares, 1.5))
	level := func(p float64) float64 {
		z := z0 + distuv.UnitNormal.Quantile(p)
		return distuv.UnitNormal.CDF(z0 + z/(1-acceleration*z))
	}
	below, above := bootShares(all, func(mean, _ float64) float64 { return mean })
	return below < level(0.025) || above < 1-level(0.975)
}

// bootTDiffers is the bootstrap-t: the quantiles of Student's t are replaced by
// those of the resampled t.
func bootTDiffers(d []float64, _ float64, all []resampled) bool {
	mean, sd, n := MeanSD(d)
	if sd == 0 {
		return mean != 0
	}
	t := mean / (sd / math.Sqrt(float64(n)))
	below, above := bootShares(all, func(m, se float64) float64 {
		switch {
		case se > 1e-12:
			return (m-mean)/se - t
		case m > mean:
			return 1
		}
		return -1
	})
	return below < 0.025 || above < 0.025
}

// signFlipDiffers is the permutation test of paired differences: its smallest p
// value is 2/2^n.
func signFlipDiffers(d []float64, _ float64, _ []resampled) bool {
	observed := math.Abs(stat.Mean(d, nil))
	extreme, all := 0, 1<<len(d)
	for signs := range all {
		sum := 0.0
		for i, v := range d {
			if signs>>i&1 == 1 {
				v = -v
			}
			sum += v
		}
		if math.Abs(sum)/float64(len(d)) >= observed-1e-12 {
			extreme++
		}
	}
	return float64(extreme)/float64(all) <= Alpha
}

func TestAAOfMethods(t *testing.T) {
	for _, n := range []int{4, 8} {
		simulations := *statstest.Simulations
		// The rejected methods need less precision.
		rivals := map[int]int{4: simulations / 2, 8: simulations / 8}[n]
		table := fmt.Sprintf("called different, of %d comparisons of a distribution with itself (of %d by the methods other than t), "+
			"n = %d seeds\n%-36s", simulations, rivals, n, "")
		for _, m := range aaMethods {
			table += fmt.Sprintf(" %21s", m.name)
		}
		for s, source := range aaSources() {
			calls := make([]int, len(aaMethods))
			for i := range simulations {
				r := statstest.Rand(n*100+s, i)
				d := make([]float64, n)
				for k := range d {
					d[k] = source.draw(r) - source.draw(r)
				}
				var all []resampled
				if i < rivals {
					all = allMoments(d)
				}
				for k, m := range aaMethods {
					if !m.used && i >= rivals {
						continue
					}
					if m.differ(d, source.resolution, all) {
						calls[k]++
					}
				}
			}
			table += fmt.Sprintf("\n%-36s", source.name)
			for k, m := range aaMethods {
				of := rivals
				if m.used {
					of = simulations
				}
				table += fmt.Sprintf(" %20.1f%%", 100*float64(calls[k])/float64(of))
				// If this fails, docs/statistics.md is wrong about the percentile bootstrap.
				if limit := 2 * statstest.MaxFalsePositives(rivals); n == 4 && k+s == 0 && calls[k] < limit {
					t.Errorf("%s calls %d of %d different, not more than %d", m.name, calls[k], rivals, limit)
				}
				if m.used && calls[k] > statstest.MaxFalsePositives(simulations) {
					t.Errorf("n = %d, %s: %s calls %d of %d different, at most %d allowed", n, source.name, m.name, calls[k],
						simulations, statstest.MaxFalsePositives(simulations))
				}
			}
		}
		t.Log("\n" + table)
	}
}
