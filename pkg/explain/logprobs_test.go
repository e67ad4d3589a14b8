package explain

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/internal/randommodel"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

func baseModel(t *testing.T) *tinylm.Policy {
	t.Helper()
	w, err := base.Weights()
	expect.OK(t, err)
	pool := kernel.NewPool(1)
	t.Cleanup(pool.Close)
	return tinylm.New(w, pool)
}

// The sampler carries its state from token to token, the graph runs over all tokens at once: both
// give a completion the same log-probabilities.
func TestLogProbsAgreeWithTheSampler(t *testing.T) {
	p := baseModel(t)
	prompts := []string{"Tom has 7 pens and gets 5 more. How many?\n", "Ann has 9 cups and loses 4. How many?\n", ""}
	var ids [][]int
	for _, s := range prompts {
		ids = append(ids, append([]int{tokenizer.BOS}, tokenizer.Encode(s)...))
	}
	completions, err := p.NewSampler().Sample(ids, 8, model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 64},
		model.Draws{Stream: rng.New(1, rng.Evaluation)})
	expect.OK(t, err)
	compared := 0
	for i, c := range completions {
		text := tokenizer.Decode(c.Tokens)
		if !c.Ended || slices.Contains(c.Tokens, tokenizer.Unk) || slices.Contains(c.Tokens, tokenizer.Pad) || slices.Contains(c.Tokens, tokenizer.BOS) {
			continue // these tokens have no text
		}
		compared++
		got, err := LogProbs(p, prompts[i/8], text)
		expect.OK(t, err)
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
		expect.OK(t, err)
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
			expect.OK(t, err)
			want := tt.ids
			if !slices.Equal(r.CompletionIDs, want) || len(r.LogProbs) != len(want) || len(r.Entropy) != len(want) || r.unknown != tt.unknown {
				t.Errorf("%+v, want tokens %v", r, want)
			}
			j := asJSON(t, r).(map[string]any)
			if len(j) != 7 || j["completion_ids"] == nil || j["logprobs"] == nil || j["entropy"] == nil {
				t.Errorf("JSON %v", j)
			}
			textHas(t, textOf(t, r), "<eos>", "has log-probability")
		})
	}
}

func TestLogProbsRefuses(t *testing.T) {
	_, err := LogProbs(baseModel(t), strings.Repeat("a", longestText), "b")
	wantError(t, err, "explain logprobs: prompt and completion have 16387 tokens; at most 16384")
}

// A Hugging Face folder's texts may have special tokens, and get no end token.
func TestLogProbsOfACheckpoint(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	p, err := decoder.Open(decodertest.Folder(t), false, pool)
	expect.OK(t, err)
	end := decodertest.Vocab - 1
	r, err := LogProbs(p, "<|start|>é", "a<|end|>")
	expect.OK(t, err)
	if !slices.Equal(r.PromptIDs, []int{end - 1, 0xc3, 0xa9}) || !slices.Equal(r.CompletionIDs, []int{'a', end}) ||
		!slices.Equal(r.Tokens, []string{"a", "<|end|>"}) || len(r.LogProbs) != 2 || r.LogProbs[0] >= 0 {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct{ prompt, completion, says string }{
		{"", "a", "no start token"}, {"a", "", "the completion has no tokens"}, {strings.Repeat("a", 512), "b", "the model's context is 512"},
	} {
		_, err := LogProbs(p, tt.prompt, tt.completion)
		wantError(t, err, tt.says)
	}
}

// A model without an end token has log-probabilities. Names of tokens can't write to the terminal.
func TestLogProbsWithoutEnd(t *testing.T) {
	pool := kernel.NewPool(1)
	defer pool.Close()
	tokens := append(randommodel.TokenNames()[:256], "<a>", "<\x1b>")
	for end, says := range map[any]string{nil: "end of a completion  none", uint32(257): `end of a completion  <\x1b> (257`} {
		file := decodertest.GGUF(t, map[string]any{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eos_token_id": end})
		p, err := decoder.Open(file, false, pool)
		expect.OK(t, err)
		got, err := LogProbs(p, "a", "b<\x1b>")
		if err != nil || len(got.LogProbs) != 2 || got.Appended || (got.Special.Answer == nil) != (end == nil) {
			t.Errorf("%+v, %v", got, err)
		}
		var text strings.Builder
		if err := got.WriteText(&text); err != nil || !strings.Contains(text.String(), says) || strings.Contains(text.String(), "\x1b") {
			t.Errorf("%q, %v", text.String(), err)
		}
	}
}

// The text of SmolLM2's reference chats has the reference's ids and log-probabilities.
func TestGoldenLogProbsOfSmolLM2(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	p, err := decoder.Open(golden.SmolLM2(t), false, pool)
	expect.OK(t, err)
	var want struct {
		Model []struct {
			IDs    []int
			Prompt []float64 `json:"prompt_logps"` // of the tokens after the first
		}
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "decoder", "smollm2", "case.json"), &want)
	if len(want.Model) == 0 {
		t.Fatal("no chats")
	}
	text := func(ids []int) (s string) {
		for _, id := range ids {
			token, _ := p.Token(id)
			s += token
		}
		return s
	}
	for _, m := range want.Model {
		for _, cut := range []int{1, len(m.IDs) - 5} { // after <|im_start|>; before the end of the last turns
			r, err := LogProbs(p, text(m.IDs[:cut]), text(m.IDs[cut:]))
			expect.OK(t, err)
			if !slices.Equal(slices.Concat(r.PromptIDs, r.CompletionIDs), m.IDs) {
				t.Fatalf("ids %v and %v, want %v", r.PromptIDs, r.CompletionIDs, m.IDs)
			}
			for i, got := range r.LogProbs {
				if w := m.Prompt[cut-1+i]; math.Abs(got-w) > 2e-4*max(1, math.Abs(w)) {
					t.Errorf("token %d: log-probability %v, want %v", cut+i, got, w)
				}
			}
		}
	}
}
