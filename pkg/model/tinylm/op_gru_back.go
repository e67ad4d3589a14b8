package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// gruBack is what a layer keeps for its backward pass, and what that computes.
type gruBack struct {
	before []float32 // inCap×H: the state that each step started from
	// gates, inCap×4H: r, z, n and W_hn·h+b_hn of each step, until the backward
	// pass puts the gradients of the matmuls there: da_r, da_z, da_n (those of gi)
	// and da_n·r (with the first two, those of gh).
	gates      []float32
	dout       []float32 // of the current pass
	dx         *buffer   // as the source: the table's gradient, or that of the states below
	dwih, dwhh *buffer
	dbih, dbhh *buffer
	dh0        *buffer
}

func (g *gru) AllocateGrads() ([]*tensor.Dense, error) {
	h := g.Hidden
	b := &gruBack{
		before: make([]float32, g.Inputs*h), gates: make([]float32, g.Inputs*4*h),
		dwhh: newBuffer(3*h, h), dbih: newBuffer(3 * h), dbhh: newBuffer(3 * h), dh0: newBuffer(g.Sequences, h),
	}
	g.back = b
	var second *tensor.Dense
	if g.Table {
		b.dx = newBuffer(g.SourceRows, 3*h)
	} else {
		b.dx, b.dwih = newBuffer(g.SourceRows, h), newBuffer(3*h, h)
		second = b.dwih.t
	}
	grads := []*tensor.Dense{b.dx.t, second, b.dwhh.t, b.dbih.t, b.dbhh.t, nil}
	if g.HasInit {
		grads = append(grads, b.dh0.t)
	}
	return grads, nil
}

func (g *gru) Backward(vals []G.Value) error {
	g.load(vals)
	h, b := g.Hidden, g.back
	b.dout = floats(vals[len(vals)-1])
	first, rows, _ := sizes(g.active)
	if !g.Table {
		kernel.PackB(false, 3*h, h, floats(vals[1]), h, &g.wih)
		clear(b.dx.data[:first*h])
	}
	kernel.PackB(false, 3*h, h, floats(vals[2]), h, &g.whh)
	g.pool.Run(g.chunks(), g.backwardTask)
	if g.Table {
		clear(b.dx.data)
		g.pool.ScatterAdd(g.ids[:rows], 3*h, b.gates, 4*h, len(b.dx.data)/(3*h), b.dx.data, 3*h)
	} else {
		g.pool.Gemm(true, false, 3*h, h, rows, b.gates, 4*h, g.source[first*h:], h, false, b.dwih.data, h)
	}
	g.pool.GemmGates(3*h, h, rows, b.gates, 4*h, 2*h, h, b.before, h, b.dwhh.data, h)
	g.biases(rows)
	return nil
}

// biases sums the gates' gradients over all inputs. The reset and update gates
// add both matmuls up, so there both biases have one gradient; only the
// candidate's differ.
func (g *gru) biases(rows int) {
	h, b := g.Hidden, g.back
	g.pool.ColSum(rows, 3*h, b.gates, 4*h, false, b.dbih.data)
	copy(b.dbhh.data, b.dbih.data[:2*h])
	g.pool.ColSum(rows, h, b.gates[min(3*h, len(b.gates)):], 4*h, false, b.dbhh.data[2*h:])
}

func (g *gru) backwardChunk(task, worker int) {
	h, b := g.Hidden, g.back
	lo := task * g.chunk
	hi := min(lo+g.chunk, g.active[0])
	scratch := g.scratch[worker*maxChunk*6*h:]
	carry, direct, dgh := scratch[:maxChunk*h], scratch[maxChunk*h:2*maxChunk*h], scratch[2*maxChunk*h:5*maxChunk*h]
	clear(carry)
	// the last step in which this chunk takes part, and where its block starts
	last, at := 0, 0
	for s := 1; s < len(g.active) && g.active[s] > lo; s++ {
		at += g.active[s-1]
		last = s
	}
	for s := last; s >= 1; s-- {
		n := min(hi, g.active[s]) - lo
		in, out := at-g.active[0]+lo, at+lo
		gates := b.gates[in*4*h : (in+n)*4*h]
		kernel.Axpy(1, b.dout[out*h:(out+n)*h], carry[:n*h])
		kernel.GRUBackward(n, h, carry, b.before[in*h:], gates, dgh, direct)
		kernel.GemmPacked(false, n, h, 3*h, dgh, 3*h, &g.whh, true, direct, h)
		copy(carry[:n*h], direct[:n*h])
		if !g.Table {
			kernel.GemmPacked(false, n, h, 3*h, gates, 4*h, &g.wih, false, b.dx.data[out*h:], h)
		}
		at -= g.active[s-1]
	}
	copy(b.dh0.data[lo*h:hi*h], carry)
	kernel.Axpy(1, b.dout[lo*h:hi*h], b.dh0.data[lo*h:hi*h])
}
