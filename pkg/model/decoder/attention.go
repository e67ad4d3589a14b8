package decoder

import (
	"math"

	"grpo/pkg/model/kernel"
)

// attention is grouped-query attention over a tree. Layouts: q and o are (tokens, heads,
// dim), k and v (tokens, kv heads, dim), with rows ld apart in q, k and v, which are
// parts of one matrix. Scores are kept for one segment and head at a time.
type attention struct {
	heads, kvHeads, dim int
	ld                  int
}

// scores writes the probabilities of a segment's queries of one head over the keys of
// its ancestors and its own, (segment tokens, before + segment tokens), to p. Keys after
// a query have probability 0.
func (a attention) scores(t *tree, s, head int, q, k, p []float32) {
	n, width, kv := len(t.segments[s].Tokens), t.before[s]+len(t.segments[s].Tokens), head/(a.heads/a.kvHeads)
	qs := q[t.start[s]*a.ld+head*a.dim:]
	at := 0
	for _, c := range t.visible(s) {
		m := len(t.segments[c].Tokens)
		kernel.Gemm(false, true, n, m, a.dim, qs, a.ld, k[t.start[c]*a.ld+kv*a.dim:], a.ld, false, p[at:], width)
		at += m
	}
	scale := float32(1 / math.Sqrt(float64(a.dim)))
	for i := range n {
		row, seen := p[i*width:(i+1)*width], t.before[s]+i+1
		kernel.Softmax(seen, row[:seen], scale, row[:seen])
		clear(row[seen:])
	}
}

// forward writes the attention's output of one segment and head to o (rows of
// heads·dim).
func (a attention) forward(t *tree, s, head int, q, k, v, p, o []float32) {
	a.scores(t, s, head, q, k, p)
	n, width, kv := len(t.segments[s].Tokens), t.before[s]+len(t.segments[s].Tokens), head/(a.heads/a.kvHeads)
	out, ldo := o[t.start[s]*a.heads*a.dim+head*a.dim:], a.heads*a.dim
	at := 0
	for i, c := range t.visible(s) {
		m := len(t.segments[c].Tokens)
		kernel.Gemm(false, false, n, a.dim, m, p[at:], width, v[t.start[c]*a.ld+kv*a.dim:], a.ld, i > 0, out, ldo)
		at += m
	}
}

// backward adds the gradients of one segment and head to dq, dk and dv (laid out as q, k
// and v), from do (as o). p and dp are scratch for (segment tokens, before + segment
// tokens).
func (a attention) backward(t *tree, s, head int, q, k, v, do, dq, dk, dv, p, dp []float32) {
	a.scores(t, s, head, q, k, p)
	n, width, kv := len(t.segments[s].Tokens), t.before[s]+len(t.segments[s].Tokens), head/(a.heads/a.kvHeads)
	gout, ldo := do[t.start[s]*a.heads*a.dim+head*a.dim:], a.heads*a.dim
	own := t.start[s]*a.ld + head*a.dim
	context := t.visible(s)
	at := 0
	for _, c := range context {
		m, kvAt := len(t.segments[c].Tokens), t.start[c]*a.ld+kv*a.dim
		kernel.Gemm(true, false, m, a.dim, n, p[at:], width, gout, ldo, true, dv[kvAt:], a.ld)
		kernel.Gemm(false, true, n, m, a.dim, gout, ldo, v[kvAt:], a.ld, false, dp[at:], width)
		at += m
	}
	// Of softmax: ds = p·(dp - Σ p·dp)·scale.
	scale := float32(1 / math.Sqrt(float64(a.dim)))
	for i := range n {
		pi, di := p[i*width:(i+1)*width], dp[i*width:(i+1)*width]
		dot := 0.0
		for j, x := range pi {
			dot += float64(x) * float64(di[j])
		}
		for j, x := range pi {
			di[j] = float32(x*(di[j]-float32(dot))) * scale
		}
	}
	at = 0
	for _, c := range context {
		m, kvAt := len(t.segments[c].Tokens), t.start[c]*a.ld+kv*a.dim
		kernel.Gemm(false, false, n, a.dim, m, dp[at:], width, k[kvAt:], a.ld, true, dq[own:], a.ld)
		kernel.Gemm(true, false, m, a.dim, n, dp[at:], width, q[own:], a.ld, true, dk[kvAt:], a.ld)
		at += m
	}
}
