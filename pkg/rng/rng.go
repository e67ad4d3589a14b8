// Package rng provides counter-based random streams: a number is a pure function of
// (seed, purpose, coordinates), so it is the same in any order of draws, on any worker,
// before or after an interruption.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011): ten rounds of two 32x32 multiplications, a few
// nanoseconds per draw, and simple enough to reproduce bit for bit on a GPU.
package rng

import "math/bits"

// Purpose separates streams of different uses.
type Purpose uint32

const (
	Weights    Purpose = iota + 1 // initial weights
	Problems                      // the generator of problems
	Order                         // the order of problems in training
	Rollout                       // tokens of training completions
	Evaluation                    // tokens of validation and test completions
	Corpus                        // examples of the supervised stages
	Shuffle                       // batch order of the supervised stages
	Noise                         // the random control reward
	Audit                         // tokens of the completions of an audit
	Verdict                       // the errors of reward.noise
)

// Stream is a keyed family of numbers, indexed by three 32-bit coordinates and
// a draw number. It is a value without state.
type Stream struct{ k0, k1 uint32 }

// New returns the stream of a seed and a purpose.
func New(seed uint64, purpose Purpose) Stream {
	z := splitmix(seed + 0x9e3779b97f4a7c15*uint64(purpose))
	return Stream{uint32(z), uint32(z >> 32)}
}

func splitmix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Key returns the stream's key, for computing its blocks on a device.
func (s Stream) Key() (k0, k1 uint32) { return s.k0, s.k1 }

// Block returns the four 32-bit words at coordinates (a, b, c) and draw d.
func (s Stream) Block(a, b, c, d uint32) [4]uint32 {
	return philox([4]uint32{a, b, c, d}, s.k0, s.k1)
}

func philox(x [4]uint32, k0, k1 uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, x[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, x[2])
		x = [4]uint32{h1 ^ x[1] ^ k0, l1, h0 ^ x[3] ^ k1, l0}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return x
}

// Float64 returns a number in [0, 1) with 53 random bits.
func (s Stream) Float64(a, b, c, d uint32) float64 {
	x := s.Block(a, b, c, d)
	return float64((uint64(x[0])<<32|uint64(x[1]))>>11) * 0x1p-53
}

// Sequence returns a sequential source over the draws at (a, b, c).
func (s Stream) Sequence(a, b, c uint32) *Sequence { return &Sequence{s: s, a: a, b: b, c: c} }

// Sequence returns the draws at one place of a [Stream] in order.
// It is a math/rand/v2 Source: wrap it with rand.New for shuffles and normals.
type Sequence struct {
	s       Stream
	a, b, c uint32
	d       uint32
}

// Uint64 returns the next 64 bits.
func (q *Sequence) Uint64() uint64 {
	x := q.s.Block(q.a, q.b, q.c, q.d)
	q.d++
	return uint64(x[0])<<32 | uint64(x[1])
}
