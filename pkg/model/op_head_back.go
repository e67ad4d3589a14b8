package model

import (
	G "gorgonia.org/gorgonia"

	"grpo/pkg/model/kernel"
)

// partsOf is the number of accumulators for the gradients of the head's
// weights over so many states: a function of theirs alone, since it decides
// how sums are cut.
func (e *head) partsOf(rows int) int {
	return min((rows+headChunk-1)/headChunk, partsFor(e.partSize()))
}

// partSize is the number of elements of an accumulator: the gradients of the
// weights and the bias.
func (e *head) partSize() int { return e.vocab*e.hidden + (e.vocab+15)/16*16 }

func (e *head) backward(vals []G.Value) (G.Value, error) {
	e.load(vals)
	grad := floats(vals[6])
	e.dlogp, e.dent = grad[:e.cap], grad[e.cap:]
	kernel.PackB(false, e.vocab, e.hidden, floats(vals[1]), e.hidden, &e.weights)
	e.parts = e.partsOf(e.rows)
	e.pool.Run(e.parts, e.backwardFn)
	size, weights := e.partSize(), e.vocab*e.hidden
	e.pool.ColSum(e.parts, weights, e.sums.data, size, false, e.dw.data)
	e.pool.ColSum(e.parts, e.vocab, e.sums.data[weights:], size, false, e.db.data)
	return e.dx.t, nil
}

// backwardPart goes through a run of chunks. The gradient of a chunk's logits
// is read three times, all of them in the second-level cache, and goes nowhere.
func (e *head) backwardPart(task, worker int) {
	v, h := e.vocab, e.hidden
	chunks := (e.rows + headChunk - 1) / headChunk
	first := task * chunks / e.parts
	sum := e.sums.data[task*e.partSize():][:e.partSize()]
	d := e.scratch[worker*headChunk*v:][:headChunk*v]
	logp, ent := e.out.data[:e.cap], e.out.data[e.cap:]
	for c := first; c < (task+1)*chunks/e.parts; c++ {
		lo, hi := c*headChunk, min((c+1)*headChunk, e.rows)
		n, add := hi-lo, c > first
		kernel.LogSoftmaxBackward(n, v, e.probs[lo*v:hi*v], logp[lo:hi], ent[lo:hi], e.targets[lo:hi], e.dlogp[lo:hi], e.dent[lo:hi], e.inv, d)
		kernel.GemmPacked(false, n, h, v, d, v, &e.weights, false, e.dx.data[lo*h:], h)
		kernel.Gemm(true, false, v, h, n, d, v, e.x[lo*h:], h, add, sum, h)
		kernel.ColSum(n, v, d, v, add, sum[v*h:])
	}
}
