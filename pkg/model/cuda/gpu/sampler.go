//go:build withcuda && linux

package gpu

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// sampler implements [tinylm.Decoder]. It runs the prompts as a segment, like a learner, and then
// samples: in one fused kernel if the network fits, else token by token. It downloads tokens and
// log-probabilities once, at the end.
type sampler struct {
	g      *device
	p      *tinylm.Weights
	stale  bool
	failed error // of NewDecoder; Decode returns it

	plan   kernels.RolloutPlan
	fused  map[string]*cuda.Kernel // nil: token by token
	layers []layer

	packed  tinylm.Segment
	prompts segment
	have    samplerSize
	table   *cuda.Mem // (V, 3H), the embedding times the first layer's W_ih
	work    []*cuda.Mem
	out     [2]cuda.Pointer // packed states of a layer over the prompts, alternating
	gi      cuda.Pointer    // (inputs, 3H), packed
	last    cuda.Pointer    // for each prompt, the row of its last state
	states  cuda.Pointer    // (layers, prompts, H), those last states
	step    stepBuffers

	tokens, logps        cuda.Pointer // (completions, MaxTokens)
	lengths, ended       cuda.Pointer // (completions), one after the other
	hostTokens, hostEnds []int32
	hostLogps            []float32
}

func (g *device) NewDecoder(p *tinylm.Weights) tinylm.Decoder {
	s := &sampler{g: g, p: p, stale: true}
	if s.failed = g.Place(p.Params); s.failed != nil {
		return s
	}
	s.failed = g.dev.Do(func() (err error) {
		if plan, ok := g.card.Rollout(p.Hidden, p.Layers, p.Vocab); ok {
			s.plan = plan
			if s.fused, err = g.load(plan.Module()); err != nil {
				return err
			}
		}
		s.table = g.alloc(p.Vocab*3*p.Hidden, "the sampler's table")
		return nil
	})
	return s
}

// Refresh takes effect at the next Decode.
func (s *sampler) Refresh() { s.stale = true }

// Close frees the memory.
func (s *sampler) Close() {
	_ = s.g.dev.Do(func() error {
		err := s.g.dev.Sync()
		s.free()
		s.g.dev.Free(s.table)
		s.table = nil
		return err
	})
}

func (s *sampler) Decode(out []model.Completion, prompts [][]int, group int, opt model.Sampling,
	draws model.Draws) error {
	if s.failed != nil {
		return fmt.Errorf("sample: %w", s.failed)
	}
	if opt.Restricted && opt.Cuts() {
		return model.ErrKept
	}
	if opt.Stop != nil {
		return model.ErrStop
	}
	err := s.g.dev.Do(func() error { return s.roll(out, prompts, group, opt, draws) })
	if err != nil {
		return fmt.Errorf("sample %d completions: %w", len(out), err)
	}
	return nil
}

func (s *sampler) roll(out []model.Completion, prompts [][]int, group int, opt model.Sampling,
	draws model.Draws) error {
	s.packed.Pack(len(prompts), func(i int) []int { return prompts[i] })
	n0, inputs, steps := s.packed.Sizes()
	rows := len(out)
	need := samplerSize{n0, inputs, steps, rows, rows * opt.MaxTokens}
	if err := s.fit(need); err != nil {
		return err
	}
	s.readPrompts()
	c := choice{opt: opt, group: group, rows: rows}
	c.k0, c.k1 = draws.Stream.Key()
	c.a, c.b, c.c = draws.A, draws.B, draws.C
	s.ended = s.lengths.Add(rows)
	if s.fused != nil {
		s.byKernel(c)
	} else if err := s.byToken(c); err != nil {
		return err
	}
	return s.collect(out, opt.MaxTokens)
}

// choice are the sampling settings as arguments of the kernels.
type choice struct {
	opt             model.Sampling
	group, rows     int
	k0, k1, a, b, c uint32
}

// args are the arguments from the inverse temperature to the random stream: see [kernels.Rollout].
func (c choice) args() []cuda.Arg {
	return []cuda.Arg{cuda.F(c.opt.InverseTemperature()), cuda.D(c.opt.TopP), cuda.I(c.opt.TopK), cuda.I(c.opt.MinTokens),
		cuda.I(c.opt.MaxTokens), flag(c.opt.Greedy), cuda.I(tokenizer.EOS), cuda.P(0), cuda.U(c.k0), cuda.U(c.k1),
		cuda.U(c.a), cuda.U(c.b), cuda.U(c.c)}
}

// readPrompts writes each prompt's last states to s.states, in the order of the
// prompts.
func (s *sampler) readPrompts() {
	g, p, h := s.g, s.p, s.p.Hidden
	weights := g.storageOf(p.Params)
	if s.stale {
		g.gemm(false, true, p.Vocab, 3*h, h, weights.at(0), h, weights.at(1), h, false, s.table.At(0), 3*h)
		s.stale = false
	}
	seg := &s.prompts
	seg.fill(&s.packed)
	last := seg.staged[seg.stagedAt(s.last):]
	for i, rank := range s.packed.Rank {
		last[i] = int32(s.packed.LastState(rank))
	}
	seg.upload(g, seg.inputs)
	for l := range p.Layers {
		w := gruWeights{weights.at(2 + 4*l), weights.at(3 + 4*l), weights.at(4 + 4*l)}
		gi, ids := s.table.At(0), seg.ids
		if l > 0 {
			below := s.out[(l-1)%2].Add(seg.n0 * h)
			g.gemm(false, true, seg.inputs, 3*h, h, below, h, weights.at(1+4*l), h, false, s.gi, 3*h)
			gi, ids = s.gi, 0
		}
		out := s.out[l%2]
		s.layers[l].forward(seg, gi, ids, w, 0, out, 0, 0)
		g.gather(seg.n0, h, s.last, out, s.states.Add(l*seg.n0*h))
	}
}

// byKernel samples in one launch.
func (s *sampler) byKernel(c choice) {
	launch := s.plan.Launch(c.rows)
	args := []cuda.Arg{cuda.P(s.g.storageOf(s.p.Params).at(0)), cuda.P(s.table.At(0)), cuda.P(s.states), cuda.I(c.rows),
		cuda.I(c.group), cuda.I(launch.Tile)}
	s.g.launchOf(s.fused, launch, append(append(args, c.args()...),
		cuda.P(s.tokens), cuda.P(s.logps), cuda.P(s.lengths), cuda.P(s.ended))...)
}

// collect downloads the completions.
func (s *sampler) collect(out []model.Completion, maxTokens int) error {
	d, rows := s.g.dev, len(out)
	_ = cuda.FetchAt(d, s.hostTokens[:rows*maxTokens], s.tokens)
	_ = cuda.FetchAt(d, s.hostLogps[:rows*maxTokens], s.logps)
	_ = cuda.FetchAt(d, s.hostEnds[:2*rows], s.lengths)
	if err := d.Sync(); err != nil {
		return err
	}
	for i := range out {
		if err := fill(&out[i], i, int(s.hostEnds[i]), maxTokens, s.hostTokens, s.hostLogps); err != nil {
			return err
		}
		out[i].Ended = s.hostEnds[rows+i] != 0
	}
	return nil
}

// fill gives completion i, of n tokens, its part of the tokens and log-probabilities of all,
// (completions, most).
func fill(c *model.Completion, i, n, most int, tokens []int32, logps []float32) error {
	if n < 1 || n > most {
		return fmt.Errorf("completion %d has %d tokens, of at most %d: the kernel is wrong", i, n, most)
	}
	at := i * most
	for _, t := range tokens[at : at+n] {
		c.Tokens = append(c.Tokens, int(t))
	}
	c.LogProbs = append(c.LogProbs, logps[at:at+n]...)
	return nil
}
