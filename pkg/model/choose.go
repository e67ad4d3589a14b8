package model

import "slices"

// Chooser picks tokens from probabilities. It keeps scratch memory, so each worker
// has its own.
type Chooser struct {
	end     []int     // tokens that end a completion
	nucleus []int     // (vocabulary), once it is needed
	sums    []float64 // of groups of probabilities
}

// NewChooser returns a chooser for a vocabulary with the given end tokens.
func NewChooser(vocab int, end []int) *Chooser {
	return &Chooser{end: end, sums: make([]float64, 0, (vocab+pickGroup-1)/pickGroup)}
}

// Choose picks token t of a completion by the probabilities, which it may change, and
// the uniform number u.
func (w *Chooser) Choose(probs []float32, opt Sampling, t int, u float64) int {
	if t < opt.MinTokens {
		for _, id := range w.end {
			if id < len(probs) {
				probs[id] = 0
			}
		}
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
	return w.pick(probs, u)
}

// pickGroup is the number of probabilities that pick adds up at a time.
const pickGroup = 16

// pick returns the first token at which the sum of p exceeds u times their
// total. It first adds up groups, with four independent sums to hide the latency of
// an addition; then it searches one group.
func (w *Chooser) pick(p []float32, u float64) int {
	sums := w.sums[:0]
	var total float64
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
	return last
}

// truncate sets the probability of every token to zero that top-k or top-p
// leaves out. Top-k comes first, then top-p over the rest.
func (w *Chooser) truncate(probs []float32, opt Sampling) {
	if w.nucleus == nil {
		w.nucleus = make([]int, len(probs))
	}
	for i := range w.nucleus {
		w.nucleus[i] = i
	}
	slices.SortStableFunc(w.nucleus, func(a, b int) int {
		switch pa, pb := probs[a], probs[b]; {
		case pa > pb:
			return -1
		case pa < pb:
			return 1
		}
		return 0
	})
	keep := len(w.nucleus)
	if opt.TopK > 0 {
		keep = min(keep, opt.TopK)
	}
	var total float64
	for _, i := range w.nucleus[:keep] {
		total += float64(probs[i])
	}
	var sum float64
	for k, i := range w.nucleus[:keep] {
		sum += float64(probs[i])
		if sum >= opt.TopP*total {
			keep = k + 1
			break
		}
	}
	for _, i := range w.nucleus[keep:] {
		probs[i] = 0
	}
}
