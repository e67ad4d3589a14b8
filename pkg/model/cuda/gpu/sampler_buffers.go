//go:build withcuda && linux

package gpu

import "grpo/pkg/model/cuda"

// samplerSize is the size of the largest rollout that fits the buffers.
type samplerSize struct{ prompts, inputs, steps, rows, tokens int }

func (s samplerSize) holds(t samplerSize) bool {
	return t.prompts <= s.prompts && t.inputs <= s.inputs && t.steps <= s.steps && t.rows <= s.rows && t.tokens <= s.tokens
}

// free frees the buffers.
func (s *sampler) free() {
	d := s.g.dev
	for i := range s.layers {
		s.layers[i].forth.close()
	}
	s.layers = nil
	for _, m := range s.work {
		d.Free(m)
	}
	s.work = nil
	s.prompts.free(s.g)
	cuda.FreePinned(d, s.hostTokens)
	cuda.FreePinned(d, s.hostEnds)
	cuda.FreePinned(d, s.hostLogps)
	s.hostTokens, s.hostEnds, s.hostLogps = nil, nil, nil
	s.have = samplerSize{}
}

func (s *sampler) alloc(floats int, what string) (cuda.Pointer, error) {
	m, err := s.g.dev.Alloc(4*max(1, floats), what)
	if err != nil {
		return 0, err
	}
	s.work = append(s.work, m)
	return m.At(0), nil
}

// fit grows buffers that are too small for a rollout.
func (s *sampler) fit(need samplerSize) error {
	if s.have.holds(need) {
		return nil
	}
	old := s.have
	if err := s.g.dev.Sync(); err != nil {
		return err
	}
	s.free()
	grown := func(have, need int) int {
		if need <= have {
			return have
		}
		return need + need/8
	}
	n := samplerSize{grown(old.prompts, need.prompts), grown(old.inputs, need.inputs), grown(old.steps, need.steps),
		max(old.rows, need.rows), max(old.tokens, need.tokens)}
	p, h := s.p, s.p.Hidden
	if err := s.prompts.allocate(s.g, n.steps, n.prompts, n.inputs); err != nil {
		return err
	}
	s.last = s.prompts.offset.Add(n.steps + 1)
	for _, b := range []struct {
		floats int
		what   string
		to     *cuda.Pointer
	}{
		{(n.prompts + n.inputs) * h, "states over the prompts", &s.out[0]},
		{(n.prompts + n.inputs) * h, "states over the prompts", &s.out[1]},
		{n.inputs * 3 * h, "input projections over the prompts", &s.gi},
		{p.Layers * n.prompts * h, "states of the prompts", &s.states},
		{n.tokens, "sampled tokens", &s.tokens},
		{n.tokens, "log-probabilities", &s.logps},
		{2 * n.rows, "lengths", &s.lengths},
	} {
		var err error
		if *b.to, err = s.alloc(b.floats, b.what); err != nil {
			return err
		}
	}
	var err error
	if s.hostTokens, err = cuda.Pinned[int32](s.g.dev, n.tokens); err != nil {
		return err
	}
	if s.hostLogps, err = cuda.Pinned[float32](s.g.dev, n.tokens); err != nil {
		return err
	}
	if s.hostEnds, err = cuda.Pinned[int32](s.g.dev, 2*n.rows); err != nil {
		return err
	}
	if err := s.step.allocate(s, n); err != nil {
		return err
	}
	for range p.Layers {
		l, err := s.g.newLayer(h, s.step.promptGH, 0)
		if err != nil {
			return err
		}
		s.layers = append(s.layers, l)
	}
	s.have = n
	return nil
}
