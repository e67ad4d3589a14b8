// Package decodertest has helpers for tests of decoders: tiny random Llama checkpoints, and what
// transformers computed for small checkpoints and for SmolLM2, for a policy on any device.
package decodertest

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
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
	expect.OK(t, err)
	return dir
}

// GGUF writes a GGUF file with a network of the shape of [Folder], weights of 1 and the same tokenizer,
// and returns its path. Values of metadata replace those of the file or are added; nil removes one.
// They are bool, int32, uint32, float32, float64, string, []string, []int32 or []float32.
func GGUF(t testing.TB, metadata map[string]any) string {
	t.Helper()
	all := map[string]any{
		"general.architecture": "llama", "llama.block_count": uint32(1), "llama.context_length": uint32(512),
		"llama.embedding_length": uint32(16), "llama.feed_forward_length": uint32(32),
		"llama.attention.head_count": uint32(4), "llama.attention.layer_norm_rms_epsilon": float32(1e-5),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": randommodel.TokenNames(),
		"tokenizer.ggml.token_type": slices.Concat(slices.Repeat([]int32{1}, 256), []int32{3, 3}),
		"tokenizer.ggml.merges":     []string{}, "tokenizer.ggml.eos_token_id": uint32(Vocab - 1),
	}
	maps.Copy(all, metadata)
	ones := func(shape ...int) GGUFTensor {
		size := 1
		for _, d := range shape {
			size *= d
		}
		return GGUFTensor{shape, slices.Repeat([]float32{1}, size)}
	}
	tensors := map[string]GGUFTensor{"token_embd.weight": ones(Vocab, 16), "output_norm.weight": ones(16),
		"blk.0.attn_norm.weight": ones(16), "blk.0.ffn_norm.weight": ones(16), "blk.0.ffn_gate.weight": ones(32, 16),
		"blk.0.ffn_up.weight": ones(32, 16), "blk.0.ffn_down.weight": ones(16, 32)}
	for _, p := range []string{"q", "k", "v", "output"} {
		tensors["blk.0.attn_"+p+".weight"] = ones(16, 16)
	}
	return WriteGGUF(t, all, tensors)
}

// GGUFTensor is a float32 tensor, row-major.
type GGUFTensor struct {
	Shape []int
	Data  []float32
}

// WriteGGUF writes a GGUF file, and returns its path. Values of metadata are as in [GGUF].
func WriteGGUF(t testing.TB, metadata map[string]any, tensors map[string]GGUFTensor) string {
	t.Helper()
	metadata = maps.Clone(metadata)
	maps.DeleteFunc(metadata, func(_ string, v any) bool { return v == nil })
	var head, data bytes.Buffer
	head.WriteString("GGUF")
	write(&head, uint32(3), uint64(len(tensors)), uint64(len(metadata)))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		write(&head, key)
		writeValue(&head, metadata[key])
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		x := tensors[name]
		write(&head, name, uint32(len(x.Shape)))
		for _, d := range slices.Backward(x.Shape) { // the innermost dimension first
			write(&head, uint64(d))
		}
		data.WriteString(strings.Repeat("\x00", (32-data.Len()%32)%32))
		write(&head, uint32(0), uint64(data.Len()))
		write(&data, x.Data)
	}
	head.WriteString(strings.Repeat("\x00", (32-head.Len()%32)%32))
	path := filepath.Join(t.TempDir(), "model.gguf")
	expect.OK(t, os.WriteFile(path, append(head.Bytes(), data.Bytes()...), 0o644))
	return path
}

// write appends numbers, and strings after their length.
func write(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			write(b, uint64(len(s)), []byte(s))
			continue
		}
		_ = binary.Write(b, binary.LittleEndian, v) // a buffer returns no error
	}
}

// writeValue appends a value after its type.
func writeValue(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case []string:
		write(b, uint32(9), uint32(8), uint64(len(v)))
		for _, s := range v {
			write(b, s)
		}
	case []int32:
		write(b, uint32(9), uint32(5), uint64(len(v)), v)
	case []float32:
		write(b, uint32(9), uint32(6), uint64(len(v)), v)
	case uint32:
		write(b, uint32(4), v)
	case int32:
		write(b, uint32(5), v)
	case float32:
		write(b, uint32(6), v)
	case float64:
		write(b, uint32(12), v)
	case bool:
		write(b, uint32(7), v)
	case string:
		write(b, uint32(8), v)
	}
}
