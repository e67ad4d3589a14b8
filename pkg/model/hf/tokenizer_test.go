package hf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model/hf/bpe"
	"grpo/pkg/model/hf/gguf"
)

// The tokenizer of the GGUF file of Gemma 3 270M, and the tokenizer.json made of it, give the
// ids and texts of the tokenizers library with Gemma's own tokenizer.json.
func TestGoldenGemma3Tokens(t *testing.T) {
	path := golden.Model(t, "GRPO_GEMMA3", "Gemma 3 270M")
	data, unmap, err := mapFile(path, os.Open)
	expect.OK(t, err)
	defer unmap()
	f, err := gguf.Parse(data)
	expect.OK(t, err)
	d, err := ggufTokenizer(f)
	expect.OK(t, err)
	tok, err := d.tokenizer()
	expect.OK(t, err)
	if !slices.Equal(tok.Begin(), []int32{2}) {
		t.Errorf("it begins with %v", tok.Begin())
	}
	file, err := bpe.FileOfGGUF(d.bpe, d.begin)
	expect.OK(t, err)
	made, err := bpe.Parse(file)
	expect.OK(t, err)
	if !made.SameTokens(tok) {
		t.Error("the tokenizer.json has other tokens")
	}
	original, err := bpe.Parse(golden.File(t, "tokenizers", "gemma3", "tokenizer.json"))
	expect.OK(t, err)
	original, err = original.Below(tok.Size())
	expect.OK(t, err)
	if !original.SameTokens(tok) {
		t.Error("Gemma's tokenizer.json has other tokens")
	}

	check := func(text string, ids []int32) {
		t.Helper()
		for name, tok := range map[string]*bpe.Tokenizer{"GGUF": tok, "tokenizer.json": made} {
			if got := tok.Encode(text); !slices.Equal(got, ids) {
				t.Errorf("%s: %q\n got %v\nwant %v", name, text, got, ids)
			}
			if got, want := tok.Decode(ids, true), original.Decode(ids, true); got != want {
				t.Errorf("%s: %v decodes as %q, want %q", name, ids, got, want)
			}
		}
	}
	var models struct {
		Model []struct {
			Text string
			IDs  []int32
		}
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "decoder3", "gemma3-270m", "case.json"), &models, "transformers",
		"prompt_logps", "last_top5", "last_logsumexp", "greedy", "greedy_text", "greedy_margins")
	for _, c := range models.Model {
		check(c.Text, c.IDs[1:])
	}
	folder := golden.Path(t, "golden", "tokenizers3")
	var texts struct{ Strings []struct{ Text string } }
	golden.ReadJSON(t, filepath.Join(folder, "strings.json"), &texts, "kind")
	var want struct{ Cases []struct{ IDs []int32 } }
	golden.ReadJSON(t, filepath.Join(folder, "gemma3.json"), &want, "sha256", "source", "special_ids", "tokenizer",
		"vocab_size", "ids_special", "ids_plain", "decoded", "decoded_skip", "decode_cases")
	for i, c := range want.Cases {
		check(texts.Strings[i].Text, c.IDs)
	}
	for n := range 40 { // runs of more spaces than a token has
		text := "a" + strings.Repeat(" ", 2*n) + "b" + strings.Repeat("\n", 2*n) + "\t\t\tc "
		check(text, original.Encode(text))
	}
}
