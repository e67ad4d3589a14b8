package decoder

import (
	"math"

	"grpo/pkg/model/kernel"
)

// attention is grouped-query attention over a tree. Queries, keys and values are parts
// of one (tokens, q + 2 kv) matrix, (heads, dim) each; outputs are (tokens, q).
type attention struct {
	heads, kvHeads, dim int
}

func (a attention) q() int     { return a.heads * a.dim }
func (a attention) kv() int    { return a.kvHeads * a.dim }
func (a attention) width() int { return a.q() + 2*a.kv() }
func (a attention) group() int { return a.heads / a.kvHeads } // query heads of a key head
func (a attention) scale() float32 {
	return float32(1 / math.Sqrt(float64(a.dim)))
}

// scratch is the memory of one worker: n is the most tokens of a segment, t the most of
// a sequence.
type scratch struct {
	k, v, dk, dv []float32 // (t, dim): keys and values of one head from the root on
	p, dp        []float32 // (n, t): probabilities
}

func newScratch(t *tree, dim int, backward bool, mem *arena) *scratch {
	most := 0
	for s := range t.segments {
		most = max(most, len(t.segments[s].Tokens)*(t.before[s]+len(t.segments[s].Tokens)))
	}
	w := &scratch{k: mem.floats(t.longest * dim), v: mem.floats(t.longest * dim), p: mem.floats(most)}
	if backward {
		w.dk, w.dv, w.dp = mem.floats(t.longest*dim), mem.floats(t.longest*dim), mem.floats(most)
	}
	return w
}

// gather copies the rows of one part of qkv that segment s sees, from column at on, to
// out.
func (a attention) gather(t *tree, s int, qkv []float32, at int, out []float32) {
	copyRows := func(c int) {
		for i := t.start[c]; i < t.start[c]+len(t.segments[c].Tokens); i++ {
			out = out[copy(out[:a.dim], qkv[i*a.width()+at:]):]
		}
	}
	for _, c := range t.context[s] {
		copyRows(c)
	}
	copyRows(s)
}

// scatter adds rows that [attention.gather] has copied to where they came from.
func (a attention) scatter(t *tree, s int, rows []float32, dqkv []float32, at int) {
	add := func(c int) {
		for i := t.start[c]; i < t.start[c]+len(t.segments[c].Tokens); i++ {
			d := dqkv[i*a.width()+at:]
			for j, x := range rows[:a.dim] {
				d[j] += x
			}
			rows = rows[a.dim:]
		}
	}
	for _, c := range t.context[s] {
		add(c)
	}
	add(s)
}

// probabilities writes those of a segment's queries of one head over the keys in w.k to
// w.p. Keys after a query have probability 0.
func (a attention) probabilities(t *tree, s, head int, qkv []float32, w *scratch) {
	n := len(t.segments[s].Tokens)
	width := t.before[s] + n
	kernel.Gemm(false, true, n, width, a.dim, qkv[t.start[s]*a.width()+head*a.dim:], a.width(), w.k, a.dim, false, w.p, width)
	for i := range n {
		row, seen := w.p[i*width:(i+1)*width], t.before[s]+i+1
		kernel.Softmax(seen, row[:seen], a.scale(), row[:seen])
		clear(row[seen:])
	}
}

// forward writes the outputs of a segment for the query heads of one key head to out.
func (a attention) forward(t *tree, s, kvHead int, qkv, out []float32, w *scratch) {
	if len(t.segments[s].Tokens) == 0 {
		return
	}
	a.gather(t, s, qkv, a.q()+kvHead*a.dim, w.k)
	a.gather(t, s, qkv, a.q()+a.kv()+kvHead*a.dim, w.v)
	n, before := len(t.segments[s].Tokens), t.before[s]
	width := before + n
	for head := kvHead * a.group(); head < (kvHead+1)*a.group(); head++ {
		a.probabilities(t, s, head, qkv, w)
		o := out[t.start[s]*a.q()+head*a.dim:]
		if !t.segments[s].Sampled {
			kernel.Gemm(false, false, n, a.dim, width, w.p, width, w.v, a.dim, false, o, a.q())
			continue
		}
		kernel.Gemm(false, false, n, a.dim, before, w.p, width, w.v, a.dim, false, o, a.q())
		kernel.Gemm(false, false, n, a.dim, n, w.p[before:], width, w.v[before*a.dim:], a.dim, true, o, a.q())
	}
}

// backward adds the gradients of a segment's queries of one key head's group, and of the
// keys and values that they see, to dqkv, from dout.
func (a attention) backward(t *tree, s, kvHead int, qkv, dout, dqkv []float32, w *scratch) {
	if len(t.segments[s].Tokens) == 0 {
		return
	}
	a.gather(t, s, qkv, a.q()+kvHead*a.dim, w.k)
	a.gather(t, s, qkv, a.q()+a.kv()+kvHead*a.dim, w.v)
	n := len(t.segments[s].Tokens)
	width := t.before[s] + n
	for head := kvHead * a.group(); head < (kvHead+1)*a.group(); head++ {
		more := head > kvHead*a.group()
		a.probabilities(t, s, head, qkv, w)
		d, at := dout[t.start[s]*a.q()+head*a.dim:], t.start[s]*a.width()+head*a.dim
		kernel.Gemm(true, false, width, a.dim, n, w.p, width, d, a.q(), more, w.dv, a.dim)
		kernel.Gemm(false, true, n, width, a.dim, d, a.q(), w.v, a.dim, false, w.dp, width)
		for i := range n { // of softmax: ds = p·(dp - Σ p·dp)·scale
			p, dp := w.p[i*width:(i+1)*width], w.dp[i*width:(i+1)*width]
			dot := 0.0
			for j, x := range p {
				dot += float64(x) * float64(dp[j])
			}
			for j, x := range p {
				dp[j] = float32(x*(dp[j]-float32(dot))) * a.scale()
			}
		}
		kernel.Gemm(false, false, n, a.dim, width, w.dp, width, w.k, a.dim, false, dqkv[at:], a.width())
		kernel.Gemm(true, false, width, a.dim, n, w.dp, width, qkv[at:], a.width(), more, w.dk, a.dim)
	}
	a.scatter(t, s, w.dk, dqkv, a.q()+kvHead*a.dim)
	a.scatter(t, s, w.dv, dqkv, a.q()+a.kv()+kvHead*a.dim)
}
