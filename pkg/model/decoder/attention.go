package decoder

import (
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// attention is grouped-query attention over a tree. Queries, keys and values are parts
// of one (tokens, q + 2 kv) matrix, (heads, dim) each; outputs are (tokens, q).
type attention struct {
	heads, kvHeads, dim int
	scale               float32 // of the scores
	softcap             float32 // of the scaled scores; 0: none
	window              int     // see [Layer]
}

func attentionOf(c *hf.Config) attention {
	return attention{heads: c.Heads, kvHeads: c.KVHeads, dim: c.HeadDim, scale: c.AttentionScale(),
		softcap: float32(c.AttnSoftcap)}
}

// in is the attention of a layer.
func (a attention) in(l *Layer) attention {
	a.window = l.Window
	return a
}

// softmax replaces a row of scores by their probabilities, and writes the slopes of capped scores to slope unless
// that is nil.
func (a attention) softmax(row, slope []float32) {
	scale := a.scale
	if a.softcap != 0 {
		kernel.SoftCap(row, scale, a.softcap, slope)
		scale = 1
	}
	kernel.Softmax(len(row), row, scale, row)
}

// softmaxBackward replaces dp, the gradient of a row of probabilities p, by the gradient of the scores.
func (a attention) softmaxBackward(p, dp, slope []float32) {
	if a.softcap == 0 {
		kernel.SoftmaxBackward(p, dp, a.scale)
		return
	}
	kernel.SoftmaxBackward(p, dp, 1)
	kernel.Multiply(dp, slope)
}

// first is the first position that a query at a position sees.
func (a attention) first(at int) int {
	if a.window == 0 {
		return 0
	}
	return max(0, at+1-a.window)
}

func (a attention) q() int     { return a.heads * a.dim }
func (a attention) kv() int    { return a.kvHeads * a.dim }
func (a attention) width() int { return a.q() + 2*a.kv() }
func (a attention) group() int { return a.heads / a.kvHeads } // query heads of a key head

// run is a number of segments whose attention is computed together: completions with
// the same parent, or one other segment.
type run struct {
	first, end   int // segments [first, end)
	rows, before int // tokens of them all, and in what they see
	width        int // tokens of what the longest sees, its own included
}

// runRows bounds the tokens of a run of several segments: enough to make what is done
// once for a run cheap, few enough for the cache.
const runRows = 128

// runs cuts a tree into runs, in the order of the segments.
func (t *Tree) runs() (out []run) {
	for s, segment := range t.Segments {
		n := len(segment.Tokens)
		if k := len(out) - 1; k >= 0 && segment.Sampled && out[k].rows+n <= runRows {
			if last := t.Segments[s-1]; last.Sampled && last.Parent == segment.Parent {
				out[k] = run{out[k].first, s + 1, out[k].rows + n, out[k].before, max(out[k].width, out[k].before+n)}
				continue
			}
		}
		out = append(out, run{s, s + 1, n, t.Before[s], t.Before[s] + n})
	}
	return out
}

// scratch is the memory of one worker.
type scratch struct {
	k, v  []float32 // (tokens of a sequence, dim): keys and values of one head from the root on
	p, dp []float32 // (rows, width) of a run: probabilities
	slope []float32 // (rows, width), of capped scores; nil if nobody needs it
}

func (a attention) newScratch(t *Tree, runs []run, backward bool, mem *arena) *scratch {
	most := 0
	for _, r := range runs {
		most = max(most, r.rows*r.width)
	}
	w := &scratch{k: mem.floats(t.longest * a.dim), v: mem.floats(t.longest * a.dim), p: mem.floats(most)}
	if backward {
		w.dp = mem.floats(most)
	}
	if backward && a.softcap != 0 {
		w.slope = mem.floats(most)
	}
	return w
}

// gather copies the rows of segments of one part of qkv, from column at on, to out.
func (a attention) gather(t *Tree, segments []int, qkv []float32, at int, out []float32) {
	for _, s := range segments {
		for i := t.Start[s]; i < t.Start[s]+len(t.Segments[s].Tokens); i++ {
			out = out[copy(out[:a.dim], qkv[i*a.width()+at:]):]
		}
	}
}

// scatter adds rows that [attention.gather] has copied to where they came from.
func (a attention) scatter(t *Tree, segments []int, rows []float32, dqkv []float32, at int) {
	for _, s := range segments {
		for i := t.Start[s]; i < t.Start[s]+len(t.Segments[s].Tokens); i++ {
			kernel.Axpy(1, rows[:a.dim], dqkv[i*a.width()+at:][:a.dim])
			rows = rows[a.dim:]
		}
	}
}

// own calls f for each segment of a run that has tokens, with the first of them, its row
// in the run, and their number.
func (t *Tree) own(r run, f func(start, row, n int)) {
	for s := r.first; s < r.end; s++ {
		if n := len(t.Segments[s].Tokens); n > 0 {
			f(t.Start[s], t.Start[s]-t.Start[r.first], n)
		}
	}
}

// probabilities writes those of a run's queries of one head to w.p, over the context's
// keys, which are in w.k, and then the segment's own. Keys after a query, and those
// before its window, have probability 0. The slopes of capped scores are in w.slope, if that is not nil.
func (a attention) probabilities(t *Tree, r run, head int, qkv []float32, w *scratch) {
	width := a.width()
	q, k, first := qkv[head*a.dim:], qkv[a.q()+head/a.group()*a.dim:], t.Start[r.first]
	kernel.Gemm(false, true, r.rows, r.before, a.dim, q[first*width:], width, w.k, a.dim, false, w.p, r.width)
	t.own(r, func(start, row, n int) {
		p, at := w.p[row*r.width:], start*width
		kernel.Gemm(false, true, n, n, a.dim, q[at:], width, k[at:], width, false, p[r.before:], r.width)
		for i := range n {
			all := p[i*r.width : i*r.width+r.before+n]
			first, end := a.first(r.before+i), r.before+i+1
			seen := all[first:end]
			var slope []float32
			if w.slope != nil {
				slope = w.slope[(row+i)*r.width:][:len(all)]
				clear(slope)
				slope = slope[first:end]
			}
			a.softmax(seen, slope)
			clear(all[:first])
			clear(all[end:])
		}
	})
}

// forward writes the outputs of a run for the query heads of one key head to out.
func (a attention) forward(t *Tree, r run, kvHead int, qkv, out []float32, w *scratch) {
	if r.rows == 0 {
		return
	}
	context, sampled := t.Context[r.first], t.Segments[r.first].Sampled
	if !sampled { // a run of one segment: its values are part of the same sum
		context = t.visible(r.first)
	}
	v := qkv[a.q()+a.kv()+kvHead*a.dim:]
	a.gather(t, context, qkv, a.q()+kvHead*a.dim, w.k)
	a.gather(t, context, v, 0, w.v)
	for head := kvHead * a.group(); head < (kvHead+1)*a.group(); head++ {
		a.probabilities(t, r, head, qkv, w)
		o, ldo := out[head*a.dim:], a.q()
		depth := r.width
		if sampled {
			depth = r.before
		}
		kernel.Gemm(false, false, r.rows, a.dim, depth, w.p, r.width, w.v, a.dim, false, o[t.Start[r.first]*ldo:], ldo)
		if !sampled {
			continue
		}
		t.own(r, func(start, row, n int) {
			p, vs := w.p[row*r.width+r.before:], v[start*a.width():]
			kernel.Gemm(false, false, n, a.dim, n, p, r.width, vs, a.width(), true, o[start*ldo:], ldo)
		})
	}
}

// backward writes the gradients of a run's queries of one key head's group and of its
// own keys and values to dqkv, and those of its context's keys and values, (2, before,
// dim), to dcontext, from dout. [attention.scatter] adds the latter to dqkv when all runs
// are done.
func (a attention) backward(t *Tree, r run, kvHead int, qkv, dout, dqkv, dcontext []float32, w *scratch) {
	if r.rows == 0 {
		return
	}
	width, first := a.width(), t.Start[r.first]
	kAt, vAt := a.q()+kvHead*a.dim, a.q()+a.kv()+kvHead*a.dim
	a.gather(t, t.Context[r.first], qkv, kAt, w.k)
	a.gather(t, t.Context[r.first], qkv, vAt, w.v)
	dk, dv := dcontext[:r.before*a.dim], dcontext[r.before*a.dim:]
	for head := kvHead * a.group(); head < (kvHead+1)*a.group(); head++ {
		more := head > kvHead*a.group()
		a.probabilities(t, r, head, qkv, w)
		d, ldd, q, dq := dout[head*a.dim:], a.q(), qkv[head*a.dim:], dqkv[head*a.dim:]
		kernel.Gemm(true, false, r.before, a.dim, r.rows, w.p, r.width, d[first*ldd:], ldd, more, dv, a.dim)
		kernel.Gemm(false, true, r.rows, r.before, a.dim, d[first*ldd:], ldd, w.v, a.dim, false, w.dp, r.width)
		t.own(r, func(start, row, n int) {
			p, dp, ds, at := w.p[row*r.width:], w.dp[row*r.width:], d[start*ldd:], start*width+vAt
			kernel.Gemm(true, false, n, a.dim, n, p[r.before:], r.width, ds, ldd, more, dqkv[at:], width)
			kernel.Gemm(false, true, n, n, a.dim, ds, ldd, qkv[at:], width, false, dp[r.before:], r.width)
			for i := range n {
				all := r.before + n
				var slope []float32
				if w.slope != nil {
					slope = w.slope[(row+i)*r.width:][:all]
				}
				a.softmaxBackward(p[i*r.width:][:all], dp[i*r.width:][:all], slope)
			}
		})
		kernel.Gemm(false, false, r.rows, a.dim, r.before, w.dp, r.width, w.k, a.dim, false, dq[first*width:], width)
		kernel.Gemm(true, false, r.before, a.dim, r.rows, w.dp, r.width, q[first*width:], width, more, dk, a.dim)
		t.own(r, func(start, row, n int) {
			ds, at := w.dp[row*r.width+r.before:], start*width
			kernel.Gemm(false, false, n, a.dim, n, ds, r.width, qkv[at+kAt:], width, true, dq[at:], width)
			kernel.Gemm(true, false, n, a.dim, n, ds, r.width, q[at:], width, more, dqkv[at+kAt:], width)
		})
	}
}
