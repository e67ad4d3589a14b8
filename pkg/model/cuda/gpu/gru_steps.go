//go:build withcuda && linux

package gpu

import (
	"slices"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// A layer that is too large for the fused kernel runs step by step: one cuBLAS matmul and one
// kernel for the gates per step, hundreds of launches. If consecutive batches have the same sizes,
// the launches are recorded as a CUDA graph and replayed by one call. Other batches are not
// recorded: recording takes longer than a run.

// recording runs work whose launches depend on the numbers of active sequences
// alone: the addresses stay the same.
type recording struct {
	last, of []int // active sequences of the last run, and of the graph
	graph    *cuda.Graph
}

// run runs f, or its recording. The first run of a size is never recorded: it may
// initialize libraries.
func (r *recording) run(d *cuda.Device, active []int, f func()) {
	if r.graph == nil || !slices.Equal(r.of, active) {
		again := slices.Equal(r.last, active)
		r.last = append(r.last[:0], active...)
		if !again {
			f()
			return
		}
		r.close()
		graph, err := d.Record(func() error { f(); return nil })
		if d.Fail(err) != nil {
			return
		}
		r.graph, r.of = graph, slices.Clone(active)
	}
	_ = r.graph.Launch()
}

func (r *recording) close() {
	r.graph.Close()
	r.graph, r.of = nil, nil
}

func (l *layer) stepsForward(s *segment, gi, ids cuda.Pointer, w gruWeights, h0, out, gates, before cuda.Pointer) {
	g, h := l.g, l.hidden
	if h0 == 0 {
		g.zero(out, s.n0*h)
	} else {
		_ = g.dev.Copy(out, h0, 4*s.n0*h)
	}
	for step := 1; step <= s.steps; step++ {
		n, in := s.host[step], s.offsets[step]-s.n0
		from, to := out.Add(s.offsets[step-1]*h), out.Add(s.offsets[step]*h)
		g.gemm(false, true, n, 3*h, h, from, h, w.whh, h, false, l.gh, 3*h)
		input, tokens := gi, cuda.Pointer(0)
		if ids != 0 {
			tokens = ids.Add(in)
		} else {
			input = gi.Add(in * 3 * h)
		}
		g.launch(g.card.Gates(kernels.GRUGatesForward, n, h), cuda.I(n), cuda.I(h), cuda.P(input), cuda.P(tokens),
			cuda.P(l.gh), cuda.P(w.bih), cuda.P(w.bhh), cuda.P(from), cuda.P(to), cuda.P(offset(gates, in*4*h)),
			cuda.P(offset(before, in*h)))
	}
}

// offset is p + n floats, or 0 if p is 0.
func offset(p cuda.Pointer, n int) cuda.Pointer {
	if p == 0 {
		return 0
	}
	return p.Add(n)
}

func (l *layer) stepsBackward(s *segment, dout cuda.Pointer, w gruWeights, gates, before, dh0 cuda.Pointer) {
	g, h := l.g, l.hidden
	// At the last step of a sequence there is no gradient from later ones.
	g.zero(l.carry, s.n0*h)
	for step := s.steps; step >= 1; step-- {
		n, in := s.host[step], s.offsets[step]-s.n0
		g.launch(g.card.Gates(kernels.GRUGatesBackward, n, h), cuda.I(n), cuda.I(h), cuda.P(l.carry),
			cuda.P(dout.Add(s.offsets[step]*h)), cuda.P(before.Add(in*h)), cuda.P(gates.Add(in*4*h)), cuda.P(l.gh))
		g.gemm(false, false, n, h, 3*h, l.gh, 3*h, w.whh, h, true, l.carry, h)
	}
	if dh0 != 0 {
		_ = g.add(s.n0*h, l.carry, dout, dh0)
	}
}
