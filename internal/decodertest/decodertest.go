// Package decodertest has helpers for tests of decoders: tiny random Llama checkpoints, and what
// transformers computed for small checkpoints and for SmolLM2, for a policy on any device.
package decodertest

import (
	"math"
	"strings"
	"testing"

	"grpo/internal/randommodel"
	"grpo/pkg/rng"
)

// Vocab is the size of the vocabulary.
const Vocab = randommodel.Tokens

// Folder writes a Hugging Face folder with a network of a few thousand parameters, a
// tokenizer of bytes and a chat template, and returns its path.
func Folder(t testing.TB) string {
	t.Helper()
	return Seeded(t, 7, 32)
}

// Seeded is [Folder] with other weights and another width of the feed-forward network.
func Seeded(t testing.TB, seed uint64, width int) string {
	t.Helper()
	dir := t.TempDir()
	config := map[string]any{
		"model_type": "llama", "vocab_size": Vocab, "hidden_size": 16, "intermediate_size": width, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
		"hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": Vocab - 1, "rope_theta": 10000,
	}
	draw := rng.New(seed, rng.Weights)
	err := randommodel.Write(dir, config, "F32", func(k int, name string, x []float32) {
		for i := range x {
			x[i] = 1
			if !strings.Contains(name, "norm") {
				u, v := draw.Float64(uint32(k), uint32(i), 0, 0), draw.Float64(uint32(k), uint32(i), 1, 0)
				x[i] = float32(0.3 * math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
