// Package statstest has what simulations of statistical tests share: repeatable random
// sources, the number of simulations, and the maximum number of false positives of a
// test with a level of 5%.
package statstest

import (
	"flag"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat/distuv"

	"grpo/pkg/rng"
)

// Simulations is the number of A/A comparisons of each kind; simulations of whole sweeps make an
// eighth of it. Tests set it by -simulations.
var Simulations = flag.Int("simulations", 1600, "A/A comparisons of each kind; an eighth of it in whole sweeps")

// Problems is the size of the simulated validation sets.
const Problems = 1024

// Rand is a repeatable source for one case of a simulation.
func Rand(purpose, index int) *rand.Rand {
	return rand.New(rng.New(20, 0x6161).Sequence(uint32(purpose), uint32(index), 0))
}

// Share draws the share of [Problems] answered correctly, where the true share is normal with mean
// p and standard deviation sd, cut to [0, 1].
func Share(r *rand.Rand, p, sd float64) float64 {
	q := min(1, max(0, p+sd*r.NormFloat64()))
	return distuv.Binomial{N: Problems, P: q, Src: r}.Rand() / Problems
}

// MaxFalsePositives is the number of false positives in n comparisons that a test
// whose true rate is at most 5% exceeds with a probability below 1 in 10000.
func MaxFalsePositives(n int) int {
	const alpha = 0.05
	b := distuv.Binomial{N: float64(n), P: alpha}
	k := int(alpha * float64(n))
	for b.CDF(float64(k)) < 1-1e-4 {
		k++
	}
	return k
}

// Same reports whether a and b are both NaN, or equal up to rounding.
func Same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || scalar.EqualWithinAbsOrRel(a, b, 1e-12, 1e-12)
}
