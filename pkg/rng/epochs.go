package rng

import "math/rand/v2"

// Epochs draws from N items without replacement, in a new random order for each pass. It depends
// only on its stream and the position, so a resumed run stores only the position. The stream
// depends on the seed alone: arms with the same seed get the same problems in the same order, as
// long as they draw equally many (dynamic sampling draws more).
type Epochs struct {
	Stream Stream
	Place  uint32 // distinguishes the orders of one stream
	N      int
	epoch  int   // of perm
	perm   []int // the permutation of one pass
}

// At returns the i-th item drawn.
func (o *Epochs) At(i int) int {
	if epoch := i / o.N; o.perm == nil || epoch != o.epoch {
		o.epoch = epoch
		o.perm = rand.New(o.Stream.Sequence(uint32(epoch), o.Place, 0)).Perm(o.N)
	}
	return o.perm[i%o.N]
}
