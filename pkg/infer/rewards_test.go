package infer

import (
	"fmt"
	"slices"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/policy"
)

// A text in place of a completion has the tokens that a completion has: a SentencePiece-style tokenizer puts no space
// between it and its prompt.
func TestRewardInputFollowsThePrompt(t *testing.T) {
	const ab, end = 4, 2
	c := config.Default()
	tokens, types := []string{"<unk>", "<s>", "</s>", "▁", "ab", "a", "b", "▁a"}, []int32{2, 3, 3, 1, 1, 1, 1, 1}
	for b := range 128 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	c.Model.Init = decodertest.GGUF(t, map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": nil, "tokenizer.ggml.merges": nil,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(end),
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": make([]float32, len(tokens)),
	})
	m, err := policy.Resolve(c.Model, c.Train.LoRA)
	expect.OK(t, err)
	template, err := m.Template(c.Data)
	expect.OK(t, err)
	in := RewardInput(m, c, template, gsm8k.Problem{Question: "a b"}, "ab", true)
	if want := []int{ab, end}; !slices.Equal(in.TokenIDs, want) || in.Tokens != 2 {
		t.Errorf("tokens %v (%d), want %v", in.TokenIDs, in.Tokens, want)
	}
}
