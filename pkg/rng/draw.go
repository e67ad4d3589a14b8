package rng

import "math/bits"

// Intn returns a number in 0..n-1 from the next draw: the high word of a 64-bit product, whose bias of n/2^64 is
// negligible. Intn and ShuffleSlice are implemented here because problems and corpora are part of a run's identity:
// they must not depend on a library's mapping of random bits.
func (q *Sequence) Intn(n int) int {
	hi, _ := bits.Mul64(q.Uint64(), uint64(n))
	return int(hi)
}

// Float64 returns a number in [0, 1) with 53 random bits from the next draw.
func (q *Sequence) Float64() float64 { return float64(q.Uint64()>>11) * 0x1p-53 }

// ShuffleSlice puts s in random order (Fisher and Yates).
func ShuffleSlice[T any](q *Sequence, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := q.Intn(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}
