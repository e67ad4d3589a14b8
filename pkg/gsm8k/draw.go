package gsm8k

import (
	"math/bits"

	"grpo/pkg/rng"
)

// intn returns a number in 0..n-1 from the next draw: the high word of a 64-bit
// product, whose bias of n/2^64 is nothing here. It is written out, as the
// shuffle is, because problems and corpora are part of a run's identity and must
// not depend on how a library maps random bits.
func intn(q *rng.Sequence, n int) int {
	hi, _ := bits.Mul64(q.Uint64(), uint64(n))
	return int(hi)
}

// unit returns a number in [0, 1) from the next draw.
func unit(q *rng.Sequence) float64 { return float64(q.Uint64()>>11) * 0x1p-53 }

// shuffle puts s in random order (Fisher and Yates).
func shuffle[T any](q *rng.Sequence, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := intn(q, i+1)
		s[i], s[j] = s[j], s[i]
	}
}

// nextByWeight returns the index whose count lags most behind its weight, the
// first of equals, or -1 if no weight is positive: the method of Sainte-Lague,
// argmin (count + 1/2) / weight. Taken one after the other, the indices follow
// the weights in every prefix, and a longer sequence only extends a shorter one.
func nextByWeight(counts []int, weights []float64) int {
	best, bestQuotient := -1, 0.0
	for i, w := range weights {
		if !(w > 0) {
			continue
		}
		if q := (float64(counts[i]) + 0.5) / w; best < 0 || q < bestQuotient {
			best, bestQuotient = i, q
		}
	}
	return best
}
