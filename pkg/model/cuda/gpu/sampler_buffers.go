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

func (s *sampler) alloc(floats int, what string) cuda.Pointer {
	m := s.g.alloc(floats, what)
	s.work = append(s.work, m)
	return m.At(0)
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
	s.prompts.allocate(s.g, n.steps, n.prompts, n.inputs)
	s.last = s.prompts.offset.Add(n.steps + 1)
	for i := range s.out {
		s.out[i] = s.alloc((n.prompts+n.inputs)*h, "states over the prompts")
	}
	s.gi = s.alloc(n.inputs*3*h, "input projections over the prompts")
	s.states = s.alloc(p.Layers*n.prompts*h, "states of the prompts")
	s.tokens, s.logps = s.alloc(n.tokens, "sampled tokens"), s.alloc(n.tokens, "log-probabilities")
	s.lengths = s.alloc(2*n.rows, "lengths")
	s.hostTokens, s.hostLogps = pinned[int32](s.g, n.tokens), pinned[float32](s.g, n.tokens)
	s.hostEnds = pinned[int32](s.g, 2*n.rows)
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
	return s.g.dev.Err()
}
