package model

import "grpo/pkg/model/kernel"

// groupRows is the number of rows whose gradients a walk gathers before it adds
// them to the weights': enough for products of some depth, few enough for
// the second-level cache.
const groupRows = 128

// gruWalk is one thread's working memory on the way back through a chunk. The
// gradients of the gates live here for a group of steps, never in memory.
type gruWalk struct {
	ld      int       // of gates: not a power of two, which would crowd few sets of the cache
	carry   []float32 // maxChunk×H: the gradient of the states, rows of sequences that have ended being 0
	gates   []float32 // groupRows×ld: da_n, da_r, da_z, da_n·r
	before  []float32 // groupRows×H: the states that the steps started from
	below   []float32 // groupRows×H: inputs of the steps, unless they are a table's
	rows    int       // gathered
	sum     []float32 // the part's accumulator
	started bool      // sum holds numbers of this pass
}

func (g *gru) newWalk() gruWalk {
	h := g.hidden
	rows := max(groupRows, maxChunk)
	w := gruWalk{ld: 4*h + 16}
	w.carry = make([]float32, maxChunk*h)
	w.gates, w.before = make([]float32, rows*w.ld), make([]float32, rows*h)
	if !g.table {
		w.below = make([]float32, rows*h)
	}
	return w
}

func (g *gru) backwardPart(task, worker int) {
	w, p := &g.back.walks[worker], g.part()
	w.sum, w.started, w.rows = g.sums.data[task*p.size:(task+1)*p.size], false, 0
	clear(w.sum[p.bias:])
	if g.table {
		clear(w.sum[p.in:p.bias])
	}
	for lo, hi := g.back.cut.part(task); lo < hi; lo++ {
		g.backwardChunk(w, lo)
	}
	g.flush(w)
	if !w.started {
		clear(w.sum)
	}
}

func (g *gru) backwardChunk(w *gruWalk, chunk int) {
	h, b, p := g.hidden, g.back, g.part()
	lo, hi := b.cut.chunk(chunk)
	carry := w.carry[:(hi-lo)*h]
	clear(carry)
	// the last step in which this chunk takes part, and where its block starts
	last, at := 0, 0
	for s := 1; s < len(g.active) && g.active[s] > lo; s++ {
		at += g.active[s-1]
		last = s
	}
	for s := last; s >= 1; s-- {
		n := min(hi, g.active[s]) - lo
		in, out, prev := at-g.active[0]+lo, at+lo, at-g.active[s-1]+lo
		if w.rows+n > len(w.before)/h {
			g.flush(w)
		}
		before := g.out.data[prev*h : (prev+n)*h]
		gates := w.gates[w.rows*w.ld:]
		kernel.Axpy(1, b.dout[out*h:(out+n)*h], carry[:n*h])
		kernel.GRUBackward(n, h, carry, before, b.gates[in*4*h:], gates, w.ld, carry)
		kernel.GemmPacked(false, n, h, 3*h, gates[h:], w.ld, &g.whh, true, carry, h)
		copy(w.before[w.rows*h:], before)
		if g.table {
			// the candidate's columns stand in front
			ids, table := g.ids[in:in+n], w.sum[p.in:p.bias]
			rows := len(table) / (3 * h)
			kernel.ScatterAdd(ids, 2*h, gates[h:], w.ld, rows, table, 3*h)
			kernel.ScatterAdd(ids, h, gates, w.ld, rows, table[2*h:], 3*h)
		} else {
			copy(w.below[w.rows*h:], g.source[out*h:(out+n)*h])
			kernel.GemmPacked(false, n, h, 3*h, gates, w.ld, &g.wih, false, b.dx.data[out*h:], h)
		}
		w.rows += n
		at -= g.active[s-1]
	}
	copy(b.dh0.data[lo*h:hi*h], carry)
	kernel.Axpy(1, b.dout[lo*h:hi*h], b.dh0.data[lo*h:hi*h])
}

// flush adds the gathered rows to the part's accumulator.
func (g *gru) flush(w *gruWalk) {
	if w.rows == 0 {
		return
	}
	h, p := g.hidden, g.part()
	kernel.Gemm(true, false, 3*h, h, w.rows, w.gates[h:], w.ld, w.before, h, w.started, w.sum, h)
	if !g.table {
		kernel.Gemm(true, false, 3*h, h, w.rows, w.gates, w.ld, w.below, h, w.started, w.sum[p.in:], h)
	}
	kernel.ColSum(w.rows, 4*h, w.gates, w.ld, true, w.sum[p.bias:])
	w.rows, w.started = 0, true
}
