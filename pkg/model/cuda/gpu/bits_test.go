//go:build withcuda && linux

package gpu

import (
	"fmt"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

// The same work gives the same bits, also on a device that was reopened.
func TestGPUSameBits(t *testing.T) {
	run := func() (weights []float32, out []model.Completion) {
		g := testGPU(t, "float32")
		defer g.Close()
		p := tinylmtest.Weights(t, tinylmtest.Spec(32, 2), 1)
		b := tinylmtest.Batch(t, p, 4, 3, 8)
		opt := model.NewAdamW(p.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0})
		l, err := tinylm.NewLearner(p, 1, g)
		expect.OK(t, err)
		defer l.Close()
		for range 3 {
			l.ZeroGrads()
			expect.OK(t, expect.Err(l.Accumulate(b, tinylmtest.MeanLogProb(tinylmtest.Tokens(b)))))
			expect.OK(t, expect.Err(opt.Step(p.Params, l.Grads(), 1e-2, 1)))
		}
		s := tinylm.NewSampler(p, g)
		defer s.Close()
		out, err = s.Sample(b.Prompts, 3, tinylmtest.Plain, tinylmtest.Draws(1))
		expect.OK(t, err)
		tinylmtest.Pull(t, p.Params)
		return p.Flat, out
	}
	weights, out := run()
	again, out2 := run()
	if !slices.Equal(weights, again) {
		t.Error("the weights differ")
	}
	for i := range out {
		if !slices.Equal(out[i].Tokens, out2[i].Tokens) || !slices.Equal(out[i].LogProbs, out2[i].LogProbs) {
			t.Errorf("completion %d differs", i)
		}
	}
}

// Once the largest batch has been seen, steps allocate no driver memory, and closing frees
// everything except what the device keeps.
func TestGPUMemoryIsConstant(t *testing.T) {
	for _, steps := range []bool{false, true} {
		t.Run(fmt.Sprintf("step by step %v", steps), func(t *testing.T) {
			g := stepByStep(testGPU(t, "float32"), steps)
			p := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 1)
			batches := []*model.Batch{tinylmtest.Batch(t, p, 5, 3, 9), tinylmtest.Batch(t, p, 3, 2, 5), tinylmtest.Batch(t, p, 5, 2, 7)}
			opt := model.NewAdamW(p.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0})
			before := g.dev.Memory()
			l, err := tinylm.NewLearner(p, 1, g)
			expect.OK(t, err)
			c := tinylmtest.Critic(t, p, g)
			s := tinylm.NewSampler(p, g)
			step := func(b *model.Batch) {
				l.ZeroGrads()
				expect.OK(t, expect.Err(l.Accumulate(b, tinylmtest.MeanLogProb(tinylmtest.Tokens(b)))))
				expect.OK(t, expect.Err(opt.Step(p.Params, l.Grads(), 1e-4, 1)))
				tinylmtest.Values(t, c, b)
				s.Refresh()
				expect.OK(t, expect.Err(s.Sample(b.Prompts, 2, tinylmtest.Plain, model.Draws{})))
			}
			for _, b := range batches {
				step(b)
			}
			warm := g.dev.Memory()
			for range 5 {
				for _, b := range batches {
					step(b)
				}
			}
			if now := g.dev.Memory(); now != warm {
				t.Errorf("memory went from %+v to %+v in 15 steps", warm, now)
			}
			s.Close()
			_ = l.Close()
			_ = c.Close()
			for _, x := range []*model.Params{c.State().Params, p.Params, opt.M, opt.V} {
				x.Release()
			}
			after := g.dev.Memory()
			// The partial sums are kept for the next network.
			if kept := int(g.parts.MemSize()); after.Pieces != before.Pieces+1 || after.InUse < before.InUse || after.InUse > before.InUse+2*kept || after.Host != before.Host {
				t.Errorf("after closing %+v, before %+v, of which sums keep %d", after, before, kept)
			}
		})
	}
}
