package supervised

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rl"
)

// wordTokenizer is that of the reference data: token N is the word "wN".
type wordTokenizer struct{}

func (wordTokenizer) Start() []int { return nil }
func (wordTokenizer) Encode(text string) (ids []int) {
	for _, word := range strings.Fields(text) {
		var id int
		if _, err := fmt.Sscanf(word, "w%d", &id); err != nil {
			panic(err)
		}
		ids = append(ids, id)
	}
	return ids
}
func (wordTokenizer) Decode([]int) string              { return "" }
func (wordTokenizer) End() []int                       { return []int{2} }
func (wordTokenizer) Special() (s model.SpecialTokens) { return s }
func (wordTokenizer) Knows(string) bool                { return true }
func (t wordTokenizer) EncodeAround(before, text, after string) []int {
	return t.Encode(before + text + after)
}
func (t wordTokenizer) EncodeAfter(_ []int, template, text string) []int {
	return t.Encode(template + text)
}
func (wordTokenizer) Token(int) (string, bool) { return "", false }

// trained is the weight of a token with a label: -100 is not in the loss.
func trained[I int | int32](label I) float64 {
	if label < 0 {
		return 0
	}
	return 1
}

// Tokens, weights, loss and gradients are those of TRL's SFTTrainer.
func TestGoldenSFT(t *testing.T) {
	var file struct {
		Cases []struct {
			Kind           string
			CompletionOnly *bool  `json:"completion_only_loss"`
			LossType       string `json:"loss_type"`
			MaxLength      *int   `json:"max_length"`
			Model          string
			SourceRows     []struct{ Prompt, Completion, Text string } `json:"source_rows"`
			Rows           []struct {
				InputIDs []int `json:"input_ids"`
				Labels   []int
			}
			Loss     float64
			GradNorm float64 `json:"grad_norm"`
			Grads    decodertest.Gradients
		}
	}
	root := golden.Path(t, "golden", "trl2")
	golden.ReadJSON(t, filepath.Join(root, "sft.json"), &file, "metrics", "num_items_in_batch", "num_label_tokens_shifted", "per_token_logps",
		"train_grad_norm", "train_loss")
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range file.Cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			weight := 1.0
			if c.CompletionOnly != nil && *c.CompletionOnly {
				weight = 0
			}
			// The same texts through tokenize: the prompt is the row's prompt if it has no weight.
			var rows, fromText []sftRow
			for _, s := range c.SourceRows {
				if c.Kind != "prompt_completion" {
					break
				}
				own := tokenize(wordTokenizer{}, gsm8k.Template{}, gsm8k.Example{Question: s.Prompt, Completion: s.Completion, Ended: true}, 2, weight)
				if c.MaxLength != nil {
					var left bool
					if own, left = own.cut(*c.MaxLength); !left {
						continue
					}
				}
				fromText = append(fromText, own)
			}
			if c.Kind == "prompt_completion" && len(fromText) != len(c.Rows) {
				t.Fatalf("%d rows, want %d", len(fromText), len(c.Rows))
			}
			for k, r := range c.Rows {
				row := sftRow{prompt: r.InputIDs[:1], tokens: r.InputIDs[1:]}
				for _, label := range r.Labels[1:] {
					row.weights = append(row.weights, trained(label))
				}
				rows = append(rows, row)
				if c.Kind != "prompt_completion" {
					continue
				}
				own := fromText[k]
				if got := slices.Concat(own.prompt, own.tokens); !slices.Equal(got, r.InputIDs) {
					t.Errorf("row %d: tokens %v, want %v", k, got, r.InputIDs)
				}
				for j, w := range own.weights {
					if w != trained(r.Labels[len(own.prompt)+j]) {
						t.Errorf("row %d: weights %v, labels %v", k, own.weights, r.Labels)
						break
					}
				}
				rows[k] = own
			}
			pool := kernel.NewPool(2)
			defer pool.Close()
			p, err := decoder.Open(decodertest.WithTokenizer(t, filepath.Join(root, c.Model), 100), false, pool)
			expect.OK(t, err)
			learner, err := p.NewLearner(1, false)
			expect.OK(t, err)
			defer learner.Close()
			batch, weights := sftBatch(rows)
			loss, err := learner.Accumulate(batch, tokenLoss(rl.SupervisedLoss(c.LossType), weights))
			expect.OK(t, err)
			if math.Abs(loss-c.Loss) > 1e-4*max(1, math.Abs(c.Loss)) {
				t.Errorf("loss %v, want %v", loss, c.Loss)
			}
			c.Grads.Check(t, learner.Grads(), c.GradNorm)
		})
	}
}
