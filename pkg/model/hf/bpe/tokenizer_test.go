package bpe

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// tiny is a tokenizer.json of single bytes and a few merges, to change in tests.
func tiny(change func(map[string]any)) []byte {
	vocab := map[string]int{}
	for r, b := range byteOf {
		vocab[string(r)] = int(b)
	}
	vocab["th"], vocab["the"], vocab["Ġthe"] = 256, 257, 258
	f := map[string]any{
		"added_tokens":  []any{map[string]any{"id": 259, "content": "<end>", "special": true}, map[string]any{"id": 260, "content": "<think>"}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel"},
		"decoder":       map[string]any{"type": "ByteLevel"},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{"t h", []string{"th", "e"}, "Ġ the"}},
	}
	if change != nil {
		change(f)
	}
	data, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return data
}

func TestEncode(t *testing.T) {
	tok, err := Parse(tiny(nil))
	expect.OK(t, err)
	if got, want := tok.Encode("the the<end>"), []int32{257, 258, 259}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := tok.EncodeAround("", "<end><think>", ""), []int32{'<', 'e', 'n', 'd', '>', 260}; !slices.Equal(got, want) {
		t.Errorf("as plain text %v, want %v", got, want)
	}
	if got, want := tok.EncodeAround("<end>t", "he<end", "><end>"), []int32{259, 257, '<', 'e', 'n', 'd', '>', 259}; !slices.Equal(got, want) {
		t.Errorf("around a text %v, want %v", got, want)
	}
	think, _ := tok.ID("<think>")
	end, _ := tok.ID("<end>")
	the, _ := tok.ID("the")
	if tok.Special(think) || !tok.Added(think) || !tok.Special(end) || !tok.Added(end) || tok.Added(the) {
		t.Error("<think> is added, <end> special, the neither")
	}
	if got := tok.Decode([]int32{257, 259, 0xe2, 0x82, 'x', 5000, -1}, true); got != "the\ufffdx" {
		t.Errorf("decoded %q", got)
	}
}

// A special token that is found after a normalizer is found around plain text, and is text within it.
func TestNormalizedSpecial(t *testing.T) {
	tok, err := Parse(tiny(func(f map[string]any) {
		sentencePiece(f)
		added := f["added_tokens"].([]any)
		added[0] = map[string]any{"id": 259, "content": "<end>", "special": true, "normalized": true}
		f["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "_"},
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "_"}}}
	}))
	expect.OK(t, err)
	got := tok.EncodeAround("<end>b", "b <end>b", "b <end>")
	var want []int32
	for _, r := range "\x01bb_<end>bb\x01" {
		if want = append(want, r); r == 1 {
			want[len(want)-1] = 259
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// sentencePiece turns the tokenizer into one of SentencePiece-style BPE.
func sentencePiece(f map[string]any) map[string]any {
	f["model"].(map[string]any)["byte_fallback"] = true
	f["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{map[string]any{"type": "ByteFallback"},
		map[string]any{"type": "Fuse"}}}
	delete(f, "pre_tokenizer")
	return f
}

func TestParseErrors(t *testing.T) {
	model := func(f map[string]any) map[string]any { return f["model"].(map[string]any) }
	tests := []struct {
		name, says string
		change     func(map[string]any)
	}{
		{"a word-piece model", `"WordPiece"`, func(f map[string]any) { model(f)["type"] = "WordPiece" }},
		{"unigram", `"Unigram"`, func(f map[string]any) { model(f)["type"] = "Unigram" }},
		{"byte fallback of bytes", "decoder ByteLevel", func(f map[string]any) { model(f)["byte_fallback"] = true }},
		{"an unknown pre-tokenizer", "pre-tokenizer Whitespace", func(f map[string]any) {
			sentencePiece(f)["pre_tokenizer"] = map[string]any{"type": "Whitespace"}
		}},
		{"an unknown Metaspace", `prepend_scheme "last"`, func(f map[string]any) {
			sentencePiece(f)["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last"}
		}},
		{"an unknown step of a normalizer", `Replace("x+")`, func(f map[string]any) {
			sentencePiece(f)["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"},
				map[string]any{"type": "Replace", "pattern": map[string]any{"Regex": "x+"}, "content": "y"}}}
		}},
		{"an unknown step of a decoder", "[ByteFallback, Metaspace]", func(f map[string]any) {
			sentencePiece(f)["decoder"].(map[string]any)["decoders"] = []any{map[string]any{"type": "ByteFallback"},
				map[string]any{"type": "Metaspace"}}
		}},
		{"no unknown token", `"<unk>"`, func(f map[string]any) { model(sentencePiece(f))["unk_token"] = "<unk>" }},
		{"an unknown pattern", `Split("foo+")`, func(f map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]any{"Regex": "foo+"}},
				map[string]any{"type": "ByteLevel", "use_regex": false}}}
		}},
		{"no pre-tokenizer", "no pre-tokenizer", func(f map[string]any) { delete(f, "pre_tokenizer") }},
		{"another normalizer", "normalizer Lowercase", func(f map[string]any) { f["normalizer"] = map[string]any{"type": "Lowercase"} }},
		{"no decoder", "decoder", func(f map[string]any) { delete(f, "decoder") }},
		{"no vocabulary", "model.vocab", func(f map[string]any) { delete(model(f), "vocab"); delete(model(f), "merges") }},
		{"a merge of unknown tokens", "merge 0", func(f map[string]any) { model(f)["merges"] = []any{"q u"} }},
		{"half a merge", "not two tokens", func(f map[string]any) { model(f)["merges"] = []any{"qu"} }},
		{"a huge id", "outside", func(f map[string]any) { model(f)["vocab"].(map[string]int)["x"] = 1 << 30 }},
		{"one id twice", "same id", func(f map[string]any) { model(f)["vocab"].(map[string]int)["the"] = 256 }},
		{"a template without the text", "lacks the text", func(f map[string]any) {
			f["post_processor"] = map[string]any{"type": "TemplateProcessing"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.Error(t, expect.Err(Parse(tiny(tt.change))), tt.says)
		})
	}
}

// Tokens that an embedding lacks are plain text, unless the vocabulary has them.
func TestBelow(t *testing.T) {
	tok, err := Parse(tiny(nil))
	expect.OK(t, err)
	less, err := tok.Below(260)
	expect.OK(t, err)
	if got, want := less.Encode("<think><end>"), []int32{'<', 256, 'i', 'n', 'k', '>', 259}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := tok.Encode("<think>"); less.Size() != 260 || !slices.Equal(got, []int32{260}) {
		t.Errorf("%d tokens; with all %v", less.Size(), got)
	}
	if _, ok := less.ID("<think>"); ok {
		t.Error("<think> has an id still")
	}
	expect.Error(t, expect.Err(tok.Below(258)), "261 tokens")
}

// Whatever a tokenizer.json is, reading it ends in a tokenizer or an error, and a
// tokenizer encodes any text to ids below its size.
func FuzzParse(f *testing.F) {
	f.Add(tiny(nil), "the <end>")
	f.Add([]byte(`{"model":{"type":"BPE"}}`), "")
	f.Add(tiny(func(f map[string]any) { sentencePiece(f) }), "the é<end>")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Parse(data)
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text) {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("id %d of %d", id, tok.Size())
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(golden.Path(b, "data"), "gsm8k", "train.jsonl"))
	if err != nil {
		b.Skip(err)
	}
	for _, name := range []string{"smollm2", "qwen3", "llama2", "gemma3"} {
		tok := load(b, name)
		texts := map[string]string{"gsm8k": string(data), "no spaces": strings.Join(strings.Fields(string(data)), "")[:1<<20],
			"chinese": chinese(tok, 1<<20)}
		for _, kind := range []string{"gsm8k", "no spaces", "chinese"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(texts[kind])))
				for b.Loop() {
					tok.Encode(texts[kind])
				}
			})
		}
	}
}

// chinese is a text of tokens of Chinese characters, early ones more often.
func chinese(tok *Tokenizer, size int) string {
	var words []string
	for id := range tok.Size() {
		word := tok.Decode([]int32{int32(id)}, true)
		if word != "" && strings.IndexFunc(word, func(r rune) bool { return !unicode.Is(unicode.Han, r) }) < 0 {
			words = append(words, word)
		}
	}
	draw := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	for out.Len() < size && len(words) > 0 {
		out.WriteString(words[int(float64(len(words))*math.Pow(draw.Float64(), 3))])
	}
	return out.String()
}
