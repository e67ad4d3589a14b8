// Package tinylmtest has helpers for tests of TinyLM on any device: weights and batches, a
// reference network, and PyTorch's reference case. It is for tests only.
package tinylmtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

// Spec is a TinyLM of the tokenizer's vocabulary.
func Spec(hidden, layers int) tinylm.Spec {
	return tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: hidden, Layers: layers}
}

// Weights are random weights with completions of varying lengths.
func Weights(t testing.TB, spec tinylm.Spec, seed uint64) *tinylm.Weights {
	t.Helper()
	w, err := tinylm.NewWeights(spec)
	expect.OK(t, err)
	w.Init(seed)
	// A fresh head is nearly uniform, and its completions almost never end.
	for i := range w.Head {
		w.Head[i] *= 3
	}
	w.HeadB[tokenizer.EOS] = 2
	return w
}

// Pool is a worker pool that is closed at the end of the test.
func Pool(t testing.TB, threads int) *kernel.Pool {
	pool := kernel.NewPool(threads)
	t.Cleanup(pool.Close)
	return pool
}

// Prompts have random lengths up to longest.
func Prompts(n, longest int) [][]int {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([][]int, n)
	for i := range out {
		out[i] = make([]int, 1+r.IntN(longest))
		for t := range out[i] {
			out[i][t] = 4 + r.IntN(tokenizer.VocabSize-4)
		}
	}
	return out
}

// Draws is the start of a random stream.
func Draws(seed uint64) model.Draws { return model.Draws{Stream: rng.New(seed, rng.Rollout)} }

// Plain are the settings of sampling without truncation.
var Plain = model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 20}

// Sample samples on the CPU with seed 1.
func Sample(t testing.TB, w *tinylm.Weights, threads int, prompts [][]int, group int,
	opt model.Sampling) []model.Completion {
	t.Helper()
	pool := kernel.NewPool(threads)
	defer pool.Close()
	out, err := tinylm.NewSampler(w, pool).Sample(prompts, group, opt, Draws(1))
	expect.OK(t, err)
	return out
}

// Batch is random prompts with group sampled completions of each; prompts and
// completions have at most longest tokens.
func Batch(t testing.TB, w *tinylm.Weights, prompts, group, longest int) *model.Batch {
	t.Helper()
	b := &model.Batch{Prompts: Prompts(prompts, longest)}
	for i, x := range Sample(t, w, 1, b.Prompts, group, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: longest}) {
		b.Rows = append(b.Rows, model.Row{Prompt: i / group, Tokens: x.Tokens})
	}
	return b
}

// Tokens counts the completion tokens.
func Tokens(b *model.Batch) int {
	n := 0
	for _, r := range b.Rows {
		n += len(r.Tokens)
	}
	return n
}

// MeanLogProb is a simple objective: minus the mean log-probability of n tokens.
// The gradient also has a term for the entropies.
func MeanLogProb(n int) model.Objective {
	return func(m *model.TokenMatrix) (float64, error) {
		var loss float64
		for i, in := range m.Mask {
			if in {
				loss -= m.LogProbs[i] / float64(n)
				m.DLogProbs[i] = -1 / float64(n)
				m.DEntropy[i] = 0.01 / float64(n)
			}
		}
		return loss, nil
	}
}

// Gradients are those of [MeanLogProb] over all batches.
func Gradients(t testing.TB, w *tinylm.Weights, on model.Device, batches ...*model.Batch) []float32 {
	t.Helper()
	l, err := tinylm.NewLearner(w, 1, on)
	expect.OK(t, err)
	defer l.Close()
	n := 0
	for _, b := range batches {
		n += Tokens(b)
	}
	for _, b := range batches {
		expect.OK(t, expect.Err(l.Accumulate(b, MeanLogProb(n))))
	}
	Pull(t, l.Grads())
	return slices.Clone(l.Grads().Flat)
}

// Score is a new scorer's matrix of a batch.
func Score(t testing.TB, w *tinylm.Weights, temperature float64, on model.Device, b *model.Batch) *model.TokenMatrix {
	t.Helper()
	s, err := tinylm.NewScorer(w, temperature, on)
	expect.OK(t, err)
	defer s.Close()
	m, err := s.Score(b)
	expect.OK(t, err)
	return m
}

// AdamW are the coefficients of the default experiment.
var AdamW = model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}

// Critic is a new critic that is closed at the end of the test.
func Critic(t testing.TB, policy *tinylm.Weights, on model.Device) *tinylm.Critic {
	t.Helper()
	c, err := tinylm.NewCritic(policy, AdamW, on)
	expect.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// WithHead gives the critic a head that is not zero.
func WithHead(t testing.TB, c *tinylm.Critic) *tinylm.Critic {
	t.Helper()
	p := c.State().Params
	Pull(t, p)
	head := p.Tensors()[len(p.Tensors())-2:]
	for i := range head[0].Data {
		head[0].Data[i] = float32(math.Sin(float64(3 * i)))
	}
	head[1].Data[0] = 0.25
	expect.OK(t, p.Push())
	return c
}

// Regression is half the mean squared distance of n values from a target that
// differs from token to token. The first row of the batch is number firstRow.
func Regression(n, firstRow int) model.ValueObjective {
	return func(m *model.ValueMatrix) (float64, error) {
		var loss float64
		for i, in := range m.Mask {
			if in {
				d := m.Values[i] - math.Cos(float64(7*(firstRow+i/m.T)+i%m.T))
				loss += d * d / 2 / float64(n)
				m.DValues[i] = d / float64(n)
			}
		}
		return loss, nil
	}
}

// Values is [tinylm.Critic.Values].
func Values(t testing.TB, c *tinylm.Critic, b *model.Batch) *model.ValueMatrix {
	t.Helper()
	m, err := c.Values(b)
	expect.OK(t, err)
	return m
}

// Accumulate is [tinylm.Critic.Accumulate].
func Accumulate(t testing.TB, c *tinylm.Critic, b *model.Batch, objective model.ValueObjective) float64 {
	t.Helper()
	loss, err := c.Accumulate(b, objective)
	expect.OK(t, err)
	return loss
}

// Pull is [model.Params.Pull].
func Pull(t testing.TB, p *model.Params) {
	t.Helper()
	expect.OK(t, p.Pull())
}

// Near reports whether got is within rtol·|want| + atol of want.
func Near(got, want, rtol, atol float64) bool {
	return math.Abs(got-want) <= atol+rtol*math.Abs(want)
}
