package model

import (
	"math"
	"slices"

	"grpo/pkg/elementary"
)

// Chooser picks tokens from probabilities. It keeps scratch memory, so each worker
// has its own.
type Chooser struct {
	end     []int     // tokens that end a completion
	nucleus []int     // (vocabulary), once it is needed
	sums    []float64 // of groups of probabilities
	mass    float64   // see Mass
	goesOn  *Kept     // all but the end tokens, once it is needed
}

// NewChooser returns a chooser for a vocabulary with the given end tokens.
func NewChooser(vocab int, end []int) *Chooser {
	return &Chooser{end: end, sums: make([]float64, 0, (vocab+pickGroup-1)/pickGroup)}
}

// Choose picks token t of a completion by the probabilities of its logits, which it may change, and
// the uniform number u.
func (w *Chooser) Choose(probs, logits []float32, opt Sampling, t int, u float64) int {
	w.mass = 1
	if t < opt.MinTokens {
		w.withoutEnd(probs, logits, opt.InverseTemperature())
	}
	if opt.Greedy {
		best := 0
		for i, p := range probs {
			if p > probs[best] {
				best = i
			}
		}
		return best
	}
	if opt.TopP < 1 || opt.TopK > 0 {
		w.truncate(probs, opt)
	}
	id, mass := w.pick(probs, u)
	if opt.cutsAt(t) {
		w.mass = min(1, mass)
	}
	return id
}

// withoutEnd sets the probabilities of the end tokens to zero. If all others are zero too, because an end token is
// more likely by e^88 or more, they become those of a softmax without end tokens, times a constant.
func (w *Chooser) withoutEnd(probs, logits []float32, inv float32) {
	for _, id := range w.end {
		if id < len(probs) {
			probs[id] = 0
		}
	}
	if slices.ContainsFunc(probs, func(p float32) bool { return p != 0 }) {
		return
	}
	top := float32(math.Inf(-1))
	for id, x := range logits {
		if x > top && !slices.Contains(w.end, id) {
			top = x
		}
	}
	// A sum of at most one: Mass stays the probability that the softmax gave them, about zero.
	scale := math.SmallestNonzeroFloat32 * float64(1<<40)
	for id, x := range logits {
		if !slices.Contains(w.end, id) {
			probs[id] = float32(scale * elementary.Exp(float64((x-top)*inv)))
		}
	}
}

// Mass is the probability, before anything was cut off, of the tokens that the last call of Choose
// could pick: 1 without top-k, top-p and the minimum length, and for greedy decoding.
func (w *Chooser) Mass() float64 { return w.mass }

// Kept is the set that the last call of Choose could pick from, given what it left of the probabilities
// and the token id that it picked as token t.
func (w *Chooser) Kept(probs []float32, opt Sampling, t, id int) *Kept {
	switch {
	case !opt.cutsAt(t):
		return nil
	case opt.TopP < 1 || opt.TopK > 0:
		n := 0
		for i, p := range probs {
			if p > 0 || i == id {
				n++
			}
		}
		return newKept(len(probs), n, func(i int) bool { return probs[i] > 0 || i == id })
	case w.goesOn == nil:
		in := func(i int) bool { return !slices.Contains(w.end, i) }
		w.goesOn = newKept(len(probs), len(probs), in)
	}
	return w.goesOn
}

// pickGroup is the number of probabilities that pick adds up at a time.
const pickGroup = 16

// pick returns the first token at which the sum of p exceeds u times their
// total, and the total. It first adds up groups, with four independent sums to hide the latency of
// an addition; then it searches one group.
func (w *Chooser) pick(p []float32, u float64) (id int, total float64) {
	sums := w.sums[:0]
	for at := 0; at < len(p); at += pickGroup {
		g := p[at:min(at+pickGroup, len(p))]
		var s [4]float64
		for ; len(g) >= 4; g = g[4:] {
			s[0] += float64(g[0])
			s[1] += float64(g[1])
			s[2] += float64(g[2])
			s[3] += float64(g[3])
		}
		for _, v := range g {
			s[0] += float64(v)
		}
		sum := (s[0] + s[1]) + (s[2] + s[3])
		sums = append(sums, sum)
		total += sum
	}
	// The group in which the sum passes the target; where rounding keeps it
	// below, the last one that holds anything.
	target, below := u*total, 0.0
	group, before := 0, 0.0
	for k, sum := range sums {
		if sum == 0 {
			continue
		}
		group, before = k, below
		if below += sum; below > target {
			break
		}
	}
	at := group * pickGroup
	last := at
	for i, v := range p[at:min(at+pickGroup, len(p))] {
		if v == 0 {
			continue
		}
		last = at + i
		if before += float64(v); before > target {
			break
		}
	}
	return last, total
}

// sortedSum is the largest vocabulary whose probabilities truncate adds up in the order of their
// size. In a larger one it adds them up in the order of the tokens, because it sorts only as many
// as it keeps.
const sortedSum = 1 << 12

// truncate sets the probability of every token to zero that top-k or top-p
// leaves out. Top-k comes first, then top-p over the rest.
func (w *Chooser) truncate(probs []float32, opt Sampling) {
	if w.nucleus == nil {
		w.nucleus = make([]int, len(probs))
	}
	heap := w.nucleus // the most likely token first, then those already taken, from the end
	for i := range heap {
		heap[i] = i
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i, probs)
	}
	taken := 0
	ranked := func(k int) float64 { // the probability of the token of rank k
		for ; taken <= k; taken++ {
			last := len(heap) - 1 - taken
			heap[0], heap[last] = heap[last], heap[0]
			siftDown(heap[:last], 0, probs)
		}
		return float64(probs[heap[len(heap)-1-k]])
	}
	keep := len(heap)
	if opt.TopK > 0 {
		keep = min(keep, opt.TopK)
	}
	var total float64
	if opt.TopK > 0 || len(heap) <= sortedSum {
		for k := range keep {
			total += ranked(k)
		}
	} else {
		for _, p := range probs {
			total += float64(p)
		}
	}
	var sum float64
	for k := range keep {
		sum += ranked(k)
		if sum >= opt.TopP*total {
			keep = k + 1
			break
		}
	}
	for _, i := range heap[:len(heap)-keep] {
		probs[i] = 0
	}
}

// siftDown restores the order of a heap of tokens below i: likely tokens come before less likely
// ones, and of equal ones those with the smaller number.
func siftDown(heap []int, i int, probs []float32) {
	before := func(a, b int) bool { return probs[a] > probs[b] || probs[a] == probs[b] && a < b }
	for {
		c := 2*i + 1
		if c+1 < len(heap) && before(heap[c+1], heap[c]) {
			c++
		}
		if c >= len(heap) || !before(heap[c], heap[i]) {
			return
		}
		heap[i], heap[c] = heap[c], heap[i]
		i = c
	}
}

// Kept is the set of tokens that could be sampled at one place of a completion: the others were cut off
// by top-k, top-p or the minimum length. nil is the whole vocabulary. A Kept does not change.
//
// The old policy decides the set when it samples, so a learner gets it with the completion: see
// [Row.Kept].
type Kept struct {
	ids  []int32  // in ascending order, if they are few; else nil
	bits []uint64 // bit i%64 of element i/64 is token i
}

// newKept returns the set of the n tokens of a vocabulary for which in is true.
func newKept(vocab, n int, in func(id int) bool) *Kept {
	k := &Kept{}
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
// was sampled. The padding of a teacher's vocabulary may have another length.
func (k *Kept) Restrict(logits []float32) {
	if k == nil {
		return
	}
	none := float32(math.Inf(-1))
	if k.bits != nil {
		for id := range logits {
			if id/64 >= len(k.bits) || k.bits[id/64]>>(id%64)&1 == 0 {
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
