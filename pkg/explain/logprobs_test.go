package explain

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

func baseModel(t *testing.T) *tinylm.Weights {
	t.Helper()
	w, err := base.Weights()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The sampler carries its state from token to token, the graph runs over all tokens at once: both
// give a completion the same log-probabilities.
func TestLogProbsAgreeWithTheSampler(t *testing.T) {
	p := baseModel(t)
	prompts := []string{"Tom has 7 pens and gets 5 more. How many?\n", "Ann has 9 cups and loses 4. How many?\n", ""}
	var ids [][]int
	for _, s := range prompts {
		ids = append(ids, tokenizer.AppendEncode([]int{tokenizer.BOS}, s))
	}
	pool := kernel.NewPool(1)
	defer pool.Close()
	completions, err := tinylm.NewSampler(p, pool).Sample(ids, 8, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 64},
		model.Draws{Stream: rng.New(1, rng.Evaluation)})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, c := range completions {
		text := tokenizer.Decode(c.Tokens)
		if !c.Ended || slices.Contains(c.Tokens, tokenizer.Unk) || slices.Contains(c.Tokens, tokenizer.Pad) || slices.Contains(c.Tokens, tokenizer.BOS) {
			continue // these tokens have no text
		}
		compared++
		got, err := LogProbs(p, prompts[i/8], text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.CompletionIDs, c.Tokens) {
			t.Fatalf("tokens %v, want %v", got.CompletionIDs, c.Tokens)
		}
		for k, want := range c.LogProbs {
			if math.Abs(got.LogProbs[k]-float64(want)) > 1e-5 {
				t.Errorf("completion %d, token %d: %v, the sampler has %v", i, k, got.LogProbs[k], want)
			}
			if h := got.Entropy[k]; !(h >= -1e-6 && h <= math.Log(tokenizer.VocabSize)) {
				t.Errorf("entropy %v", h)
			}
		}
	}
	if compared < 8 {
		t.Errorf("only %d completions were compared", compared)
	}
}

// The probabilities of all first tokens sum to 1, and their entropy is the reported one.
func TestLogProbsAreADistribution(t *testing.T) {
	p := baseModel(t)
	sum, entropy, reported := 0.0, 0.0, 0.0
	first := []string{"\n"}
	for r := rune(32); r <= 126; r++ {
		first = append(first, string(r))
	}
	first = append(first, "", "é") // <eos> alone, <unk>
	for _, s := range first {
		r, err := LogProbs(p, "Tom has 7 pens", s)
		if err != nil {
			t.Fatal(err)
		}
		q := math.Exp(r.LogProbs[0])
		sum += q
		entropy -= q * r.LogProbs[0]
		reported = r.Entropy[0]
	}
	// <pad> and <bos> can't be typed, and the model gives them almost no probability.
	if math.Abs(sum-1) > 1e-3 || math.Abs(entropy-reported) > 1e-2 {
		t.Errorf("probabilities add up to %v, entropy %v, reported %v", sum, entropy, reported)
	}
}

func TestLogProbsForms(t *testing.T) {
	p := baseModel(t)
	tests := []struct {
		name, prompt, completion string
		ids                      []int
		unknown                  int
	}{
		{"empty completion", "a", "", []int{tokenizer.EOS}, 0},
		{"newline", "a", "1\n2", []int{22, tokenizer.Newline, 23, tokenizer.EOS}, 0},
		{"no escapes", "a", `\n`, append(tokenizer.Encode(`\n`), tokenizer.EOS), 0},
		{"unknown", "é", "é", []int{tokenizer.Unk, tokenizer.EOS}, 2},
		{"not UTF-8", "a", "\xff", []int{tokenizer.Unk, tokenizer.EOS}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := LogProbs(p, tt.prompt, tt.completion)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.ids
			if !slices.Equal(r.CompletionIDs, want) || len(r.LogProbs) != len(want) || len(r.Entropy) != len(want) || r.unknown != tt.unknown {
				t.Errorf("%+v, want tokens %v", r, want)
			}
			j := asJSON(t, r).(map[string]any)
			if len(j) != 3 || j["completion_ids"] == nil || j["logprobs"] == nil || j["entropy"] == nil {
				t.Errorf("JSON %v", j)
			}
			var b strings.Builder
			if err := r.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			textHas(t, b.String(), "<eos>", "has log-probability")
		})
	}
}

func TestLogProbsRefuses(t *testing.T) {
	_, err := LogProbs(baseModel(t), strings.Repeat("a", longestText), "b")
	wantError(t, err, "explain logprobs: prompt and completion have 16387 tokens; at most 16384")
	small, err := tinylm.NewWeights(tinylm.Spec{Vocab: 20, Hidden: 8, Layers: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = LogProbs(small, "a", "b")
	wantError(t, err, "a vocabulary of 20, the tokenizer of 100")
}
