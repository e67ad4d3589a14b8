//go:build withcuda && linux

package gpu

import (
	"fmt"
	"math"
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

// The errors of the faster matmuls: the largest change of a token's log-probability
// and the relative change of the gradient, ‖g-g₀‖/‖g₀‖, against the CPU. They are
// logged for cuda-check's table and bounded by 64 times the rounding of an operand. On
// the emulator each precision has a larger error than the one before; a card's cuBLAS
// may round some operands less than it is allowed to.
func TestGPUPrecisionCosts(t *testing.T) {
	rounding := map[string]float64{"float32": 0x1p-24, "tf32": 0x1p-11, "bf16": 0x1p-8}
	for _, steps := range []bool{false, true} {
		p := tinylmtest.Weights(t, tinylmtest.Spec(64, 2), 1)
		b := tinylmtest.Batch(t, p, 6, 4, 16)
		want, wantGrads := tinylmtest.Score(t, p.Clone(), 1, tinylmtest.Pool(t, 1), b), tinylmtest.Gradients(t, p.Clone(), tinylmtest.Pool(t, 1), b)
		logpBefore, gradBefore := 0.0, 0.0
		for _, precision := range []string{"float32", "tf32", "bf16"} {
			g := stepByStep(testGPU(t, precision), steps)
			grad := relativeError(tinylmtest.Gradients(t, p, g, b), wantGrads)
			logp := 0.0
			for i, x := range tinylmtest.Score(t, p, 1, g, b).LogProbs {
				if want.Mask[i] {
					logp = math.Max(logp, math.Abs(x-want.LogProbs[i]))
				}
			}
			how := "fused"
			if steps {
				how = "step by step"
			}
			t.Logf("costs: %s | %s | %.1e | %.1e", precision, how, logp, grad)
			if bound := 64 * rounding[precision]; !(logp <= bound && grad <= bound) {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, more than %g", precision, how, logp, grad, bound)
			}
			if !onCard() && (logp <= logpBefore || grad <= gradBefore) {
				t.Errorf("%s, %s: log-probabilities change by %g and the gradient by %g, no more than in the previous precision (%g, %g)", precision, how, logp, grad, logpBefore, gradBefore)
			}
			logpBefore, gradBefore = logp, grad
			g.Close()
		}
	}
}

func relativeError(got, want []float32) float64 {
	var diff, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(diff / norm)
}
