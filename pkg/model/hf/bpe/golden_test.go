package bpe

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// The ids of every string equal those of the tokenizers library, for every tokenizer
// of which there is a file.
func TestGoldenTokenizers(t *testing.T) { goldenTokenizers(t, "trl2", "tokenizers") }

func TestGoldenSentencePiece(t *testing.T) { goldenTokenizers(t, "tokenizers3") }

func goldenTokenizers(t *testing.T, from ...string) {
	folder := golden.Path(t, append([]string{"golden"}, from...)...)
	var strs struct {
		Strings []struct{ Kind, Text string }
	}
	golden.ReadJSON(t, filepath.Join(folder, "strings.json"), &strs)
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	expect.OK(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "strings" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var g struct {
				VocabSize int `json:"vocab_size"`
				Cases     []struct {
					IDs         []int32
					IDsSpecial  []int32 `json:"ids_special"`
					IDsPlain    []int32 `json:"ids_plain"`
					Decoded     *string
					DecodedSkip *string `json:"decoded_skip"`
				}
				DecodeCases []struct {
					IDs         []int32
					Decoded     string
					DecodedSkip *string `json:"decoded_skip"`
				} `json:"decode_cases"`
			}
			golden.ReadJSON(t, file, &g, "sha256", "source", "special_ids", "tokenizer", "versions")
			tok := load(t, name)
			tokens := 0
			for _, content := range tok.tokens { // cl100k has gaps between its ids
				if content != "" {
					tokens++
				}
			}
			if tokens != g.VocabSize {
				t.Errorf("%d tokens, want %d", tokens, g.VocabSize)
			}
			if len(g.Cases) != len(strs.Strings) || len(g.DecodeCases) == 0 {
				t.Fatalf("%d cases for %d strings", len(g.Cases), len(strs.Strings))
			}
			for i, c := range g.Cases {
				text, kind := strs.Strings[i].Text, strs.Strings[i].Kind
				if got := tok.Encode(text); !slices.Equal(got, c.IDs) {
					t.Errorf("%s %q\n got %v\nwant %v", kind, text, got, c.IDs)
					continue
				}
				if want := or(c.IDsSpecial, c.IDs); !slices.Equal(slices.Concat(tok.Begin(), c.IDs), want) {
					t.Errorf("%s %q after %v, want %v", kind, text, tok.Begin(), want)
				}
				if got, want := tok.EncodeAround("", text, ""), or(c.IDsPlain, c.IDs); !slices.Equal(got, want) {
					t.Errorf("%s %q as plain text\n got %v\nwant %v", kind, text, got, want)
				}
				if c.IDsPlain == nil { // no special tokens in it: wherever it is cut, the ids are the same
					for k := range 4 {
						lo := len(text) * k / 4
						hi := lo + (len(text)-lo)*(k+1)/5
						if got := tok.EncodeAround(text[:lo], text[lo:hi], text[hi:]); !slices.Equal(got, c.IDs) {
							t.Errorf("%s %q cut at %d and %d\n got %v\nwant %v", kind, text, lo, hi, got, c.IDs)
						}
					}
				}
				decoded := text
				if c.Decoded != nil {
					decoded = *c.Decoded
				}
				if got := tok.Decode(c.IDs, false); got != decoded {
					t.Errorf("%s: decoded %q, want %q", kind, got, decoded)
				}
				if c.DecodedSkip != nil {
					decoded = *c.DecodedSkip
				}
				if got := tok.Decode(c.IDs, true); got != decoded {
					t.Errorf("%s: decoded without special tokens %q, want %q", kind, got, decoded)
				}
			}
			for _, c := range g.DecodeCases {
				skip := c.Decoded
				if c.DecodedSkip != nil {
					skip = *c.DecodedSkip
				}
				if got, gotSkip := tok.Decode(c.IDs, false), tok.Decode(c.IDs, true); got != c.Decoded || gotSkip != skip {
					t.Errorf("%v: %q and %q, want %q and %q", c.IDs, got, gotSkip, c.Decoded, skip)
				}
			}
		})
	}
}

func or(a, b []int32) []int32 {
	if a == nil {
		return b
	}
	return a
}

// load parses a tokenizer next to the golden files.
func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.by[name] == nil {
		tok, err := Parse(golden.File(t, "tokenizers", name, "tokenizer.json"))
		expect.OK(t, err)
		loaded.by[name] = tok
	}
	return loaded.by[name]
}

var loaded = struct {
	sync.Mutex
	by map[string]*Tokenizer
}{by: map[string]*Tokenizer{}}
