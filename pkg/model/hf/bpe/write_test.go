package bpe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// asGGUF returns what a GGUF file made of a tokenizer.json would say.
func asGGUF(t *testing.T, pre string, data []byte) GGUF {
	t.Helper()
	g := GGUF{Model: "gpt2", Pre: pre}
	var f file
	expect.OK(t, json.Unmarshal(data, &f))
	put := func(id int32, content string, kind int64) {
		for int(id) >= len(g.Tokens) {
			g.Tokens, g.Types = append(g.Tokens, ""), append(g.Types, 1)
		}
		g.Tokens[id], g.Types[id] = content, kind
	}
	for content, id := range f.Model.Vocab {
		put(id, content, 1)
	}
	for _, a := range f.AddedTokens {
		kind := int64(ggufUserDefined)
		if a.Special {
			kind = ggufControl
		}
		put(a.ID, a.Content, kind)
	}
	for _, m := range f.Model.Merges {
		g.Merges = append(g.Merges, m[0]+" "+m[1])
	}
	return g
}

// The tokenizer.json made for a GGUF file gives the ids of the original one, here and, with a Python
// that has it (GRPO_TEST_PYTHON), in the tokenizers library.
func TestGoldenFileOfGGUF(t *testing.T) {
	folder := golden.Path(t, "golden", "trl2", "tokenizers")
	var strs struct{ Strings []struct{ Text string } }
	golden.ReadJSON(t, filepath.Join(folder, "strings.json"), &strs, "kind")
	for name, pre := range map[string]string{"gpt2": "gpt-2", "smollm2": "smollm", "llama3-shape": "llama-bpe", "qwen3": "qwen2", "cl100k": "dbrx"} {
		t.Run(name, func(t *testing.T) {
			if name != "smollm2" && name != "llama3-shape" && os.Getenv("GRPO_LONG") == "" {
				t.Skip("all of them: GRPO_LONG=1 go test ./pkg/model/hf/bpe")
			}
			original := golden.File(t, "tokenizers", name, "tokenizer.json")
			g := asGGUF(t, pre, original)
			begin := int32(-1)
			if name == "llama3-shape" {
				begin = int32(slices.Index(g.Tokens, "<|begin_of_text|>"))
			}
			made, err := FileOfGGUF(g, begin)
			expect.OK(t, err)
			tok, err := Parse(made)
			expect.OK(t, err)
			want := load(t, name)
			var theirs [][]int32
			if python := os.Getenv("GRPO_TEST_PYTHON"); python != "" {
				path := filepath.Join(t.TempDir(), "tokenizer.json")
				expect.OK(t, os.WriteFile(path, made, 0o644))
				cmd := exec.Command(python, filepath.Join("testdata", "encode.py"), path, filepath.Join(folder, "strings.json"))
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err == nil {
					err = json.Unmarshal(out, &theirs)
				}
				if err != nil || len(theirs) != len(strs.Strings) {
					t.Fatalf("%d strings, %v", len(theirs), err)
				}
			}
			for i, s := range strs.Strings {
				ids := want.Encode(s.Text)
				if got := tok.Encode(s.Text); !slices.Equal(got, ids) {
					t.Errorf("%q\n got %v\nwant %v", s.Text, got, ids)
				}
				if got := tok.EncodeAround("", s.Text, ""); !slices.Equal(got, want.EncodeAround("", s.Text, "")) {
					t.Errorf("%q as plain text: %v", s.Text, got)
				}
				if got := tok.Begin(); !slices.Equal(got, want.Begin()) {
					t.Errorf("it begins with %v", got)
				}
				if got := tok.Decode(ids, false); got != want.Decode(ids, false) {
					t.Errorf("%q decodes as %q", s.Text, got)
				}
				if theirs != nil && !slices.Equal(theirs[i], slices.Concat(want.Begin(), ids)) {
					t.Errorf("tokenizers: %q\n got %v\nwant %v", s.Text, theirs[i], slices.Concat(want.Begin(), ids))
				}
			}
		})
	}
}

func TestFileOfGGUFErrors(t *testing.T) {
	expect.Error(t, expect.Err(FileOfGGUF(GGUF{Pre: "unknown"}, -1)), "supported are")
	expect.Error(t, expect.Err(FileOfGGUF(GGUF{Pre: "gpt-2", Tokens: []string{"a"}, Types: []int64{1}}, 1)), "begin token")
}

// Names of one split in GGUF files give equal tokenizers; other names are errors.
func TestNamesOfSplits(t *testing.T) {
	const text = "It's 12345 apples,\n\n  I'VE  counted 67"
	pieces := func(pre string) (out []string) {
		g := GGUF{Model: "gpt2", Pre: pre}
		tok, err := FromGGUF(g)
		expect.OK(t, err)
		tok.splitter.split(text, func(piece string) { out = append(out, piece) })
		return out
	}
	for name, same := range map[string]string{"smaug-bpe": "llama-bpe", "dbrx": "llama-bpe", "olmo": "gpt-2",
		"deepseek-r1-qwen": "qwen2", "exaone": "smollm", "llama3": "llama-bpe"} {
		if got, want := pieces(name), pieces(same); !slices.Equal(got, want) {
			t.Errorf("%s splits as %q, %s as %q", name, got, same, want)
		}
	}
	for name, want := range map[string]bool{"llama-bpe": true, "llama3": true, "smaug-bpe": false, "dbrx": false, "gpt-2": false} {
		if g := (GGUF{Model: "gpt2", Pre: name}); g.Begins() != want {
			t.Errorf("%s: a begin token by default: %v", name, !want)
		}
	}
	for _, name := range []string{"tekken", "default", "smollm gpt-2", " ", ""} {
		expect.Error(t, expect.Err(FromGGUF(GGUF{Model: "gpt2", Pre: name})), "pre-tokenizer", "supported are")
	}
	names := map[string]bool{}
	for _, s := range ggufSplits {
		for _, name := range strings.Fields(s.names) {
			if names[name] {
				t.Errorf("%s is in two rows", name)
			}
			names[name] = true
		}
	}
}
