//go:build withcuda && linux

package tinylm

import (
	"slices"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// A layer that is too large for one kernel goes a step at a time: for each step
// one product by cuBLAS and one kernel for the gates, some hundreds of launches
// in a row. Where sizes come again, they are recorded once as a CUDA graph and
// replayed by one call. Batches of other sizes run as they are: recording costs
// more than a run.

// recording runs work whose launches depend on the numbers of active sequences
// alone: all memory that it touches stays in its place.
type recording struct {
	last, of []int // of the last run, and of the graph
	graph    *cuda.Graph
}

// run runs f, or its recording. The first run of a size is never recorded: in it
// libraries may still prepare themselves.
func (r *recording) run(d *cuda.Device, active []int, f func() error) error {
	if r.graph != nil && slices.Equal(r.of, active) {
		return r.graph.Launch()
	}
	again := slices.Equal(r.last, active)
	r.last = append(r.last[:0], active...)
	if !again {
		return f()
	}
	r.close()
	graph, err := d.Record(f)
	if err != nil {
		return err
	}
	r.graph, r.of = graph, slices.Clone(active)
	return graph.Launch()
}

func (r *recording) close() {
	r.graph.Close()
	r.graph, r.of = nil, nil
}

func (l *gpuLayer) stepsForward(s *gpuSegment, gi, ids cuda.Pointer, w gruWeights, h0, out, save, before cuda.Pointer) error {
	g, h := l.g, l.hidden
	var err error
	if h0 == 0 {
		err = g.dev.Zero(out, s.n0*h)
	} else {
		err = g.dev.Copy(out, h0, 4*s.n0*h)
	}
	for step := 1; step <= s.steps && err == nil; step++ {
		n, in := s.host[step], s.offsets[step]-s.n0
		from, to := out.Add(s.offsets[step-1]*h), out.Add(s.offsets[step]*h)
		if err = g.dev.Gemm(false, true, n, 3*h, h, from, h, w.whh, h, false, l.gh, 3*h); err != nil {
			return err
		}
		products, tokens := gi, cuda.Pointer(0)
		if ids != 0 {
			tokens = ids.Add(in)
		} else {
			products = gi.Add(in * 3 * h)
		}
		err = g.launch(g.card.Gates(kernels.GRUGatesForward, n, h), cuda.I(n), cuda.I(h), cuda.P(products), cuda.P(tokens), cuda.P(l.gh),
			cuda.P(w.bih), cuda.P(w.bhh), cuda.P(from), cuda.P(to), cuda.P(within(save, in*4*h)), cuda.P(within(before, in*h)))
	}
	return err
}

// within is a place behind p, or nothing where p is nothing.
func within(p cuda.Pointer, n int) cuda.Pointer {
	if p == 0 {
		return 0
	}
	return p.Add(n)
}

func (l *gpuLayer) stepsBackward(s *gpuSegment, dout cuda.Pointer, w gruWeights, gates, before, dh0 cuda.Pointer) error {
	g, h := l.g, l.hidden
	// A sequence joins at its last step, where later steps send nothing.
	if err := g.dev.Zero(l.carry, s.n0*h); err != nil {
		return err
	}
	for step := s.steps; step >= 1; step-- {
		n, in := s.host[step], s.offsets[step]-s.n0
		if err := g.launch(g.card.Gates(kernels.GRUGatesBackward, n, h), cuda.I(n), cuda.I(h), cuda.P(l.carry), cuda.P(dout.Add(s.offsets[step]*h)),
			cuda.P(before.Add(in*h)), cuda.P(gates.Add(in*4*h)), cuda.P(l.gh)); err != nil {
			return err
		}
		if err := g.dev.Gemm(false, false, n, h, 3*h, l.gh, 3*h, w.whh, h, true, l.carry, h); err != nil {
			return err
		}
	}
	if dh0 == 0 {
		return nil
	}
	return g.add(s.n0*h, l.carry, dout, dh0)
}
