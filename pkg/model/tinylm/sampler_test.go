package tinylm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

func randomModel(t testing.TB, spec Spec, seed uint64) *Weights {
	t.Helper()
	p, err := NewWeights(spec)
	if err != nil {
		t.Fatal(err)
	}
	p.Init(seed)
	// A fresh head is nearly uniform, and its completions almost never end.
	for i := range p.Head {
		p.Head[i] *= 3
	}
	p.HeadB[tokenizer.EOS] = 2
	return p
}

// randomPrompts have ragged lengths.
func randomPrompts(n, longest int) [][]int {
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

func draws(seed uint64) model.Draws { return model.Draws{Stream: rng.New(seed, rng.Rollout)} }

var plain = model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 20}

func sample(t testing.TB, p *Weights, threads int, prompts [][]int, group int, opt model.Sampling) []model.Completion {
	t.Helper()
	pool := kernel.NewPool(threads)
	defer pool.Close()
	out, err := NewSampler(p, pool).Sample(prompts, group, opt, draws(1))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The sampler's log-probabilities are the graph's.
func TestSamplerAgreesWithGraph(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		opt  model.Sampling
	}{
		{"default size", Spec{tokenizer.VocabSize, 64, 2}, plain},
		{"one layer, odd width", Spec{tokenizer.VocabSize, 13, 1}, plain},
		{"three layers", Spec{tokenizer.VocabSize, 24, 3}, plain},
		{"temperature 0.6", Spec{tokenizer.VocabSize, 64, 2}, model.Sampling{Temperature: 0.6, TopP: 1, MaxTokens: 20}},
		{"top-p, top-k and a minimum", Spec{tokenizer.VocabSize, 64, 2}, model.Sampling{Temperature: 1.3, TopP: 0.9, TopK: 30, MinTokens: 5, MaxTokens: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := randomModel(t, c.spec, 1)
			prompts := randomPrompts(9, 12)
			const group = 5
			out := sample(t, p, 2, prompts, group, c.opt)
			b := &model.Batch{Prompts: prompts}
			for i, x := range out {
				b.Rows = append(b.Rows, model.Row{Prompt: i / group, Tokens: x.Tokens})
			}
			pool := kernel.NewPool(2)
			defer pool.Close()
			l, err := NewLearner(p, c.opt.Temperature, pool)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			worst, tokens := 0.0, 0
			if _, err := l.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
				for i, x := range out {
					for k, lp := range x.LogProbs {
						if !m.Mask[i*m.T+k] {
							t.Fatalf("token %d of completion %d is not in the graph's mask", k, i)
						}
						worst = math.Max(worst, math.Abs(float64(lp)-m.LogProbs[i*m.T+k]))
						tokens++
					}
				}
				return 0, nil
			}); err != nil {
				t.Fatal(err)
			}
			if tokens < 50 || worst > 1e-5 {
				t.Errorf("over %d tokens the largest difference is %g, want at most 1e-5", tokens, worst)
			}
		})
	}
}

// A completion is a function of its prompt and its random numbers: not of the
// other rows, and not of the number of threads.
func TestSamplesDoNotDependOnBatchOrThreads(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 32, 2}, 2)
	prompts := randomPrompts(40, 15)
	all := sample(t, p, 1, prompts, 4, plain)
	for _, threads := range []int{2, 3, 5} {
		for i, x := range sample(t, p, threads, prompts, 4, plain) {
			if !slices.Equal(x.Tokens, all[i].Tokens) || !slices.Equal(x.LogProbs, all[i].LogProbs) {
				t.Fatalf("completion %d differs between 1 and %d threads", i, threads)
			}
		}
	}
	alone := sample(t, p, 1, prompts[:1], 4, plain)
	for i, x := range alone {
		if !slices.Equal(x.Tokens, all[i].Tokens) || !slices.Equal(x.LogProbs, all[i].LogProbs) {
			t.Fatalf("completion %d of the first prompt differs when the prompt is alone", i)
		}
	}
}

func TestSamplingOptions(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 1}, 3)
	prompts := randomPrompts(6, 8)
	lengths := func(out []model.Completion) (short, long int) {
		short = math.MaxInt
		for _, x := range out {
			short, long = min(short, len(x.Tokens)), max(long, len(x.Tokens))
			ended := x.Tokens[len(x.Tokens)-1] == tokenizer.EOS
			if ended != x.Ended || slices.Contains(x.Tokens[:len(x.Tokens)-1], tokenizer.EOS) {
				t.Errorf("completion %v: Ended = %v", x.Tokens, x.Ended)
			}
		}
		return
	}
	t.Run("limits", func(t *testing.T) {
		opt := plain
		opt.MinTokens, opt.MaxTokens = 6, 9
		if short, long := lengths(sample(t, p, 1, prompts, 20, opt)); short < 6 || long != 9 {
			t.Errorf("lengths from %d to %d, want from 6 or more to 9", short, long)
		}
		if short, _ := lengths(sample(t, p, 1, prompts, 20, plain)); short >= 6 {
			t.Errorf("without a minimum the shortest completion has %d tokens: the case shows nothing", short)
		}
	})
	greedy := plain
	greedy.Greedy = true
	best := sample(t, p, 1, prompts, 1, greedy)
	for _, c := range []struct {
		name string
		opt  model.Sampling
	}{
		{"top-k 1", model.Sampling{Temperature: 1, TopP: 1, TopK: 1, MaxTokens: 20}},
		{"tiny top-p", model.Sampling{Temperature: 1, TopP: 1e-9, MaxTokens: 20}},
		{"tiny temperature", model.Sampling{Temperature: 1e-4, TopP: 1, MaxTokens: 20}},
	} {
		t.Run(c.name+" is greedy", func(t *testing.T) {
			for i, x := range sample(t, p, 1, prompts, 1, c.opt) {
				if !slices.Equal(x.Tokens, best[i].Tokens) {
					t.Errorf("prompt %d: %v, greedy %v", i, x.Tokens, best[i].Tokens)
				}
			}
		})
	}
	for _, c := range []model.Sampling{
		{Temperature: 0, TopP: 1, MaxTokens: 1}, {Temperature: math.NaN(), TopP: 1, MaxTokens: 1},
		{Temperature: 1, TopP: 0, MaxTokens: 1}, {Temperature: 1, TopP: 1.1, MaxTokens: 1}, {Temperature: 1, TopP: 1, TopK: -1, MaxTokens: 1},
		{Temperature: 1, TopP: 1}, {Temperature: 1, TopP: 1, MinTokens: 3, MaxTokens: 2},
	} {
		t.Run(fmt.Sprintf("refuses %+v", c), func(t *testing.T) {
			pool := kernel.NewPool(1)
			defer pool.Close()
			if _, err := NewSampler(p, pool).Sample(prompts, 1, c, draws(1)); err == nil {
				t.Error("no error")
			}
		})
	}
}

// First tokens come as often as their probability says.
func TestSamplerFollowsTheDistribution(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 1}, 4)
	const n = 20000
	opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}
	counts, logp := map[int]int{}, map[int]float64{}
	for _, x := range sample(t, p, 2, randomPrompts(1, 5), n, opt) {
		counts[x.Tokens[0]]++
		logp[x.Tokens[0]] = float64(x.LogProbs[0])
	}
	for id, k := range counts {
		q := math.Exp(logp[id])
		if d := math.Abs(float64(k) - n*q); d > 5*math.Sqrt(n*q*(1-q))+1 {
			t.Errorf("token %d came %d times of %d, its probability is %.5f", id, k, n, q)
		}
	}
}

// A policy whose weights are not finite must not hang or crash the sampler.
func TestSamplerSurvivesNaN(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 1}, 5)
	p.Layer[0].Whh[3] = float32(math.NaN())
	for _, x := range sample(t, p, 1, randomPrompts(3, 4), 2, plain) {
		if len(x.Tokens) == 0 || len(x.Tokens) > plain.MaxTokens {
			t.Errorf("%d tokens", len(x.Tokens))
		}
	}
}

// TestPick: the token is the first at which the running sum passes u times the
// total. Probabilities are multiples of 2^-12, so that every sum is exact and
// the order of addition can't matter.
func TestPick(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(rt, "tokens")
		w := &sampleWork{probs: make([]float32, n)}
		var total float64
		for i := range w.probs {
			if rapid.Bool().Draw(rt, "zero") {
				continue
			}
			w.probs[i] = float32(rapid.IntRange(0, 4096).Draw(rt, "p")) / 4096
			total += float64(w.probs[i])
		}
		if total == 0 {
			w.probs[n/2], total = 1, 1
		}
		u := float64(rapid.IntRange(0, 1<<20-1).Draw(rt, "u")) / (1 << 20)
		want, sum := -1, 0.0
		for i, p := range w.probs {
			if sum += float64(p); sum > u*total {
				want = i
				break
			}
		}
		if got := w.pick(u); got != want {
			rt.Fatalf("pick(%v) = %d, want %d of %v", u, got, want, w.probs)
		}
	})
	// Where rounding leaves nothing above the target, the last token that can
	// be drawn is drawn, whatever zeros follow.
	w := &sampleWork{probs: make([]float32, 60)}
	w.probs[3], w.probs[20] = 0.5, 0.5
	if got := w.pick(1); got != 20 {
		t.Errorf("pick(1) = %d, want 20", got)
	}
}
