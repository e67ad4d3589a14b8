package decoder

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rng"
)

var (
	_ model.Policy    = (*Policy)(nil)
	_ model.Learner   = (*learner)(nil)
	_ model.Scorer    = (*scorer)(nil)
	_ model.Critic    = (*critic)(nil)
	_ model.Sampler   = (*sampler)(nil)
	_ model.Tokenizer = Tokenizer{}
)

// Sampled tokens have the log-probabilities and entropies, to the bit, that the learner computes, for
// any number of threads and in batches of any form, in bf16 too; greedy continuations are those of
// transformers.
func TestGoldenSamplerIsTheLearner(t *testing.T) {
	several := true // how prompts are divided is the same for every network: one is enough
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		plain := model.Sampling{Temperature: 1.3, TopP: 1, MaxTokens: 7}
		cut := model.Sampling{Temperature: 1.3, TopP: 0.8, TopK: 9, MinTokens: 3, MaxTokens: 7, Restricted: true}
		samplerIsTheLearner(t, net, c, several, plain)
		samplerIsTheLearner(t, net, c, false, cut)
		plain.Stop = model.NewStop([]string{"1"}, func(tokens []int) string { return fmt.Sprint(tokens) })
		samplerIsTheLearner(t, net, c, false, plain)
		net.useBF16()
		c.Greedy = nil // with random weights, rounding changes it
		samplerIsTheLearner(t, net, c, several, plain)
		several = false
	})
}

// sameWithSeveralSettings: completing prompts with several settings at once gives what each of
// them gives alone, in several chunks too.
func sameWithSeveralSettings(t *testing.T, s *sampler, prompts [][]int, opt model.Sampling) {
	for len(prompts) <= chunkRows(1) {
		prompts = append(prompts, prompts...)
	}
	short := model.Sampling{Greedy: true, TopP: 1, MaxTokens: 3}
	opts, draws := []model.Sampling{opt, short, opt}, model.Draws{Stream: rng.New(3, 4)}
	got, err := model.SampleEach(s, prompts, 1, opts, draws)
	expect.OK(t, err)
	for i, opt := range opts {
		if want, err := s.Sample(prompts, 1, opt, draws); err != nil || !reflect.DeepEqual(got[i], want) {
			t.Errorf("settings %d give other completions together with others than alone (error %v)", i, err)
		}
	}
}

// A group of more completions than are sampled together is that of several calls, by its random numbers.
func largeGroups(t *testing.T, s *sampler, prompts [][]int, opt model.Sampling) {
	together := chunkRows(1) // as many as with the few keys and values of a small network
	group := 2*together + 3
	draws := model.Draws{Stream: rng.New(3, 4), C: 7}
	all, err := s.Sample(prompts, group, opt, draws)
	expect.OK(t, err)
	for _, k := range []int{0, together - 1, together, group - 1} {
		one := draws
		one.C += uint32(k)
		want, err := s.Sample(prompts, 1, opt, one)
		expect.OK(t, err)
		for i := range prompts {
			if !reflect.DeepEqual(all[i*group+k], want[i]) {
				t.Errorf("prompt %d, completion %d of %d: %v, alone %v", i, k, group, all[i*group+k].Tokens, want[i].Tokens)
			}
		}
	}
}

func samplerIsTheLearner(t *testing.T, net *Network, c *goldenCase, several bool, opt model.Sampling) {
	var prompts [][]int
	for _, s := range segmentsOf(c) {
		prompts = append(prompts, wide(s.Tokens))
	}
	pool := kernel.NewPool(2)
	defer pool.Close()
	s := newSampler(net, pool, &arena{}, []int{-1})
	greedy, err := s.Sample(prompts, 1, model.Sampling{Greedy: true, TopP: 1, MaxTokens: 8}, model.Draws{})
	expect.OK(t, err)
	for i, o := range greedy {
		if c.Greedy != nil && !slices.Equal(o.Tokens, c.Greedy[i]) {
			t.Errorf("greedy %v, want %v", o.Tokens, c.Greedy[i])
		}
	}
	const group = 3
	end := newSampler(net, pool, &arena{}, []int{greedy[0].Tokens[1], 3, 5})
	shared := append([][]int{append(slices.Clone(prompts[0]), 9, 4), append(slices.Clone(prompts[0]), 2)}, prompts...)
	out, err := end.Sample(shared, group, opt, model.Draws{Stream: rng.New(1, 2)})
	expect.OK(t, err)
	if several {
		sameWithSeveralSettings(t, end, shared, opt)
		largeGroups(t, end, shared[:2], opt)
	}
	batch := &model.Batch{Prompts: shared}
	for i, o := range out {
		batch.Rows = append(batch.Rows, model.Row{Prompt: i / group, Tokens: o.Tokens, Kept: o.Kept})
		if restricted := o.Kept != nil; restricted != opt.Restricted {
			t.Fatalf("completion %d: kept tokens %v", i, o.Kept)
		}
	}
	check := func(b *model.Batch, rows []int, threads int) {
		pool := kernel.NewPool(threads)
		defer pool.Close()
		sc := &scorer{net: net, on: newCPU(pool), temperature: opt.Temperature}
		m, err := sc.Score(b)
		expect.OK(t, err)
		for k, i := range rows {
			for j, lp := range out[i].LogProbs {
				if got := m.LogProbs[k*m.T+j]; got != float64(lp) || math.IsNaN(got) {
					t.Fatalf("completion %d, token %d: sampled %v, scored %v", i, j, lp, got)
				}
				if got := m.Entropy[k*m.T+j]; got != float64(out[i].Entropies[j]) {
					t.Fatalf("completion %d, token %d: entropy %v when sampled, %v when scored", i, j, out[i].Entropies[j], got)
				}
			}
		}
	}
	all := make([]int, len(out))
	for i := range all {
		all[i] = i
	}
	check(batch, all, 1)
	check(batch, all, 2)
	last := len(out) - 1
	check(&model.Batch{Prompts: shared[len(shared)-1:], Rows: []model.Row{{Tokens: out[last].Tokens, Kept: out[last].Kept}}}, []int{last}, 1)
}

func segmentsOf(c *goldenCase) []Segment {
	s, _, _ := c.sequences()
	return s
}

// Micro-batches add up to the gradient of the whole batch, checkpointing changes no bit of
// it, and the critic's gradient is that of finite differences.
func TestGoldenMicroBatches(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		pool := kernel.NewPool(2)
		defer pool.Close()
		p := &Policy{net: net, on: newCPU(pool), Tokenizer: Tokenizer{end: []int{0}}}
		segments := segmentsOf(c)
		batch := &model.Batch{}
		for i, s := range segments {
			ids := wide(s.Tokens)
			batch.Prompts = append(batch.Prompts, ids[:3])
			batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: ids[3:]}, model.Row{Prompt: i, Tokens: []int{7}})
		}
		objective := func(m *model.TokenMatrix) (float64, error) {
			loss := 0.0
			for i, ok := range m.Mask {
				if ok {
					loss += m.LogProbs[i] - 0.1*m.Entropy[i]
					m.DLogProbs[i], m.DEntropy[i] = 1, -0.1
				}
			}
			return loss, nil
		}
		whole, _ := p.NewLearner(1, false)
		parts, _ := p.NewLearner(1, false)
		want, err := whole.Accumulate(batch, objective)
		expect.OK(t, err)
		recomputed, _ := p.NewLearner(1, true)
		if loss, err := recomputed.Accumulate(batch, objective); err != nil || loss != want {
			t.Errorf("with checkpointing: loss %v, %v", loss, err)
		}
		if !slices.Equal(recomputed.Grads().Flat, whole.Grads().Flat) {
			t.Error("checkpointing changes the gradient")
		}
		got := 0.0
		for _, r := range batch.Rows {
			loss, err := parts.Accumulate(&model.Batch{Prompts: batch.Prompts, Rows: []model.Row{r}}, objective)
			expect.OK(t, err)
			got += loss
		}
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("loss %v, want %v", got, want)
		}
		for k, x := range whole.Grads().Tensors() {
			largest := 0.0
			for _, g := range x.Data {
				largest = max(largest, math.Abs(float64(g)))
			}
			for i, g := range parts.Grads().Tensors()[k].Data {
				if math.Abs(float64(g-x.Data[i])) > 1e-5*max(largest, 1e-3) {
					t.Fatalf("%s: element %d is %v, want %v", x.Name, i, g, x.Data[i])
				}
			}
		}
		value, err := p.NewCritic(model.AdamWOptions{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}, false)
		expect.OK(t, err)
		cr := value.(*critic)
		for i := range net.Config.Hidden {
			cr.head(cr.Params).W[i] = float32(i%5) - 2
		}
		sum := func(m *model.ValueMatrix) (float64, error) {
			loss := 0.0
			for i, ok := range m.Mask {
				if ok {
					loss += m.Values[i]
					if m.DValues != nil {
						m.DValues[i] = 1
					}
				}
			}
			return loss, nil
		}
		expect.OK(t, expect.Err(cr.Accumulate(batch, sum)))
		again := newCritic(net, p.on, cr.Optimizer.AdamWOptions, true)
		copy(again.Params.Flat, cr.Params.Flat)
		if _, err := again.Accumulate(batch, sum); err != nil || !slices.Equal(again.Gradients.Flat, cr.Gradients.Flat) {
			t.Errorf("checkpointing changes the critic's gradient (%v)", err)
		}
		for _, x := range cr.Params.Tensors() {
			at := len(x.Data) / 2
			grad := 0.0
			for k, g := range cr.Gradients.Tensors() {
				if cr.Params.Tensors()[k].Name == x.Name {
					grad = float64(g.Data[at])
				}
			}
			old, step := x.Data[at], float32(1e-2)
			eval := func(v float32) float64 {
				x.Data[at] = v
				m, err := cr.Values(batch)
				expect.OK(t, err)
				loss, _ := sum(m)
				return loss
			}
			numeric := (eval(old+step) - eval(old-step)) / float64(2*step)
			x.Data[at] = old
			if math.Abs(numeric-grad) > 0.02*max(1, math.Abs(grad)) {
				t.Errorf("%s: gradient %v, by finite differences %v", x.Name, grad, numeric)
			}
		}
	})
}
