package cmd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/model/safetensors"
)

// edit changes a JSON file of a model.
func edit(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	var v map[string]any
	expect.OK(t, json.Unmarshal(data, &v))
	change(v)
	data, err = json.Marshal(v)
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(path, data, 0o644))
}

// shard splits the weights of a model into two files and an index; place returns the files that
// tensor i is put in, and the one that the index names.
func shard(t *testing.T, dir string, place func(i int) (in []string, listed string)) {
	t.Helper()
	single := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.ReadFile(single)
	expect.OK(t, err)
	files, index := map[string][]safetensors.Tensor{}, map[string]string{}
	for i, x := range f.Tensors {
		in, listed := place(i)
		for _, file := range in {
			files[file] = append(files[file], x)
		}
		if listed != "" {
			index[x.Name] = listed
		}
	}
	for file, tensors := range files {
		data, err := safetensors.Encode(tensors, nil)
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
	}
	expect.OK(t, os.WriteFile(single+".index.json", []byte("{}"), 0o644))
	edit(t, single+".index.json", func(v map[string]any) { v["weight_map"] = index })
	expect.OK(t, os.Remove(single))
}

// halves puts the first tensors in a and the others in b.
func halves(i int) (in []string, listed string) {
	listed = string("ab"[i/10]) + ".safetensors"
	return []string{listed}, listed
}

// What is wrong with a model is one line, with exit code 2, before anything is written.
func TestBadModels(t *testing.T) {
	at := func(f func(dir string)) func(*testing.T, string) { return func(_ *testing.T, dir string) { f(dir) } }
	config := func(key string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "config.json"), func(v map[string]any) { v[key] = value })
		}
	}
	tests := []struct {
		name, says string
		change     func(t *testing.T, dir string)
		args, env  []string
	}{
		{name: "good", change: func(*testing.T, string) {}},
		{name: "good shards", change: func(t *testing.T, dir string) { shard(t, dir, halves) }},
		{name: "no config", says: "needs config.json", change: at(func(dir string) { os.Remove(filepath.Join(dir, "config.json")) })},
		{name: "no tokenizer", says: "needs tokenizer.json", change: at(func(dir string) { os.Remove(filepath.Join(dir, "tokenizer.json")) })},
		{name: "weights only", says: "a Hugging Face folder has config.json", change: at(func(dir string) {
			os.Remove(filepath.Join(dir, "config.json"))
			os.Remove(filepath.Join(dir, "tokenizer.json"))
		})},
		{name: "no weights", says: "needs model.safetensors or", change: at(func(dir string) { os.Remove(filepath.Join(dir, "model.safetensors")) })},
		{name: "a missing shard", says: `b.safetensors: no such file.*is the download complete`, change: func(t *testing.T, dir string) {
			shard(t, dir, halves)
			expect.OK(t, os.Remove(filepath.Join(dir, "b.safetensors")))
		}},
		{name: "overlapping shards", says: `overlap: tensor "model.layers.*" is in b.safetensors, and .* a.safetensors`, change: func(t *testing.T, dir string) {
			shard(t, dir, func(i int) ([]string, string) {
				in, listed := halves(i)
				if i == 5 {
					in = []string{"a.safetensors", "b.safetensors"}
				}
				return in, listed
			})
		}},
		{name: "a shard without its tensor", says: `says that tensor "model.*" is in b.safetensors, but it is not`, change: func(t *testing.T, dir string) {
			shard(t, dir, func(i int) ([]string, string) {
				in, listed := halves(i)
				if i == 12 {
					in = nil
				}
				return in, listed
			})
		}},
		{name: "an index without a tensor", says: "tensor model.* is missing", change: func(t *testing.T, dir string) {
			shard(t, dir, func(i int) ([]string, string) {
				if i == 12 {
					return nil, ""
				}
				return halves(i)
			})
		}},
		{name: "a shard outside", says: "is not a file of the folder", change: func(t *testing.T, dir string) {
			shard(t, dir, func(i int) ([]string, string) { return []string{"a.safetensors"}, "../a.safetensors" })
		}},
		{name: "a linked shard", says: "symbolic link", change: func(t *testing.T, dir string) {
			shard(t, dir, halves)
			expect.OK(t, os.Rename(filepath.Join(dir, "b.safetensors"), filepath.Join(dir, "c.safetensors")))
			expect.OK(t, os.Symlink("c.safetensors", filepath.Join(dir, "b.safetensors")))
		}},
		{name: "cut weights", says: "reach beyond the file", change: at(func(dir string) { os.Truncate(filepath.Join(dir, "model.safetensors"), 9000) })},
		{name: "another shape", says: `tensor model.* has shape \[16 16\]; the configuration asks for \[24 16\]`, change: config("head_dim", 6)},
		{name: "another number of layers", says: "tensor model.layers.2.* is missing", change: config("num_hidden_layers", 3)},
		{name: "more layers than it says", says: `tensor "model.layers.1.* has no place in .* num_hidden_layers 1`, change: config("num_hidden_layers", 1)},
		{name: "a tokenizer of another model", says: "the tokenizer has 259 tokens, the embedding 258 rows", change: func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "tokenizer.json"), func(v map[string]any) {
				v["added_tokens"] = append(v["added_tokens"].([]any), map[string]any{"id": decodertest.Vocab, "content": "<more>"})
			})
		}},
		{name: "NaN weights", says: `tensor model.* element \d+ is NaN`, change: func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
			data, err := os.ReadFile(path)
			expect.OK(t, err)
			binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(float32(math.NaN())))
			expect.OK(t, os.WriteFile(path, data, 0o644))
		}},
		{name: "a failing template", says: "render the chat template: only tools", change: func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "tokenizer_config.json"), func(v map[string]any) { v["chat_template"] = "{{ raise_exception('only tools') }}" })
		}},
		{name: "no template", says: "has no chat template", change: at(func(dir string) { os.Remove(filepath.Join(dir, "tokenizer_config.json")) })},
		{name: "a long prompt", says: "exceeds the model's context of 48 tokens", change: config("max_position_embeddings", 48)},
		{name: "too little memory", says: "not enough memory: this needs up to .* MiB, and 1.0 MiB are available", env: []string{"GRPO_MEMORY=1MiB"},
			change: func(*testing.T, string) {}},
		{name: "another architecture", says: `"mamba" is not supported; supported are Llama`, change: config("model_type", "mamba")},
		{name: "another tokenizer", says: `model "Unigram" is not supported`, change: func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "tokenizer.json"), func(v map[string]any) { v["model"].(map[string]any)["type"] = "Unigram" })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			expect.OK(t, os.CopyFS("model", os.DirFS(decodertest.Folder(t))))
			tt.change(t, "model")
			code, _, stderr := runHere(t, tt.env, "train", "--model", "./model", "--set", "prompt_template=chat", "--set", "rollout_batch_size=4",
				"--set", "group_size=2", "--set", "sampling_max_tokens=8", "--set", "val_size=2", "--set", "test_size=0", "--set", "unseen_size=0",
				"--steps", "1", "--set", "eval.every_n_steps=1", "--out", "run", "--quiet")
			_, err := fs.Stat(os.DirFS("."), "run")
			if tt.says == "" {
				if code != 0 || err != nil {
					t.Fatalf("exit code %d, %v, %s", code, err, stderr)
				}
				return
			}
			if code != 2 || err == nil || !regexp.MustCompile(tt.says).MatchString(stderr) || strings.Count(stderr, "\n") > 1 {
				t.Errorf("exit code %d, folder: %v, error:\n%s\nwant %s", code, err == nil, stderr, tt.says)
			}
		})
	}
}

// Finite weights that are so large that the logits are not finite are an error, not completions that
// mean nothing.
func TestHugeWeights(t *testing.T) {
	t.Chdir(t.TempDir())
	expect.OK(t, os.CopyFS("model", os.DirFS(decodertest.Folder(t))))
	path := filepath.Join("model", "model.safetensors")
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	for i := 8 + int(binary.LittleEndian.Uint64(data)); i < len(data); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
		binary.LittleEndian.PutUint32(data[i:], math.Float32bits(x*1e30))
	}
	expect.OK(t, os.WriteFile(path, data, 0o644))
	for _, args := range [][]string{
		{"generate", "--model", "./model", "--prompt", "x", "--raw", "--json"},
		{"eval", "--set", "model.init=./model", "--set", "prompt_template=chat", "--set", "val_size=2", "--set", "test_size=0",
			"--set", "unseen_size=0", "--set", "eval.max_tokens=4"},
	} {
		if code, stdout, stderr := runHere(t, nil, args...); code == 0 || stdout != "" || !strings.Contains(stderr, "logits are not finite") {
			t.Errorf("%s: exit code %d, output %q, %s", args[0], code, stdout, stderr)
		}
	}
}

// Standard output is the text of a completion to the byte, and harmless on a terminal.
func TestGenerateWritesTheText(t *testing.T) {
	run := func(terminal bool, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		s := &State{Args: append([]string{"grpo", "generate"}, args...), Out: &out, Err: &errs, Terminal: terminal, Now: time.Now,
			Host: func() (string, error) { return "host", nil }}
		if code := Run(t.Context(), s); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		return out.String()
	}
	for _, prompt := range []string{"Tom has 7 pens and gets 5 more. How many pens does Tom have?", "x"} {
		args := []string{"--prompt", prompt, "--temperature", "1.5", "--max-tokens", "200", "-n", "20"}
		var texts string
		var all []struct{ Text string }
		expect.OK(t, json.Unmarshal([]byte(run(false, append(args, "--json")...)), &all))
		for _, g := range all {
			texts += g.Text + "\n"
		}
		if got := run(false, args...); got != texts {
			t.Errorf("%q: got %q, want %q", prompt, got, texts)
		}
		untrusted.CheckText(t, run(true, args...))
	}
}
