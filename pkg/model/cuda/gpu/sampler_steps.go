//go:build withcuda && linux

package gpu

import (
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// stepBuffers are the buffers of sampling token by token, for networks that do not fit the fused
// kernel. A finished row stays in the batch, unchanged, until all have finished. rows is the number
// of completions.
type stepBuffers struct {
	promptGH   cuda.Pointer      // (prompts, 3H): scratch of the layers over the prompts
	h          [][2]cuda.Pointer // of each layer: (rows, H), now and next
	gi, gh     cuda.Pointer      // (rows, 3H)
	logits     cuda.Pointer      // (rows, V)
	next       cuda.Pointer      // (rows): the last token of each
	alive      cuda.Pointer      // 1: the number of rows that have not ended
	owner      cuda.Pointer      // (rows): the prompt of each
	owners     []int32
	aliveCount []int32
}

// checkEvery is the number of tokens after which the host waits for the device and checks whether
// any row is unfinished.
const checkEvery = 16

func (b *stepBuffers) allocate(s *sampler, n samplerSize) error {
	p, h := s.p, s.p.Hidden
	*b = stepBuffers{}
	_, fused, err := s.g.recurrence(h)
	if err != nil {
		return err
	}
	alloc := func(floats int) cuda.Pointer { return s.alloc(floats, "the states of sampling") }
	if fused == nil {
		b.promptGH = alloc(n.prompts * 3 * h)
	}
	if s.fused != nil {
		return nil
	}
	b.gi, b.gh, b.logits = alloc(n.rows*3*h), alloc(n.rows*3*h), alloc(n.rows*p.Vocab)
	b.next, b.alive, b.owner = alloc(n.rows), alloc(1), alloc(n.rows)
	for range p.Layers {
		b.h = append(b.h, [2]cuda.Pointer{alloc(n.rows * h), alloc(n.rows * h)})
	}
	b.owners, b.aliveCount = make([]int32, n.rows), make([]int32, 1)
	return nil
}

// byToken samples one token of every row at a time.
func (s *sampler) byToken(c choice) error {
	g, p, h, b := s.g, s.p, s.p.Hidden, &s.step
	weights := g.storageOf(p.Params)
	for r := range c.rows {
		b.owners[r] = int32(r / c.group)
	}
	_ = cuda.UploadAt(g.dev, b.owner, b.owners[:c.rows])
	for l := range p.Layers {
		g.gather(c.rows, h, b.owner, s.states.Add(l*s.prompts.n0*h), b.h[l][0])
	}
	g.zero(s.lengths, 2*c.rows) // lengths and ended
	head, bias := weights.at(1+4*p.Layers), weights.at(2+4*p.Layers)
	for t := range c.opt.MaxTokens {
		now, next := t%2, (t+1)%2
		g.gemm(false, true, c.rows, p.Vocab, h, b.h[p.Layers-1][now], h, head, h, false, b.logits, p.Vocab)
		g.zero(b.alive, 1)
		args := append([]cuda.Arg{cuda.I(c.rows), cuda.I(c.group), cuda.I(p.Vocab), cuda.P(b.logits), cuda.P(bias)},
			c.args()...)
		g.launch(g.card.Pick(c.rows, p.Vocab), append(args, cuda.I(t), cuda.P(s.tokens), cuda.P(s.logps), cuda.P(s.lengths),
			cuda.P(s.ended), cuda.P(b.next), cuda.P(b.alive))...)
		if t+1 == c.opt.MaxTokens {
			return nil
		}
		if (t+1)%checkEvery == 0 {
			_ = cuda.FetchAt(g.dev, b.aliveCount, b.alive)
			if err := g.dev.Sync(); err != nil || b.aliveCount[0] == 0 {
				return err
			}
		}
		for l := range p.Layers {
			gi, ids := s.table.At(0), b.next
			if l > 0 {
				g.gemm(false, true, c.rows, 3*h, h, b.h[l-1][next], h, weights.at(1+4*l), h, false, b.gi, 3*h)
				gi, ids = b.gi, 0
			}
			g.gemm(false, true, c.rows, 3*h, h, b.h[l][now], h, weights.at(2+4*l), h, false, b.gh, 3*h)
			g.launch(g.card.Gates(kernels.GRUGatesForward, c.rows, h), cuda.I(c.rows), cuda.I(h), cuda.P(gi),
				cuda.P(ids), cuda.P(b.gh), cuda.P(weights.at(3+4*l)), cuda.P(weights.at(4+4*l)), cuda.P(b.h[l][now]),
				cuda.P(b.h[l][next]), cuda.P(0), cuda.P(0))
		}
	}
	return nil
}
