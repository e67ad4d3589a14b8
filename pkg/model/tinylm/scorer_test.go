package tinylm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm/tokenizer"
)

// scored is a copy of what a new scorer says of a batch.
func scored(t testing.TB, p *Weights, temperature float64, on model.Device, b *model.Batch) *model.TokenMatrix {
	t.Helper()
	s, err := NewScorer(p, temperature, on)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := s.Score(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// threads is a pool that ends with the test.
func threads(t testing.TB, n int) *kernel.Pool {
	pool := kernel.NewPool(n)
	t.Cleanup(pool.Close)
	return pool
}

func sameTokens(a, b *model.TokenMatrix) bool {
	return a.B == b.B && a.T == b.T && slices.Equal(a.Mask, b.Mask) &&
		slices.Equal(a.LogProbs, b.LogProbs) && slices.Equal(a.Entropy, b.Entropy)
}

// The scorer has the learner's bits, whatever the number of threads, and the
// sampler's numbers.
func TestScorerAgreesWithLearnerAndSampler(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		opt  model.Sampling
	}{
		{"default size", Spec{tokenizer.VocabSize, 64, 2}, plain},
		{"one layer, odd width", Spec{tokenizer.VocabSize, 13, 1}, plain},
		{"three layers", Spec{tokenizer.VocabSize, 24, 3}, plain},
		{"temperature 0.6", Spec{tokenizer.VocabSize, 64, 2}, model.Sampling{Temperature: 0.6, TopP: 1, MaxTokens: 20}},
		{"top-p, top-k and a minimum", Spec{tokenizer.VocabSize, 32, 2}, model.Sampling{Temperature: 1.3, TopP: 0.9, TopK: 30, MinTokens: 5, MaxTokens: 20}},
		{"one token each", Spec{tokenizer.VocabSize, 16, 1}, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := randomModel(t, c.spec, 1)
			b := &model.Batch{Prompts: randomPrompts(40, 12)}
			const group = 5 // more than one chunk of the head, and of sequences
			completions := sample(t, p, 2, b.Prompts, group, c.opt)
			for i, x := range completions {
				b.Rows = append(b.Rows, model.Row{Prompt: i / group, Tokens: x.Tokens})
			}
			got := scored(t, p, c.opt.Temperature, threads(t, 2), b)
			if got.DLogProbs != nil || got.DEntropy != nil {
				t.Error("room for gradients that nobody reads")
			}
			worst, tokens := 0.0, 0
			for i, x := range completions {
				for k := range got.T {
					at := i*got.T + k
					if got.Mask[at] != (k < len(x.Tokens)) {
						t.Fatalf("mask of row %d, column %d is %v, the completion has %d tokens", i, k, got.Mask[at], len(x.Tokens))
					}
					if got.Mask[at] {
						worst = math.Max(worst, math.Abs(float64(x.LogProbs[k])-got.LogProbs[at]))
						tokens++
					}
				}
			}
			if tokens < 200 || worst > 1e-6 {
				t.Errorf("over %d tokens the largest difference from the sampler is %g, want at most 1e-6", tokens, worst)
			}
			for _, n := range []int{1, 3, 5} {
				if !sameTokens(scored(t, p, c.opt.Temperature, threads(t, n), b), got) {
					t.Errorf("the bits differ between 2 and %d threads", n)
				}
			}
			pool := kernel.NewPool(2)
			defer pool.Close()
			l, err := NewLearner(p, c.opt.Temperature, pool)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err := l.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
				if !sameTokens(m, got) {
					t.Error("the learner's bits differ")
				}
				return 0, nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A row's bits do not depend on the rest of its batch, nor on the batches
// before; and new weights are seen without a word.
func TestScorerReadsEachBatchAnew(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 24, 2}, 1)
	b := randomBatch(t, p, 6, 4, 24)
	want := scored(t, p, 1, threads(t, 1), b)
	pool := kernel.NewPool(2)
	defer pool.Close()
	s, err := NewScorer(p, 1, pool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	score := func(b *model.Batch) *model.TokenMatrix {
		t.Helper()
		m, err := s.Score(b)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for at := 0; at < len(b.Rows); at += 5 { // cuts through groups
		rows := b.Rows[at:min(at+5, len(b.Rows))]
		m := score(&model.Batch{Prompts: b.Prompts, Rows: rows})
		for i, r := range rows {
			n := len(r.Tokens)
			if !slices.Equal(m.LogProbs[i*m.T:i*m.T+n], want.LogProbs[(at+i)*want.T:(at+i)*want.T+n]) {
				t.Errorf("row %d by itself differs from the same row in the batch", at+i)
			}
		}
	}
	score(randomBatch(t, p, 30, 8, 40))
	if !sameTokens(score(b), want) {
		t.Error("behind a larger batch the bits differ")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !sameTokens(score(b), want) {
		t.Error("after Close the bits differ")
	}
	if err := model.MixInto(p.Params, randomModel(t, p.Spec, 2).Params, 0.5); err != nil {
		t.Fatal(err)
	}
	if got := score(b); sameTokens(got, want) || !sameTokens(got, scored(t, p, 1, threads(t, 1), b)) {
		t.Error("the scorer does not see the new weights")
	}
}

func TestScorerRefuses(t *testing.T) {
	p := randomModel(t, Spec{20, 8, 1}, 1)
	for _, temperature := range []float64{0, -1, math.NaN()} {
		if _, err := NewScorer(p, temperature, nil); err == nil || !strings.Contains(err.Error(), "must be above 0") {
			t.Errorf("temperature %v: error %v", temperature, err)
		}
	}
	s, err := NewScorer(p, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Score(&model.Batch{}); err == nil || !strings.Contains(err.Error(), "0 prompts, 0 completions") {
		t.Errorf("an empty batch: error %v", err)
	}
	if m, err := s.Score(&model.Batch{Prompts: [][]int{{1}}, Rows: []model.Row{{Prompt: 0, Tokens: []int{1}}}}); err != nil || m.B != 1 || m.T != 1 {
		t.Errorf("after an error: %+v, %v", m, err)
	}
}

// What a call allocates does not grow with the batch.
func TestScorerAllocatesAConstant(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 32, 2}, 1)
	pool := kernel.NewPool(1)
	defer pool.Close()
	allocations := func(b *model.Batch) float64 {
		s, err := NewScorer(p, 1, pool)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return testing.AllocsPerRun(5, func() {
			if _, err := s.Score(b); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := allocations(fixedBatch(1, 1, 2, 2)), allocations(fixedBatch(20, 32, 20, 20))
	// Under the race detector sync.Pool, which Gorgonia uses, drops at random. The
	// large batch has 640 rows.
	if large > small+600 || large > 800 {
		t.Errorf("a small batch makes %v allocations, a large one %v", small, large)
	}
}

// BenchmarkScore is what a reference policy costs: the batch of
// BenchmarkUpdate, forward only.
func BenchmarkScore(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			pool := kernel.NewPool(threads)
			defer pool.Close()
			s, err := NewScorer(randomModel(b, Spec{tokenizer.VocabSize, 64, 2}, 1), 1, pool)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			batch := fixedBatch(32, 8, 40, 25)
			score := func() {
				if _, err := s.Score(batch); err != nil {
					b.Fatal(err)
				}
			}
			score() // builds the graph
			b.ReportAllocs()
			for b.Loop() {
				score()
			}
		})
	}
}
