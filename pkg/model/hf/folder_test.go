package hf_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/safetensors"
)

// written opens a checkpoint, writes it as a folder and opens that.
func written(t *testing.T, path, dtype string) (from, to *hf.Checkpoint, dir string) {
	t.Helper()
	open := func(path string) *hf.Checkpoint {
		c, err := hf.Open(path)
		expect.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	from, dir = open(path), t.TempDir()
	folder, err := from.Folder()
	expect.OK(t, err)
	var tensors []safetensors.Tensor
	names, shapes := from.Config.Shapes()
	for _, name := range names {
		load := func() ([]float32, error) { return from.Read(name) }
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: shapes[name], Load: load})
	}
	expect.OK(t, folder.Write(dir, dtype, tensors, nil))
	var total int64
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, _ := e.Info()
		total += info.Size()
	}
	if want := folder.Bytes(tensors, dtype); total < want || total > want+1<<16 {
		t.Errorf("%d bytes were written, announced were %d", total, want)
	}
	return from, open(dir), dir
}

// sameModel compares the shape, tokenizer, chat template and weights.
func sameModel(t *testing.T, a, b *hf.Checkpoint) {
	t.Helper()
	x, _ := json.Marshal(a.Config)
	y, _ := json.Marshal(b.Config)
	if string(x) != string(y) || a.ChatTemplate != b.ChatTemplate {
		t.Errorf("%s with %q\nbecame %s with %q", x, a.ChatTemplate, y, b.ChatTemplate)
	}
	for _, s := range []string{"Hello, 12 bags!\n", "<|im_start|>user<|end|>", "é ½"} {
		if !slices.Equal(a.Tokenizer.Encode(s), b.Tokenizer.Encode(s)) {
			t.Errorf("other ids for %q", s)
		}
	}
	names, _ := a.Config.Shapes()
	for _, name := range names {
		x, err := a.Read(name)
		expect.OK(t, err)
		if y, err := b.Read(name); err != nil || !slices.Equal(x, y) {
			t.Errorf("%s: other weights, %v", name, err)
		}
	}
}

func TestWriteFolder(t *testing.T) {
	source := decodertest.Folder(t)
	from, to, dir := written(t, source, "F32")
	sameModel(t, from, to)
	if _, err := hf.Verify(dir); err != nil {
		t.Error(err)
	}
	var config, tokenizer map[string]any
	for name, v := range map[string]any{"config.json": &config, "tokenizer_config.json": &tokenizer} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		expect.OK(t, err)
	}
	if config["torch_dtype"] != "float32" || config["architectures"].([]any)[0] != "LlamaForCausalLM" {
		t.Errorf("config.json is %v", config)
	}
	if tokenizer["tokenizer_class"] != "PreTrainedTokenizerFast" || tokenizer["chat_template"] == nil || tokenizer["model_max_length"] != 512.0 {
		t.Errorf("tokenizer_config.json is %v", tokenizer)
	}
	// A folder that was written can be written again, in another type too.
	_, half, _ := written(t, dir, "BF16")
	a, _ := to.Read("model.norm.weight")
	b, err := half.Read("model.norm.weight")
	if err != nil || !slices.Equal(a, b) { // all ones
		t.Errorf("%v became %v, %v", a, b, err)
	}
	// Every file is covered by the checksums.
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		expect.OK(t, err)
		for _, at := range []int{0, len(data) / 2, len(data) - 1} {
			data[at] ^= 1
			expect.OK(t, os.WriteFile(path, data, 0o644))
			if _, err := hf.Verify(dir); err == nil || !strings.Contains(err.Error(), e.Name()) {
				t.Errorf("%s, byte %d: error %v", e.Name(), at, err)
			}
			data[at] ^= 1
		}
		expect.OK(t, os.WriteFile(path, data, 0o644))
	}
	if _, err := hf.Verify(dir); err != nil {
		t.Error(err)
	}
	expect.Error(t, expect.Err(hf.Verify(source)), "checksum")
}

// The folder made of SmolLM2's GGUF file is the same model.
func TestGoldenFolderOfGGUF(t *testing.T) {
	from, to, _ := written(t, golden.SmolLM2(t), "F32")
	sameModel(t, from, to)
}

// A folder's tokenizer.model, which llama.cpp's converter reads, goes along.
func TestWriteFolderCopiesSentencePiece(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "source")
	expect.OK(t, os.CopyFS(dir, os.DirFS(decodertest.Folder(t))))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "tokenizer.model"), []byte("pieces"), 0o644))
	_, _, written := written(t, dir, "F32")
	if data, err := os.ReadFile(filepath.Join(written, "tokenizer.model")); string(data) != "pieces" {
		t.Errorf("tokenizer.model is %q, %v", data, err)
	}
}

// A tied network may come with a copy of its embedding as the head, but not with another head.
func TestTiedHead(t *testing.T) {
	const embed, head = "model.embed_tokens.weight", "lm_head.weight"
	source := decodertest.Folder(t)
	f, err := safetensors.ReadFile(filepath.Join(source, hf.SingleFile))
	expect.OK(t, err)
	weights, _ := f.Get(embed)
	other := slices.Clone(weights.Data)
	other[len(other)-1]++
	for _, sharded := range []bool{false, true} {
		for want, data := range map[string][]float32{"": weights.Data, "set tie_word_embeddings to false": other} {
			dir := filepath.Join(t.TempDir(), "source")
			expect.OK(t, os.CopyFS(dir, os.DirFS(source)))
			write := func(name string, tensors ...safetensors.Tensor) {
				data, err := safetensors.Encode(tensors, nil)
				expect.OK(t, err)
				expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
			}
			added := safetensors.Tensor{Name: head, Shape: weights.Shape, Data: data}
			if sharded {
				expect.OK(t, os.Remove(filepath.Join(dir, hf.SingleFile)))
				index := map[string]string{head: "2.safetensors"}
				for _, x := range f.Tensors {
					index[x.Name] = "1.safetensors"
				}
				text, err := json.Marshal(map[string]any{"weight_map": index})
				expect.OK(t, err)
				expect.OK(t, os.WriteFile(filepath.Join(dir, hf.IndexFile), text, 0o644))
				write("1.safetensors", f.Tensors...)
				write("2.safetensors", added)
			} else {
				write(hf.SingleFile, append(slices.Clone(f.Tensors), added)...)
			}
			c, err := hf.Open(dir)
			expect.OK(t, err)
			if _, err = c.Read(embed); want == "" {
				expect.OK(t, err)
			} else {
				expect.Error(t, err, want)
			}
			expect.OK(t, c.Close())
		}
	}
}
