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
	"grpo/pkg/rng"
)

// A GPU samples the CPU's tokens with the same random numbers, and log-probabilities that differ by
// rounding: with every option, from a stream and from a function, in one kernel and token by token.
func TestGPUSamplesTheCPUsTokens(t *testing.T) {
	place := model.Draws{Stream: rng.New(3, rng.Rollout), A: 7, B: 1 << 20, C: 2}
	for _, c := range []struct {
		name    string
		spec    tinylm.Spec
		prompts int
		group   int
		opt     model.Sampling
	}{
		{"default size", tinylmtest.Spec(64, 2), 5, 4, tinylmtest.Plain},
		{"one layer, odd width", tinylmtest.Spec(13, 1), 3, 5, tinylmtest.Plain},
		{"three layers", tinylmtest.Spec(24, 3), 4, 1, tinylmtest.Plain},
		{"temperature 0.6", tinylmtest.Spec(16, 2), 3, 2, model.Sampling{Temperature: 0.6, TopP: 1, MaxTokens: 20}},
		{"top-p, top-k and a minimum", tinylmtest.Spec(16, 2), 3, 4, model.Sampling{Temperature: 1.3, TopP: 0.9, TopK: 30, MinTokens: 5, MaxTokens: 20}},
		{"greedy", tinylmtest.Spec(16, 2), 6, 1, model.Sampling{Greedy: true, TopP: 1, MaxTokens: 20}},
		{"one token", tinylmtest.Spec(16, 1), 3, 3, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}},
	} {
		for _, steps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, token by token %v", c.name, steps), func(t *testing.T) {
				p := tinylmtest.Weights(t, c.spec, 1)
				prompts := tinylmtest.Prompts(c.prompts, 9)
				cpu := tinylm.NewSampler(p.Clone(), tinylmtest.Pool(t, 1))
				gpu := tinylm.NewSampler(p, stepByStep(testGPU(t, "float32"), steps))
				defer gpu.Close()
				want, err := cpu.Sample(prompts, c.group, c.opt, place)
				expect.OK(t, err)
				got, err := gpu.Sample(prompts, c.group, c.opt, place)
				expect.OK(t, err)
				sameCompletions(t, c.name, got, want)
			})
		}
	}
}

func sameCompletions(t *testing.T, name string, got, want []model.Completion) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d completions, want %d", name, len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if !slices.Equal(g.Tokens, w.Tokens) || g.Ended != w.Ended {
			t.Fatalf("%s: completion %d is %v (ended %v), the CPU's %v (%v)", name, i, g.Tokens, g.Ended, w.Tokens, w.Ended)
		}
		for k := range w.LogProbs {
			if !tinylmtest.Near(float64(g.LogProbs[k]), float64(w.LogProbs[k]), 1e-4, 1e-5) {
				t.Fatalf("%s: completion %d, token %d: log-probability %v, the CPU's %v", name, i, k, g.LogProbs[k], w.LogProbs[k])
			}
		}
	}
}

// The sampler reads new weights after Refresh, and handles rollouts of any sequence of sizes.
func TestGPUSamplerFollowsWeightsAndSizes(t *testing.T) {
	g := testGPU(t, "float32")
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 1)
	s := tinylm.NewSampler(p, g)
	defer s.Close()
	for i, n := range []int{2, 7, 1, 7} {
		for k := range p.Flat {
			p.Flat[k] *= 1.05
		}
		expect.OK(t, p.Push())
		s.Refresh()
		prompts := tinylmtest.Prompts(n, 4+3*i)
		got, err := s.Sample(prompts, 3, tinylmtest.Plain, model.Draws{})
		expect.OK(t, err)
		want, err := tinylm.NewSampler(p.Clone(), tinylmtest.Pool(t, 1)).Sample(prompts, 3, tinylmtest.Plain, model.Draws{})
		expect.OK(t, err)
		sameCompletions(t, fmt.Sprintf("rollout %d", i), got, want)
	}
}
