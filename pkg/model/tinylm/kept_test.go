package tinylm_test

import (
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

// cut samples from a part of the vocabulary, with the log-probabilities of the part.
var cut = model.Sampling{Temperature: 0.8, TopP: 0.9, TopK: 30, MinTokens: 5, MaxTokens: 20, Restricted: true}

// cutBatch is a batch of completions sampled with opt, and the completions.
func cutBatch(t *testing.T, p *tinylm.Weights, prompts, group int, opt model.Sampling) (*model.Batch, []model.Completion) {
	t.Helper()
	b := &model.Batch{Prompts: tinylmtest.Prompts(prompts, 12)}
	out := tinylmtest.Sample(t, p, 2, b.Prompts, group, opt)
	for i, x := range out {
		b.Rows = append(b.Rows, model.Row{Prompt: i / group, Tokens: x.Tokens, Kept: x.Kept})
	}
	return b, out
}

// Restricted log-probabilities have the same bits in sampler, scorer and learner, for any number of
// threads and in any cut into micro-batches.
func TestRestrictedSamplerIsTheLearner(t *testing.T) {
	onlyMinimum := model.Sampling{Temperature: 1, TopP: 1, MinTokens: 3, MaxTokens: 20, Restricted: true}
	for _, opt := range []model.Sampling{cut, onlyMinimum} {
		p := tinylmtest.Weights(t, tinylmtest.Spec(32, 2), 1)
		const group = 5
		b, out := cutBatch(t, p, 40, group, opt)
		check := func(m *model.TokenMatrix, first int) {
			t.Helper()
			for i := range m.B {
				for k, lp := range out[first+i].LogProbs {
					if got := m.LogProbs[i*m.T+k]; got != float64(lp) {
						t.Fatalf("completion %d, token %d: %v, sampled %v", first+i, k, got, lp)
					}
				}
			}
		}
		for _, threads := range []int{1, 3} {
			check(tinylmtest.Score(t, p, opt.Temperature, tinylmtest.Pool(t, threads), b), 0)
		}
		l, err := tinylm.NewLearner(p, opt.Temperature, tinylmtest.Pool(t, 2))
		expect.OK(t, err)
		defer l.Close()
		for at := 0; at < len(b.Rows); at += 13 {
			part := &model.Batch{Prompts: b.Prompts, Rows: b.Rows[at:min(at+13, len(b.Rows))]}
			expect.OK(t, expect.Err(l.Accumulate(part, func(m *model.TokenMatrix) (float64, error) {
				check(m, at)
				return 0, nil
			})))
		}
	}
}

// The sampled tokens do not depend on which log-probabilities are asked for, and a restriction only
// raises them.
func TestRestrictionSamplesTheSame(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(32, 2), 1)
	full := cut
	full.Restricted = false
	_, a := cutBatch(t, p, 10, 4, cut)
	_, b := cutBatch(t, p, 10, 4, full)
	for i := range a {
		if !slices.Equal(a[i].Tokens, b[i].Tokens) || a[i].KeptMass != b[i].KeptMass || b[i].Kept != nil {
			t.Fatalf("completion %d: %+v and %+v", i, a[i], b[i])
		}
		for k := range a[i].LogProbs {
			if a[i].LogProbs[k] <= b[i].LogProbs[k] {
				t.Errorf("completion %d, token %d: %v over the part, %v over all", i, k, a[i].LogProbs[k], b[i].LogProbs[k])
			}
		}
	}
}

func TestRestrictedLearnerAgainstReferenceAndFiniteDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	w := tinylmtest.Weights(t, tinylmtest.Spec(7, 2), 1)
	b, _ := cutBatch(t, w, 3, 2, cut)
	b.Rows[2].Kept = nil // together with one that is not restricted
	tinylmtest.CheckLearner(t, tinylmtest.Pool(t, 2), w, b)
}

func TestBadRestrictionsAreRefused(t *testing.T) {
	w := tinylmtest.Weights(t, tinylmtest.Spec(7, 1), 1)
	b, _ := cutBatch(t, w, 1, 1, cut)
	b.Rows[0].Kept = b.Rows[0].Kept[1:]
	if err := b.Check(w.Vocab); err == nil {
		t.Error("a token without its set is taken")
	}
}
