package tinylmtest

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
)

// reference is an independent network in float64 that runs each sequence by
// itself. Its weights are those of a policy or, with a head of one row, of a
// critic.
type reference struct {
	hidden, layers int
	tensors        [][]float64 // in the order of Params.Tensors
}

func newReference(p *model.Params) *reference {
	r := &reference{hidden: p.Tensors()[0].Shape[1], layers: (len(p.Tensors()) - 3) / 4}
	for _, t := range p.Tensors() {
		x := make([]float64, len(t.Data))
		for i, v := range t.Data {
			x[i] = float64(v)
		}
		r.tensors = append(r.tensors, x)
	}
	return r
}

// states returns the top layer's state after each token.
func (r *reference) states(tokens []int) [][]float64 {
	h := r.hidden
	state := make([][]float64, r.layers)
	for l := range state {
		state[l] = make([]float64, h)
	}
	gi, gh := make([]float64, 3*h), make([]float64, 3*h)
	var out [][]float64
	for _, id := range tokens {
		x := r.tensors[0][id*h : (id+1)*h]
		for l := range state {
			w := r.tensors[1+4*l : 5+4*l] // W_ih, W_hh, b_ih, b_hh
			kernel.ReferenceGemm(false, true, 1, 3*h, h, x, h, w[0], h, false, gi, 3*h)
			kernel.ReferenceGemm(false, true, 1, 3*h, h, state[l], h, w[1], h, false, gh, 3*h)
			next := make([]float64, h)
			kernel.ReferenceGRUForward(1, h, gi, gh, w[2], w[3], state[l], next, nil)
			state[l], x = next, next
		}
		out = append(out, x)
	}
	return out
}

// head returns the outputs of the head for a state.
func (r *reference) head(state []float64) []float64 {
	w, b := r.tensors[len(r.tensors)-2], r.tensors[len(r.tensors)-1]
	out := slices.Clone(b)
	kernel.ReferenceGemm(false, true, 1, len(b), r.hidden, state, r.hidden, w, r.hidden, true, out, len(b))
	return out
}

// each calls f for each completion token, at its place in the (B,T) matrix, with
// the state that predicts it.
func (r *reference) each(b *model.Batch, f func(at, target int, state []float64)) {
	width := 0
	for _, row := range b.Rows {
		width = max(width, len(row.Tokens))
	}
	for i, row := range b.Rows {
		prompt := b.Prompts[row.Prompt]
		states := r.states(slices.Concat(prompt, row.Tokens))
		for k, id := range row.Tokens {
			f(i*width+k, id, states[len(prompt)+k-1])
		}
	}
}

func (r *reference) tokens(b *model.Batch, temperature float64, like *model.TokenMatrix) *model.TokenMatrix {
	n := like.B * like.T
	m := &model.TokenMatrix{B: like.B, T: like.T, LogProbs: make([]float64, n), Entropy: make([]float64, n),
		Mask:      make([]bool, n),
		DLogProbs: make([]float64, n), DEntropy: make([]float64, n)}
	r.each(b, func(at, target int, state []float64) {
		logits := r.head(state)
		if kept := b.Rows[at/like.T].Kept; kept != nil {
			for id := range logits {
				if !kept[at%like.T].Has(id) {
					logits[id] = math.Inf(-1)
				}
			}
		}
		kernel.ReferenceLogSoftmaxGather(1, len(logits), logits, 1/temperature, []int{target}, m.LogProbs[at:],
			m.Entropy[at:], make([]float64, len(logits)))
		m.Mask[at] = true
	})
	return m
}

func (r *reference) values(b *model.Batch, like *model.ValueMatrix) *model.ValueMatrix {
	n := like.B * like.T
	m := &model.ValueMatrix{B: like.B, T: like.T, Values: make([]float64, n), Mask: make([]bool, n),
		DValues: make([]float64, n)}
	r.each(b, func(at, _ int, state []float64) {
		m.Values[at], m.Mask[at] = r.head(state)[0], true
	})
	return m
}

// checkGradients compares about 40 elements of each tensor's gradient with
// central differences of loss, a function of the weights p.
func checkGradients(t *testing.T, p, grads *model.Params, loss func() float64) {
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
			if g := float64(grads.Tensors()[k].Data[i]); !Near(g, fd, 1e-3, 2e-6) {
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
		if in && !Near(got[i], want[i], 1e-5, 1e-6) {
			t.Fatalf("%s %d = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// CheckLearner compares a learner with the reference network: log-probabilities and entropies, and
// the gradients with finite differences, for a loss with a different weight for each
// log-probability and entropy.
func CheckLearner(t *testing.T, on model.Device, w *tinylm.Weights, b *model.Batch) {
	t.Helper()
	const temperature = 0.8
	n := float64(Tokens(b))
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
	l, err := tinylm.NewLearner(w, temperature, on)
	expect.OK(t, err)
	defer l.Close()
	expect.OK(t, expect.Err(l.Accumulate(b, objective)))
	Pull(t, l.Grads())
	got := Score(t, w, temperature, on, b)
	want := newReference(w.Params).tokens(b, temperature, got)
	closeTo(t, "log-probability", got.LogProbs, want.LogProbs, got.Mask, want.Mask)
	closeTo(t, "entropy", got.Entropy, want.Entropy, got.Mask, want.Mask)
	checkGradients(t, w.Params, l.Grads(), func() float64 {
		loss, err := objective(newReference(w.Params).tokens(b, temperature, got))
		expect.OK(t, err)
		return loss
	})
}

// CheckCritic does the same for a critic: a value belongs to the state that predicts the token.
func CheckCritic(t *testing.T, on model.Device, policy *tinylm.Weights, b *model.Batch) {
	t.Helper()
	c := WithHead(t, Critic(t, policy, on))
	weights := c.State().Params
	objective := Regression(Tokens(b), 0)
	got := Values(t, c, b)
	want := newReference(weights).values(b, got)
	closeTo(t, "value", got.Values, want.Values, got.Mask, want.Mask)
	Accumulate(t, c, b, objective)
	Pull(t, c.Gradients)
	checkGradients(t, weights, c.Gradients, func() float64 {
		loss, err := objective(newReference(weights).values(b, got))
		expect.OK(t, err)
		return loss
	})
}
