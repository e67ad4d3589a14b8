package tinylm_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

func sameTokens(a, b *model.TokenMatrix) bool {
	return a.B == b.B && a.T == b.T && slices.Equal(a.Mask, b.Mask) &&
		slices.Equal(a.LogProbs, b.LogProbs) && slices.Equal(a.Entropy, b.Entropy)
}

// The scorer has the learner's bits for any number of threads, and the sampler's numbers.
func TestScorerAgreesWithLearnerAndSampler(t *testing.T) {
	for _, c := range []struct {
		name string
		spec tinylm.Spec
		opt  model.Sampling
	}{
		{"default size", tinylmtest.Spec(64, 2), tinylmtest.Plain},
		{"one layer, odd width", tinylmtest.Spec(13, 1), tinylmtest.Plain},
		{"three layers", tinylmtest.Spec(24, 3), tinylmtest.Plain},
		{"temperature 0.6", tinylmtest.Spec(64, 2), model.Sampling{Temperature: 0.6, TopP: 1, MaxTokens: 20}},
		{"top-p, top-k and a minimum", tinylmtest.Spec(32, 2), model.Sampling{Temperature: 1.3, TopP: 0.9, TopK: 30, MinTokens: 5, MaxTokens: 20}},
		{"one token each", tinylmtest.Spec(16, 1), model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tinylmtest.Weights(t, c.spec, 1)
			b := &model.Batch{Prompts: tinylmtest.Prompts(40, 12)}
			const group = 5 // more than one chunk of the head, and of sequences
			completions := tinylmtest.Sample(t, p, 2, b.Prompts, group, c.opt)
			for i, x := range completions {
				b.Rows = append(b.Rows, model.Row{Prompt: i / group, Tokens: x.Tokens})
			}
			got := tinylmtest.Score(t, p, c.opt.Temperature, tinylmtest.Pool(t, 2), b)
			if got.DLogProbs != nil || got.DEntropy != nil {
				t.Error("gradients are allocated but never read")
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
				if !sameTokens(tinylmtest.Score(t, p, c.opt.Temperature, tinylmtest.Pool(t, n), b), got) {
					t.Errorf("the bits differ between 2 and %d threads", n)
				}
			}
			pool := tinylmtest.Pool(t, 2)
			l, err := tinylm.NewLearner(p, c.opt.Temperature, pool)
			expect.OK(t, err)
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

// A row's bits depend neither on the rest of its batch nor on earlier batches, and new weights take
// effect immediately.
func TestScorerBatchesAreIndependent(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(24, 2), 1)
	b := tinylmtest.Batch(t, p, 6, 4, 24)
	want := tinylmtest.Score(t, p, 1, tinylmtest.Pool(t, 1), b)
	pool := tinylmtest.Pool(t, 2)
	s, err := tinylm.NewScorer(p, 1, pool)
	expect.OK(t, err)
	defer s.Close()
	score := func(b *model.Batch) *model.TokenMatrix {
		t.Helper()
		m, err := s.Score(b)
		expect.OK(t, err)
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
	score(tinylmtest.Batch(t, p, 30, 8, 40))
	if !sameTokens(score(b), want) {
		t.Error("after a larger batch the bits differ")
	}
	expect.OK(t, s.Close())
	if !sameTokens(score(b), want) {
		t.Error("after Close the bits differ")
	}
	expect.OK(t, model.MixInto(p.Params, tinylmtest.Weights(t, p.Spec, 2).Params, 0.5))
	if got := score(b); sameTokens(got, want) || !sameTokens(got, tinylmtest.Score(t, p, 1, tinylmtest.Pool(t, 1), b)) {
		t.Error("the scorer does not see the new weights")
	}
}

func TestScorerRefuses(t *testing.T) {
	p := tinylmtest.Weights(t, tinylm.Spec{20, 8, 1}, 1)
	for _, temperature := range []float64{0, -1, math.NaN()} {
		if _, err := tinylm.NewScorer(p, temperature, nil); err == nil || !strings.Contains(err.Error(), "must be above 0") {
			t.Errorf("temperature %v: error %v", temperature, err)
		}
	}
	s, err := tinylm.NewScorer(p, 1, nil)
	expect.OK(t, err)
	defer s.Close()
	expect.Error(t, expect.Err(s.Score(&model.Batch{})), "0 prompts, 0 completions")
	if m, err := s.Score(&model.Batch{Prompts: [][]int{{1}}, Rows: []model.Row{{Prompt: 0, Tokens: []int{1}}}}); err != nil || m.B != 1 || m.T != 1 {
		t.Errorf("after an error: %+v, %v", m, err)
	}
}

// Allocations per call do not grow with the batch.
func TestScorerAllocatesAConstant(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(32, 2), 1)
	pool := tinylmtest.Pool(t, 1)
	allocations := func(b *model.Batch) float64 {
		s, err := tinylm.NewScorer(p, 1, pool)
		expect.OK(t, err)
		defer s.Close()
		return testing.AllocsPerRun(5, func() {
			expect.OK(t, expect.Err(s.Score(b)))
		})
	}
	small, large := allocations(tinylmtest.Batch(t, p, 1, 1, 2)), allocations(tinylmtest.Batch(t, p, 20, 32, 20))
	// Under the race detector sync.Pool, which Gorgonia uses, drops at random. The
	// large batch has 640 rows.
	if large > small+600 || large > 800 {
		t.Errorf("a small batch makes %v allocations, a large one %v", small, large)
	}
}
