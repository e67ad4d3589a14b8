package decodertest

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
)

// Chat is a conversation with what transformers computes for it.
type Chat struct {
	IDs    []int
	Prompt []float64 `json:"prompt_logps"`
	Greedy []int
}

// Chats calls f with each chat of a folder of the reference data and its log-probabilities by p, and checks
// its greedy continuation.
func Chats(t *testing.T, p model.Policy, folder string, f func(m Chat, logp []float64)) {
	t.Helper()
	var want struct{ Model []Chat }
	golden.ReadJSON(t, golden.Path(t, "golden", folder, "case.json"), &want, "chat", "tokenizer", "transformers",
		"greedy_margins", "greedy_text", "last_logsumexp", "last_top5", "stops_at_eos", "text")
	s := p.NewSampler()
	for _, m := range want.Model {
		sc, err := p.NewScorer(1)
		expect.OK(t, err)
		got, err := sc.Score(&model.Batch{Prompts: [][]int{m.IDs[:1]}, Rows: []model.Row{{Tokens: m.IDs[1:]}}})
		expect.OK(t, err)
		f(m, got.LogProbs)
		out, err := s.Sample([][]int{m.IDs}, 1, model.Sampling{Greedy: true, TopP: 1, MaxTokens: len(m.Greedy)},
			model.Draws{})
		expect.OK(t, err)
		if n := len(out[0].Tokens); !slices.Equal(out[0].Tokens, m.Greedy[:n]) || n < len(m.Greedy) && !out[0].Ended {
			t.Errorf("greedy %v, want %v", out[0].Tokens, m.Greedy)
		}
	}
}

// CheckChats compares log-probabilities of the chats of a folder and greedy continuations of p, in float32,
// with those of transformers.
func CheckChats(t *testing.T, p model.Policy, folder string) {
	t.Helper()
	Chats(t, p, folder, func(m Chat, logp []float64) {
		for i, w := range m.Prompt {
			if math.Abs(logp[i]-w) > 2e-4*max(1, math.Abs(w)) {
				t.Errorf("log-probability %d is %v, want %v", i, logp[i], w)
			}
		}
	})
}

// CheckGradient compares the gradient of a policy-gradient step of p, which is SmolLM2, with prompts
// shared, with that of transformers without sharing.
func CheckGradient(t *testing.T, p model.Policy) {
	t.Helper()
	var want struct {
		Rows []struct {
			Prompt     []int `json:"prompt_ids"`
			Completion []int `json:"completion_ids"`
			Advantage  float64
			Adv        float64
		}
		Loss    float64
		Total   float64            `json:"total_grad_norm"`
		Norms   map[string]float64 `json:"grad_norms"`
		Entries map[string][][2]float64
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "decoder", "smollm2", "grad.json"), &want, "formula", "logps")
	batch, adv, total := &model.Batch{}, []float64{}, 0
	for _, r := range want.Rows {
		i := slices.IndexFunc(batch.Prompts, func(ids []int) bool { return slices.Equal(ids, r.Prompt) })
		if i < 0 {
			i = len(batch.Prompts)
			batch.Prompts = append(batch.Prompts, r.Prompt)
		}
		batch.Rows = append(batch.Rows, model.Row{Prompt: i, Tokens: r.Completion})
		adv = append(adv, r.Advantage+r.Adv)
		total += len(r.Completion)
	}
	l, err := p.NewLearner(1, false)
	expect.OK(t, err)
	loss, err := l.Accumulate(batch, func(m *model.TokenMatrix) (float64, error) {
		loss := 0.0
		for i, ok := range m.Mask {
			if ok {
				a := adv[i/m.T] / float64(total)
				loss -= a * m.LogProbs[i]
				m.DLogProbs[i] = -a
			}
		}
		return loss, nil
	})
	expect.OK(t, err)
	if math.Abs(loss-want.Loss) > 1e-4*math.Abs(want.Loss) {
		t.Errorf("loss %v, want %v", loss, want.Loss)
	}
	expect.OK(t, l.Grads().Pull())
	all := 0.0
	for _, x := range l.Grads().Tensors() {
		square := 0.0
		for _, g := range x.Data {
			square += float64(g) * float64(g)
		}
		all += square
		if w, ok := want.Norms[x.Name]; !ok || math.Abs(math.Sqrt(square)-w) > 1e-3*w {
			t.Errorf("gradient of %s has norm %v, want %v", x.Name, math.Sqrt(square), w)
		}
	}
	if math.Abs(math.Sqrt(all)-want.Total) > 1e-4*want.Total {
		t.Errorf("the gradient has norm %v, want %v", math.Sqrt(all), want.Total)
	}
}
