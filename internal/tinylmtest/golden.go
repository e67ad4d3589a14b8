package tinylmtest

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
)

// TorchCase is a TinyLM training case computed by PyTorch (float64): see golden/README.md.
type TorchCase struct {
	VocabSize     int         `json:"vocab_size"`
	HiddenSize    int         `json:"hidden_size"`
	NumLayers     int         `json:"num_layers"`
	GroupSize     int         `json:"group_size"`
	Tokens        [][]int     `json:"tokens"`
	Lengths       []int       `json:"lengths"`
	PromptLengths []int       `json:"prompt_lengths"`
	Mask          [][]float64 `json:"completion_mask"`
	Advantages    []float64   `json:"advantages"`
	Temperature   float64     `json:"temperature"`
	Optimizer     struct {
		LR          float64    `json:"lr"`
		Betas       [2]float64 `json:"betas"`
		WeightDecay float64    `json:"weight_decay"`
		Eps         float64    `json:"eps"`
		MaxGradNorm float64    `json:"max_grad_norm"`
	} `json:"optimizer"`
	Weights map[string]json.RawMessage `json:"weights"`
	Steps   []struct {
		Loss     float64                    `json:"loss"`
		GradNorm float64                    `json:"grad_norm"`
		LogProbs [][]float64                `json:"logprobs"`
		Entropy  [][]float64                `json:"entropy"`
		Grads    map[string]json.RawMessage `json:"grads"`
	} `json:"steps"`
	After map[string]json.RawMessage `json:"weights_after_3_steps"`
}

func flatten(t *testing.T, raw json.RawMessage) []float64 {
	t.Helper()
	var one []float64
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var two [][]float64
	expect.OK(t, json.Unmarshal(raw, &two))
	return slices.Concat(two...)
}

func (c *TorchCase) params(t *testing.T) *tinylm.Weights {
	p, err := tinylm.NewWeights(tinylm.Spec{Vocab: c.VocabSize, Hidden: c.HiddenSize, Layers: c.NumLayers})
	expect.OK(t, err)
	for _, w := range p.Tensors() {
		for i, v := range flatten(t, c.Weights[w.Name]) {
			w.Data[i] = float32(v)
		}
	}
	return p
}

// batch builds the batch; shared gives each group's prompt once instead of once per row.
func (c *TorchCase) batch(shared bool) *model.Batch {
	b := &model.Batch{}
	for i, tokens := range c.Tokens {
		if !shared || i%c.GroupSize == 0 {
			b.Prompts = append(b.Prompts, tokens[:c.PromptLengths[i]])
		}
		b.Rows = append(b.Rows, model.Row{Prompt: len(b.Prompts) - 1,
			Tokens: tokens[c.PromptLengths[i]:c.Lengths[i]]})
	}
	return b
}

// objective is the file's loss: the mean over rows of masked_mean(-A·logp).
func (c *TorchCase) objective(total int, advantages []float64) model.Objective {
	return func(m *model.TokenMatrix) (float64, error) {
		var loss float64
		for i := range m.B {
			var n float64
			for t := range m.T {
				if m.Mask[i*m.T+t] {
					n++
				}
			}
			for t := range m.T {
				if at := i*m.T + t; m.Mask[at] {
					loss -= advantages[i] * m.LogProbs[at] / n / float64(total)
					m.DLogProbs[at] = -advantages[i] / n / float64(total)
				}
			}
		}
		return loss, nil
	}
}

// ReadTorchCase reads the file of the reference data; without it the test is skipped with a
// message.
func ReadTorchCase(t *testing.T) *TorchCase {
	t.Helper()
	c := &TorchCase{}
	golden.ReadJSON(t, golden.Path(t, "golden", "tinylm_torch.json"), c, "loss", "name")
	if c.Temperature != 1 {
		t.Fatalf("the case has temperature %v; only 1 is computed", c.Temperature)
	}
	return c
}

// Tolerance allows a distance of Atol + Rtol·|want|.
type Tolerance struct{ Rtol, Atol float64 }

// reached compares within a tolerance and keeps the largest error as a fraction of the allowed one.
type reached struct {
	Tolerance
	worst float64
}

func (e *reached) near(got, want float64) bool {
	share := math.Abs(got-want) / (e.Atol + e.Rtol*math.Abs(want))
	e.worst = max(e.worst, share)
	return share <= 1
}

// Run makes the file's steps on a device. shared gives each group's prompt once instead of once for
// each row; micro is the number of micro-batches. Losses and gradients must agree with the file
// within steps, the final weights within weights.
func (c *TorchCase) Run(t *testing.T, on model.Device, shared bool, micro int, steps, weights Tolerance) {
	e, after := &reached{Tolerance: steps}, &reached{Tolerance: weights}
	p := c.params(t)
	l, err := tinylm.NewLearner(p, 1, on)
	expect.OK(t, err)
	defer l.Close()
	o := c.Optimizer
	opt := model.NewAdamW(p.Params, model.AdamWOptions{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps,
		WeightDecay: o.WeightDecay})
	full := c.batch(shared)
	for k, s := range c.Steps {
		l.ZeroGrads()
		var loss float64
		size := len(full.Rows) / micro
		for at := 0; at < len(full.Rows); at += size {
			rows := full.Rows[at : at+size]
			b := &model.Batch{}
			seen := map[int]int{}
			for _, r := range rows {
				if _, ok := seen[r.Prompt]; !ok {
					seen[r.Prompt] = len(b.Prompts)
					b.Prompts = append(b.Prompts, full.Prompts[r.Prompt])
				}
				b.Rows = append(b.Rows, model.Row{Prompt: seen[r.Prompt], Tokens: r.Tokens})
			}
			var got *model.TokenMatrix
			objective := c.objective(len(full.Rows), c.Advantages[at:at+size])
			part, err := l.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
				got = m
				return objective(m)
			})
			expect.OK(t, err)
			loss += part
			for i, r := range rows {
				for j := range r.Tokens {
					col := c.PromptLengths[at+i] + j - 1 // the file's column t predicts token t+1
					if x, want := got.LogProbs[i*got.T+j], s.LogProbs[at+i][col]; !e.near(x, want) {
						t.Errorf("step %d: log-prob of row %d, token %d = %v, want %v", k, at+i, col, x, want)
					}
					if x, want := got.Entropy[i*got.T+j], s.Entropy[at+i][col]; !e.near(x, want) {
						t.Errorf("step %d: entropy of row %d, token %d = %v, want %v", k, at+i, col, x, want)
					}
				}
			}
		}
		if !e.near(loss, s.Loss) {
			t.Errorf("step %d: loss %v, want %v", k, loss, s.Loss)
		}
		Pull(t, l.Grads())
		for _, g := range l.Grads().Tensors() {
			if len(s.Grads) == 0 {
				break // the file has the gradients of the first step only
			}
			for i, want := range flatten(t, s.Grads[g.Name]) {
				if !e.near(float64(g.Data[i]), want) {
					t.Errorf("step %d: gradient of %s[%d] = %v, want %v", k, g.Name, i, g.Data[i], want)
				}
			}
		}
		if norm, err := opt.Step(p.Params, l.Grads(), o.LR, o.MaxGradNorm); err != nil || !e.near(norm, s.GradNorm) {
			t.Errorf("step %d: gradient norm %v, %v, want %v", k, norm, err, s.GradNorm)
		}
	}
	Pull(t, p.Params)
	for _, w := range p.Tensors() {
		for i, want := range flatten(t, c.After[w.Name]) {
			if !after.near(float64(w.Data[i]), want) {
				t.Errorf("after 3 steps: %s[%d] = %v, want %v", w.Name, i, w.Data[i], want)
			}
		}
	}
	t.Logf("reached: %.2g of what rtol %g and atol %g allow in a step, %.2g of what rtol %g and atol %g allow in the "+
		"weights after three",
		e.worst, e.Rtol, e.Atol, after.worst, after.Rtol, after.Atol)
}
