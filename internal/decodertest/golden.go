package decodertest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// Case is two sequences with what transformers computed for them.
type Case struct {
	InputIDs       [][]int32   `json:"input_ids"`
	Attention      [][]int     `json:"attention_mask"`
	CompletionMask [][]float64 `json:"completion_mask"`
	Advantages     []float64
	OldLogps       [][]float64 `json:"old_logps"`
	Logits         [][][]float64
	Logps          [][]float64
	Greedy         [][]int
	PG, Clip       struct {
		Loss  float64
		Grads map[string]struct {
			Norm    float64
			Entries [][2]float64
		}
	}
}

// Folders calls f for each checkpoint of the reference data.
func Folders(t *testing.T, f func(t *testing.T, checkpoint *hf.Checkpoint, c *Case)) {
	var files []string
	for _, pattern := range []string{"decoder/*", "decoder3/smollm3-*", "decoder3/olmo2-*",
		"decoder3/gemma3-tied-*"} {
		found, err := filepath.Glob(filepath.Join(golden.Path(t, "golden"), pattern, "config.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no folders %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			checkpoint, err := hf.OpenWeights(dir)
			expect.OK(t, err)
			var c Case
			golden.ReadJSON(t, filepath.Join(dir, "case.json"), &c, "adamw", "arch", "formula", "fp64",
				"greedy_min_margin", "shape", "seed", "torch", "transformers")
			f(t, checkpoint, &c)
		})
	}
}

// Compare fails unless a tensor has a norm, and at some indexes the numbers of entries, (index,
// number), but for tolerance times the largest.
func Compare(t *testing.T, what string, got []float32, norm float64, entries [][2]float64, tolerance float64) {
	t.Helper()
	square, largest := 0.0, 0.0
	for _, g := range got {
		square += float64(g) * float64(g)
		largest = max(largest, math.Abs(float64(g)))
	}
	if n := math.Sqrt(square); math.Abs(n-norm) > 1e-4*norm {
		t.Errorf("%s has norm %v, want %v", what, n, norm)
	}
	for _, e := range entries {
		if d := float64(got[int(e[0])]) - e[1]; math.Abs(d) > tolerance*largest {
			t.Errorf("%s: element %v is off by %v", what, e[0], d)
		}
	}
}

// Sequences are the tokens of the sequences without padding.
func (c *Case) Sequences() [][]int32 {
	out := make([][]int32, len(c.InputIDs))
	for i, ids := range c.InputIDs {
		n := 0
		for _, m := range c.Attention[i] {
			n += m
		}
		out[i] = ids[:n]
	}
	return out
}

// Batch is the sequences, each a completion of its first token.
func (c *Case) Batch() *model.Batch {
	b := &model.Batch{}
	for i, ids := range c.Sequences() {
		row := model.Row{Prompt: i}
		for _, id := range ids[1:] {
			row.Tokens = append(row.Tokens, int(id))
		}
		b.Prompts, b.Rows = append(b.Prompts, []int{int(ids[0])}), append(b.Rows, row)
	}
	return b
}

// Check compares log-probabilities, and the loss and the gradient of every parameter for a
// policy-gradient and a clipped loss, with those of transformers.
func (c *Case) Check(t *testing.T, p model.Policy) {
	t.Helper()
	learner, err := p.NewLearner(1, false)
	expect.OK(t, err)
	defer learner.Close()
	total := 0.0
	for b := range c.InputIDs {
		for _, m := range c.CompletionMask[b] {
			total += m
		}
	}
	for name, loss := range map[string]func(logp, old, adv float64) (value, grad float64){
		"pg": func(logp, _, adv float64) (float64, float64) { return adv * logp, adv },
		"clip": func(logp, old, adv float64) (float64, float64) {
			r := math.Exp(logp - old)
			free, clipped := r*adv, max(0.8, min(1.2, r))*adv
			if free <= clipped {
				return free, free
			}
			return clipped, 0
		},
	} {
		learner.ZeroGrads()
		got, err := learner.Accumulate(c.Batch(), func(m *model.TokenMatrix) (float64, error) {
			sum := 0.0
			for b := range m.B {
				for i := range m.T {
					if at := b*m.T + i; m.Mask[at] {
						if d := m.LogProbs[at] - c.Logps[b][i]; math.Abs(d) > 1e-4 {
							t.Fatalf("sequence %d: log-probability %d is off by %v", b, i, d)
						}
						v, g := loss(m.LogProbs[at], c.OldLogps[b][i], c.Advantages[b])
						sum -= c.CompletionMask[b][i] * v / total
						m.DLogProbs[at] = -c.CompletionMask[b][i] * g / total
					}
				}
			}
			return sum, nil
		})
		expect.OK(t, err)
		ref := c.PG
		if name == "clip" {
			ref = c.Clip
		}
		if math.Abs(got-ref.Loss) > 1e-5*max(1, math.Abs(ref.Loss)) {
			t.Errorf("%s: loss %v, want %v", name, got, ref.Loss)
		}
		expect.OK(t, learner.Grads().Pull())
		named := map[string][]float32{}
		for _, x := range learner.Grads().Tensors() {
			named[x.Name] = x.Data
		}
		if len(ref.Grads) != len(named) {
			t.Errorf("%d gradients, want %d", len(named), len(ref.Grads))
		}
		for param, w := range ref.Grads {
			Compare(t, name+": gradient of "+param, named[param], w.Norm, w.Entries, 2e-4)
		}
	}
}

// Gradients are a norm and some entries of a tensor's gradient.
type Gradients map[string]struct {
	Norm float64
	At   [][2]float64
}

// Check compares gradients with the tolerances of the reference data: the norm of all tensors, and
// single entries relative to the tensor's largest.
func (want Gradients) Check(t *testing.T, grads *model.Params, norm float64) {
	t.Helper()
	var got float64
	for _, g := range grads.Flat {
		got += float64(g) * float64(g)
	}
	if got = math.Sqrt(got); math.Abs(got-norm) > 1e-4*norm {
		t.Errorf("gradient norm %v, want %v", got, norm)
	}
	found := 0
	for _, tensor := range grads.Tensors() {
		w, ok := want[tensor.Name]
		if !ok {
			continue
		}
		found++
		largest := 0.0
		for _, v := range w.At {
			largest = max(largest, math.Abs(v[1]))
		}
		for _, v := range w.At {
			if got := float64(tensor.Data[int(v[0])]); math.Abs(got-v[1]) > 2e-4*largest {
				t.Errorf("%s at %v: %v, want %v", tensor.Name, v[0], got, v[1])
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d tensors found", found, len(want))
	}
}

// WithTokenizer copies a folder of weights and adds a tokenizer, which opening needs.
func WithTokenizer(t testing.TB, from string, vocab int) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		expect.OK(t, err)
	}
	tokens := map[string]int{}
	for i := range vocab {
		tokens[string(rune('!'+i%94))+strings.Repeat("!", i/94)] = i
	}
	data, err := json.Marshal(map[string]any{
		"pre_tokenizer": map[string]any{"type": "ByteLevel"}, "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": tokens, "merges": []any{}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644)
	}
	expect.OK(t, err)
	return dir
}
