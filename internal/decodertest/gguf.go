package decodertest

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/randommodel"
)

// GGUF writes a GGUF file with a network of the shape of [Folder], weights of 1 and the same tokenizer,
// and returns its path. Values of metadata replace those of the file or are added; nil removes one.
// They are bool, int32, uint32, float32, float64, string, []string or []int32.
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
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	var head, data bytes.Buffer
	shapes := map[string][]uint64{"token_embd": {16, Vocab}, "output_norm": {16}, "blk.0.attn_norm": {16},
		"blk.0.ffn_norm": {16}, "blk.0.ffn_gate": {16, 32}, "blk.0.ffn_up": {16, 32}, "blk.0.ffn_down": {32, 16}}
	for _, p := range []string{"q", "k", "v", "output"} {
		shapes["blk.0.attn_"+p] = []uint64{16, 16}
	}
	head.WriteString("GGUF")
	write(&head, uint32(3), uint64(len(shapes)), uint64(len(all)))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		write(&head, key)
		writeValue(&head, all[key])
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		size := 1
		write(&head, name+".weight", uint32(len(shapes[name])))
		for _, d := range shapes[name] {
			write(&head, d)
			size *= int(d)
		}
		write(&head, uint32(0), uint64(data.Len()))
		for range size {
			write(&data, float32(1))
		}
	}
	head.WriteString(strings.Repeat("\x00", (32-head.Len()%32)%32))
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, append(head.Bytes(), data.Bytes()...), 0o644); err != nil {
		t.Fatal(err)
	}
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
