package tinylm

import (
	"slices"
	"testing"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm/tokenizer"
)

// refEach calls f for each completion token with the state that predicts it, by
// an independent network in float64 that runs each sequence by itself.
func refEach(p *Weights, b *model.Batch, f func(at, target int, state []float64)) {
	width := 0
	for _, r := range b.Rows {
		width = max(width, len(r.Tokens))
	}
	for i, r := range b.Rows {
		prompt := b.Prompts[r.Prompt]
		states := refStates(p, slices.Concat(prompt, r.Tokens))
		for k, id := range r.Tokens {
			f(i*width+k, id, states[len(prompt)+k-1])
		}
	}
}

func refTokens(p *Weights, b *model.Batch, temperature float64, like *model.TokenMatrix) *model.TokenMatrix {
	n := like.B * like.T
	m := &model.TokenMatrix{B: like.B, T: like.T, LogProbs: make([]float64, n), Entropy: make([]float64, n), Mask: make([]bool, n),
		DLogProbs: make([]float64, n), DEntropy: make([]float64, n)}
	refEach(p, b, func(at, target int, state []float64) {
		m.LogProbs[at], m.Entropy[at] = refHeadRow(state, to64(p.Head), to64(p.HeadB), target, temperature)
		m.Mask[at] = true
	})
	return m
}

func refValues(p *Weights, b *model.Batch, like *model.ValueMatrix) *model.ValueMatrix {
	n := like.B * like.T
	m := &model.ValueMatrix{B: like.B, T: like.T, Values: make([]float64, n), Mask: make([]bool, n), DValues: make([]float64, n)}
	refEach(p, b, func(at, _ int, state []float64) {
		m.Values[at], m.Mask[at] = refValue(state, to64(p.Head), float64(p.HeadB[0])), true
	})
	return m
}

// checkGradients compares about 40 elements of each tensor's gradient with
// central differences of loss, a function of the weights p.
func checkGradients(t *testing.T, p *Weights, grads *model.Params, loss func() float64) {
	t.Helper()
	for k, w := range p.Tensors() {
		for i := 0; i < len(w.Data); i += 1 + len(w.Data)/40 {
			const eps = 1.0 / 1024
			old := w.Data[i]
			w.Data[i] = old + eps
			up, above := loss(), w.Data[i]
			w.Data[i] = old - eps
			down, below := loss(), w.Data[i]
			w.Data[i] = old
			fd := (up - down) / float64(above-below)
			if g := float64(grads.Tensors()[k].Data[i]); !near(g, fd, 1e-3, 2e-6) {
				t.Errorf("gradient of %s[%d] = %v, finite difference %v", w.Name, i, g, fd)
			}
		}
	}
}

func closeTo(t *testing.T, what string, got, want []float64, gotMask, mask []bool) {
	t.Helper()
	if !slices.Equal(gotMask, mask) {
		t.Fatalf("%s: another mask", what)
	}
	for i, in := range mask {
		if in && !near(got[i], want[i], 1e-5, 1e-6) {
			t.Fatalf("%s %d = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// The learner's numbers and gradients are those of the reference, for a loss
// that weighs every log-probability and every entropy by itself.
func TestLearnerAgainstReferenceAndFiniteDifferences(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	p := randomModel(t, Spec{tokenizer.VocabSize, 7, 2}, 1)
	checkLearner(t, pool, p, randomBatch(t, p, 3, 2, 6))
}

func checkLearner(t *testing.T, on model.Device, p *Weights, b *model.Batch) {
	t.Helper()
	const temperature = 0.8
	n := float64(tokensOf(b))
	objective := func(m *model.TokenMatrix) (float64, error) {
		var loss float64
		for i, in := range m.Mask {
			if in {
				x, y := float64(i%5-2)/n, float64(i%3+1)/n
				loss += x*m.LogProbs[i] + y*m.Entropy[i]
				m.DLogProbs[i], m.DEntropy[i] = x, y
			}
		}
		return loss, nil
	}
	l, err := NewLearner(p, temperature, on)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Accumulate(b, objective); err != nil {
		t.Fatal(err)
	}
	pull(t, l.Grads())
	got := scored(t, p, temperature, on, b)
	want := refTokens(p, b, temperature, got)
	closeTo(t, "log-probability", got.LogProbs, want.LogProbs, got.Mask, want.Mask)
	closeTo(t, "entropy", got.Entropy, want.Entropy, got.Mask, want.Mask)
	checkGradients(t, p, l.Grads(), func() float64 {
		loss, err := objective(refTokens(p, b, temperature, got))
		if err != nil {
			t.Fatal(err)
		}
		return loss
	})
}

// Values are those of the state that predicts the token, and the critic's
// gradients those of the whole network.
func TestCriticAgainstReferenceAndFiniteDifferences(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	policy := randomModel(t, Spec{tokenizer.VocabSize, 7, 2}, 1)
	checkCritic(t, pool, policy, randomBatch(t, policy, 3, 2, 6))
}

func checkCritic(t *testing.T, on model.Device, policy *Weights, b *model.Batch) {
	t.Helper()
	c := withHead(newCritic(t, policy, on))
	if err := c.weights.Push(); err != nil {
		t.Fatal(err)
	}
	objective := regression(tokensOf(b), 0)
	got := values(t, c, b)
	want := refValues(c.weights, b, got)
	closeTo(t, "value", got.Values, want.Values, got.Mask, want.Mask)
	accumulate(t, c, b, objective)
	pull(t, c.grads)
	checkGradients(t, c.weights, c.grads, func() float64 {
		loss, err := objective(refValues(c.weights, b, got))
		if err != nil {
			t.Fatal(err)
		}
		return loss
	})
}
