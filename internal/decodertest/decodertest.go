// Package decodertest writes a tiny random Llama checkpoint, for tests of what uses one.
package decodertest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/rng"
)

// Vocab is the size of the vocabulary: the bytes and two special tokens.
const Vocab = 258

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
	vocab := map[string]int{}
	next := rune(0x100)
	for b := range 256 { // byte-level BPE's alphabet
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r) {
			r, next = next, next+1
		}
		vocab[string(r)] = b
	}
	special := func(id int, content string) map[string]any {
		return map[string]any{"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	tokenizer := map[string]any{
		"version": "1.0", "added_tokens": []any{special(Vocab-2, "<|start|>"), special(Vocab-1, "<|end|>")},
		"pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
	}
	template := map[string]any{"eos_token": "<|end|>", "chat_template": "{% for m in messages %}<|start|>{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}<|start|>"}
	for name, v := range map[string]any{"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": template} {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, _ := json.Marshal(config)
	c, err := hf.ParseConfig(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []safetensors.Tensor
	names, shapes := c.Shapes()
	draw := rng.New(seed, rng.Weights)
	for k, name := range names {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = 1
			if len(shapes[name]) > 1 {
				u, v := draw.Float64(uint32(k), uint32(i), 0, 0), draw.Float64(uint32(k), uint32(i), 1, 0)
				x[i] = float32(0.3 * math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v))
			}
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: shapes[name], Data: x})
	}
	file, err := safetensors.Encode(tensors, nil)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
