// Package randommodel writes Hugging Face folders of networks with given weights, for tests and for
// measurements that need a network of some size but no knowledge in it.
package randommodel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
)

// Tokens is the size of the tokenizer: the bytes and two special tokens. The vocabulary of the network
// may be larger.
const Tokens = 258

// End is the end token.
const End = Tokens - 1

// Write writes a folder: config.json, a tokenizer of bytes, a chat template, and weights of a type of
// safetensors (F32 or BF16), which fill makes one tensor at a time; k counts them.
func Write(dir string, config map[string]any, dtype string, fill func(k int, name string, x []float32)) error {
	files := map[string]any{"config.json": config, "tokenizer.json": tokenizer(), "tokenizer_config.json": template()}
	for name, v := range files {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write a random network: %w", err)
		}
	}
	data, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("write a random network: %w", err)
	}
	c, err := hf.ParseConfig(data, nil)
	if err != nil {
		return fmt.Errorf("write a random network: %w", err)
	}
	names, shapes := c.Shapes()
	tensors := make([]safetensors.Tensor, len(names))
	for k, name := range names {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		tensors[k] = safetensors.Tensor{Name: name, Dtype: dtype, Shape: shapes[name], Load: func() ([]float32, error) {
			x := make([]float32, n)
			fill(k, name, x)
			return x, nil
		}}
	}
	file, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return fmt.Errorf("write a random network: %w", err)
	}
	if err = safetensors.Write(file, tensors, nil); err != nil {
		_ = file.Close()
		return fmt.Errorf("write a random network: %w", err)
	}
	return file.Close()
}

// TokenNames are the tokens by their ids, as tokenizer.json and GGUF files write them.
func TokenNames() []string {
	names := make([]string, 256)
	next := rune(0x100)
	for b := range names { // byte-level BPE's alphabet
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r) {
			r, next = next, next+1
		}
		names[b] = string(r)
	}
	return append(names, "<|start|>", "<|end|>")
}

func tokenizer() map[string]any {
	vocab := map[string]int{}
	for id, name := range TokenNames()[:256] {
		vocab[name] = id
	}
	special := func(id int, content string) map[string]any {
		return map[string]any{"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return map[string]any{
		"version": "1.0", "added_tokens": []any{special(End-1, "<|start|>"), special(End, "<|end|>")},
		"pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
	}
}

func template() map[string]any {
	const chat = "{% for m in messages %}<|start|>{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}<|start|>"
	return map[string]any{"eos_token": "<|end|>", "chat_template": chat}
}
