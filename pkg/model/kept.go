package model

import (
	"math"
	"slices"
)

// Kept is the set of tokens that could be sampled at one place of a completion: the others were cut off
// by top-k, top-p or the minimum length. nil is the whole vocabulary. A Kept does not change.
//
// The old policy decides the set when it samples, so a learner gets it with the completion: see
// [Row.Kept].
type Kept struct {
	vocab int
	ids   []int32  // in ascending order, if they are few; else nil
	bits  []uint64 // bit i%64 of element i/64 is token i
}

// newKept returns the set of the n tokens of a vocabulary for which in is true.
func newKept(vocab, n int, in func(id int) bool) *Kept {
	k := &Kept{vocab: vocab}
	if n <= vocab/32 { // an id has 32 bits
		k.ids = make([]int32, 0, n)
	} else {
		k.bits = make([]uint64, (vocab+63)/64)
	}
	for id := range vocab {
		switch {
		case !in(id):
		case k.bits == nil:
			k.ids = append(k.ids, int32(id))
		default:
			k.bits[id/64] |= 1 << (id % 64)
		}
	}
	return k
}

// KeptBytes bounds the memory of a Kept.
func KeptBytes(vocab int) float64 { return 8 + 64 + 8*float64((vocab+63)/64) }

// Restrict sets the logits of the tokens outside the set to -Inf, so that a softmax is the one over the
// set: its probabilities, log-probabilities, entropy and gradients are those of the distribution that
// was sampled.
func (k *Kept) Restrict(logits []float32) {
	if k == nil {
		return
	}
	none := float32(math.Inf(-1))
	if k.bits != nil {
		for id := range logits {
			if k.bits[id/64]>>(id%64)&1 == 0 {
				logits[id] = none
			}
		}
		return
	}
	ids := k.ids
	for id := range logits {
		if len(ids) > 0 && int(ids[0]) == id {
			ids = ids[1:]
			continue
		}
		logits[id] = none
	}
}

// Has reports whether a token is in the set.
func (k *Kept) Has(id int) bool {
	if k == nil {
		return true
	}
	if k.bits != nil {
		return k.bits[id/64]>>(id%64)&1 == 1
	}
	return slices.Contains(k.ids, int32(id))
}
