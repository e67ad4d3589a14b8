//go:build withcuda && linux

package tinylm

import (
	"fmt"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/tinylm/tokenizer"
)

// gpuSampler is a GPU's part of a [Sampler]: the prompts as a segment of the
// learner's kind, then all tokens of all completions in one kernel where the
// network fits one, and token by token else. Tokens and log-probabilities come
// down once, at the end.
type gpuSampler struct {
	g      *gpu
	p      *Weights
	stale  bool
	failed error // of making it; the next decode returns it

	plan   kernels.RolloutPlan
	whole  map[string]*cuda.Kernel // nil: token by token
	layers []gpuLayer

	packed  segment
	prompts gpuSegment
	have    samplerSize
	table   *cuda.Mem // V×3H
	work    []*cuda.Mem
	out     [2]cuda.Pointer // states of a layer over the prompts
	gi      cuda.Pointer
	last    cuda.Pointer // for each prompt: the row of its last state
	states  cuda.Pointer // layers × prompts×H
	step    stepBuffers

	tokens, logps        cuda.Pointer
	lengths, ended       cuda.Pointer // side by side
	hostTokens, hostEnds []int32
	hostLogps            []float32
}

func (g *gpu) decoder(p *Weights) decoder {
	s := &gpuSampler{g: g, p: p, stale: true}
	if s.failed = g.place(p.Params); s.failed != nil {
		return s
	}
	s.failed = g.dev.Do(func() (err error) {
		if plan, ok := g.card.Rollout(p.Hidden, p.Layers, p.Vocab); ok {
			s.plan = plan
			if s.whole, err = g.load(plan.Module()); err != nil {
				return err
			}
		}
		s.table, err = g.dev.Alloc(4*p.Vocab*3*p.Hidden, "the sampler's table")
		return err
	})
	return s
}

// Refresh is done at the next decode.
func (s *gpuSampler) Refresh() { s.stale = true }

// Close frees the sampler's memory.
func (s *gpuSampler) Close() {
	_ = s.g.dev.Do(func() error {
		err := s.g.dev.Sync()
		s.release()
		s.g.dev.Free(s.table)
		s.table = nil
		return err
	})
}

func (s *gpuSampler) decode(out []model.Completion, prompts [][]int, group int, opt model.Sampling, draws model.Draws) error {
	if s.failed != nil {
		return fmt.Errorf("sample: %w", s.failed)
	}
	err := s.g.dev.Do(func() error { return s.roll(out, prompts, group, opt, draws) })
	if err != nil {
		return fmt.Errorf("sample %d completions: %w", len(out), err)
	}
	return nil
}

func (s *gpuSampler) roll(out []model.Completion, prompts [][]int, group int, opt model.Sampling, draws model.Draws) error {
	s.packed.pack(len(prompts), func(i int) []int { return prompts[i] })
	n0, inputs, steps := sizes(s.packed.active)
	rows := len(out)
	need := samplerSize{n0, inputs, steps, rows, rows * opt.MaxTokens}
	if err := s.fit(need); err != nil {
		return err
	}
	if err := s.readPrompts(prompts); err != nil {
		return err
	}
	c := choice{opt: opt, group: group, rows: rows, inv: 1}
	if !opt.Greedy {
		c.inv = float32(1 / opt.Temperature)
	}
	c.k0, c.k1 = draws.Stream.Key()
	c.a, c.b, c.c = draws.A, draws.B, draws.C
	s.ended = s.lengths.Add(rows)
	run := s.byToken
	if s.whole != nil {
		run = s.atOnce
	}
	if err := run(c); err != nil {
		return err
	}
	return s.collect(out, opt.MaxTokens)
}

// choice says how tokens are chosen, as the kernels want it.
type choice struct {
	opt             model.Sampling
	group, rows     int
	inv             float32
	k0, k1, a, b, c uint32
}

func (c choice) greedy() int {
	if c.opt.Greedy {
		return 1
	}
	return 0
}

// readPrompts leaves each prompt's last states, in the order of the prompts.
func (s *gpuSampler) readPrompts(prompts [][]int) error {
	g, p, h := s.g, s.p, s.p.Hidden
	home := g.storageOf(p.Params)
	if s.stale {
		if err := g.dev.Gemm(false, true, p.Vocab, 3*h, h, home.at(0), h, home.at(1), h, false, s.table.At(0), 3*h); err != nil {
			return err
		}
		s.stale = false
	}
	seg := &s.prompts
	seg.fill(&s.packed)
	last := seg.staged[seg.stagedAt(s.last):]
	for i, rank := range s.packed.rank {
		last[i] = int32(s.packed.blocks[s.packed.lengths[rank]] + rank)
	}
	if err := seg.upload(g, seg.inputs); err != nil {
		return err
	}
	for l := range p.Layers {
		w := gruWeights{home.at(2 + 4*l), home.at(3 + 4*l), home.at(4 + 4*l)}
		gi, ids := s.table.At(0), seg.ids
		if l > 0 {
			below := s.out[(l-1)%2].Add(seg.n0 * h)
			if err := g.dev.Gemm(false, true, seg.inputs, 3*h, h, below, h, home.at(1+4*l), h, false, s.gi, 3*h); err != nil {
				return err
			}
			gi, ids = s.gi, 0
		}
		out := s.out[l%2]
		if err := s.layers[l].forward(seg, gi, ids, w, 0, out, 0, 0); err != nil {
			return err
		}
		if err := g.launch(g.card.Gather(seg.n0, h), cuda.I(seg.n0), cuda.I(h), cuda.P(s.last), cuda.P(out), cuda.P(s.states.Add(l*seg.n0*h))); err != nil {
			return err
		}
	}
	return nil
}

// atOnce samples in one launch.
func (s *gpuSampler) atOnce(c choice) error {
	launch := s.plan.Launch(c.rows)
	return s.g.launchOf(s.whole, launch, cuda.P(s.g.storageOf(s.p.Params).at(0)), cuda.P(s.table.At(0)), cuda.P(s.states), cuda.I(c.rows), cuda.I(c.group),
		cuda.I(launch.Tile), cuda.F(c.inv), cuda.D(c.opt.TopP), cuda.I(c.opt.TopK), cuda.I(c.opt.MinTokens), cuda.I(c.opt.MaxTokens), cuda.I(c.greedy()), cuda.I(tokenizer.EOS),
		cuda.P(0), cuda.U(c.k0), cuda.U(c.k1), cuda.U(c.a), cuda.U(c.b), cuda.U(c.c),
		cuda.P(s.tokens), cuda.P(s.logps), cuda.P(s.lengths), cuda.P(s.ended))
}

// collect brings the completions down.
func (s *gpuSampler) collect(out []model.Completion, maxTokens int) error {
	d, rows := s.g.dev, len(out)
	if err := cuda.FetchAt(d, s.hostTokens[:rows*maxTokens], s.tokens); err != nil {
		return err
	}
	if err := cuda.FetchAt(d, s.hostLogps[:rows*maxTokens], s.logps); err != nil {
		return err
	}
	if err := cuda.FetchAt(d, s.hostEnds[:2*rows], s.lengths); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	for i := range out {
		n := int(s.hostEnds[i])
		if n < 1 || n > maxTokens {
			return fmt.Errorf("completion %d has %d tokens, of at most %d: the kernel is wrong", i, n, maxTokens)
		}
		c, at := &out[i], i*maxTokens
		for _, t := range s.hostTokens[at : at+n] {
			c.Tokens = append(c.Tokens, int(t))
		}
		c.LogProbs = append(c.LogProbs, s.hostLogps[at:at+n]...)
		c.Ended = s.hostEnds[rows+i] != 0
	}
	return nil
}
