package bpe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// GGUF is what a GGUF file says of its tokenizer.
type GGUF struct {
	Model  string   // "gpt2" is byte-level BPE, "llama" SentencePiece-style BPE
	Pre    string   // gpt2: the name of the pre-tokenizer
	Tokens []string // by id
	Types  []int64
	Merges []string // gpt2

	Scores      []float64 // llama
	SpacePrefix bool      // llama: a space comes before each text
}

// ggufSplit is how texts are split, and what goes with it in llama.cpp (src/llama-vocab.cpp).
type ggufSplit struct {
	names        string // in GGUF files
	like         splitter
	nfc          bool
	ignoreMerges bool
	begin        bool // a begin token comes before each text, unless the file says otherwise
}

// ggufSplits lack names of encoders, which put a token behind each text. Real files of OLMo-2 name dbrx, of
// SmolLM3 smaug-bpe: its tokenizer is that of Llama 3, without its begin token.
var ggufSplits = []ggufSplit{
	{names: "gpt-2 phi-2 mpt olmo jais gigachat trillion granite-docling a.x-4.0 mellum exaone4"},
	{names: "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", like: splitter{digits: true}},
	{names: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", like: splitter{cl100k: true, maxDigits: 3},
		ignoreMerges: true, begin: true},
	{names: "smaug-bpe glm4 glm5", like: splitter{cl100k: true, maxDigits: 3}, ignoreMerges: true},
	{names: "dbrx chatglm-bpe", like: splitter{cl100k: true, maxDigits: 3}},
	{names: "qwen2", like: splitter{cl100k: true, maxDigits: 1}, nfc: true},
	{names: "deepseek-r1-qwen stablelm2 hunyuan solar-open megrez kormo grok-2", like: splitter{cl100k: true, maxDigits: 1}},
}

// split is the one that the file names; ok is false for an unknown name.
func (g *GGUF) split() (p ggufSplit, ok bool) {
	i := slices.IndexFunc(ggufSplits, func(p ggufSplit) bool {
		return slices.Contains(strings.Fields(p.names), g.Pre)
	})
	if i < 0 {
		return p, false
	}
	return ggufSplits[i], true
}

// Begins reports whether a begin token comes before each text of a file that does not say so.
func (g *GGUF) Begins() bool {
	p, _ := g.split()
	return g.Model == "llama" || p.begin
}

// unknownToken is the token of text that no other token has.
const unknownToken = "<unk>"

// Token types of GGUF files. Control and user-defined tokens are matched in the text as a whole,
// and so is llama's unknown token.
const (
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
	ggufByte        = 6
)

// added reports whether a token is matched as a whole, and whether it is a special one.
func (g *GGUF) added(id int) (added, special bool) {
	special = g.Types[id] == ggufControl || g.Model == "llama" && g.Types[id] == ggufUnknown
	return (special || g.Types[id] == ggufUserDefined) && g.Tokens[id] != "", special
}

// FromGGUF makes the tokenizer of a GGUF file.
func FromGGUF(g GGUF) (*Tokenizer, error) {
	if len(g.Tokens) > maxID {
		return nil, fmt.Errorf("%d tokens; the limit is %d", len(g.Tokens), maxID)
	}
	if len(g.Types) != len(g.Tokens) {
		return nil, fmt.Errorf("%d token types for %d tokens", len(g.Types), len(g.Tokens))
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: make(map[string]int32, len(g.Tokens)), model: len(g.Tokens)}
	var err error
	if g.Model == "llama" {
		t.spaces, t.decoder = &spaces{}, &fallbackDecoder{replace: strings.NewReplacer(meta, " ")}
		steps := part{Type: "Sequence", Normalizers: []part{{Type: "Replace", Pattern: pattern{String: " "}, Content: meta}}}
		if g.SpacePrefix {
			t.decoder.strip, t.decoder.times = " ", 1
			steps.Normalizers = slices.Insert(steps.Normalizers, 0, part{Type: "Prepend", Prepend: meta})
		}
		if t.normalizer, err = steps.changes(); err != nil {
			return nil, err
		}
	}
	var added []addedToken
	for i, content := range g.Tokens {
		id, text := int32(i), t.textOf(content)
		isAdded, special := g.added(i)
		if isAdded || special || g.Types[i] == ggufUserDefined {
			t.special[id] = special
			if t.decoder == nil {
				text = content
			}
		}
		if isAdded {
			added = append(added, addedToken{ID: id, Content: content, Special: special})
		}
		if err := t.setToken(id, content, text); err != nil {
			return nil, err
		}
		if content == "" { // some vocabularies have unused tokens without a text
			continue
		}
		if other, ok := t.ids[content]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %.40q", other, id, content)
		}
		t.ids[content] = id
	}
	t.raw = newMatcher(added)
	if g.Model == "llama" {
		t.merger, err = g.scored(t.ids)
	} else {
		err = g.byteLevel(t)
	}
	return t, err
}

// byteLevel sets the pre-tokenizer and the merges of byte-level BPE.
func (g *GGUF) byteLevel(t *Tokenizer) error {
	p, ok := g.split()
	if !ok {
		return fmt.Errorf("pre-tokenizer %.40q is not supported; supported are gpt-2, smollm, llama-bpe, qwen2, and other "+
			"names of the same ways to split a text, such as dbrx and smaug-bpe", g.Pre)
	}
	t.splitter = newSplitter(p.like.digits, p.like.cl100k, p.like.maxDigits)
	if p.nfc {
		t.normalizer, _ = (&part{Type: "NFC"}).changes()
	}
	pairs := make([]merge, len(g.Merges))
	for i, s := range g.Merges {
		a, b, ok := strings.Cut(s, " ")
		if !ok {
			return fmt.Errorf("merge %d, %.40q, is not two tokens", i, s)
		}
		pairs[i] = merge{a, b}
	}
	var err error
	t.merger, err = newMerger(t.ids, pairs, p.ignoreMerges)
	return err
}

// scoredMerge is two tokens that can be merged to a third.
type scoredMerge struct{ a, b, id int32 }

// pairs are the merges that scores stand for: of every two tokens that are a third one when joined. The
// highest score comes first, and of the merges that make one token, as in transformers, that with the
// longest first part.
// Tokens that are matched in the text as a whole, and those of bytes, are never merged.
func (g *GGUF) pairs() ([]scoredMerge, error) {
	if len(g.Scores) != len(g.Tokens) {
		return nil, fmt.Errorf("%d scores for %d tokens", len(g.Scores), len(g.Tokens))
	}
	ids := make(map[string]int32, len(g.Tokens))
	for i, content := range g.Tokens {
		if math.IsNaN(g.Scores[i]) {
			return nil, fmt.Errorf("the score of token %d is not a number", i)
		}
		if added, special := g.added(i); !added && !special && g.Types[i] != ggufByte && !strings.Contains(content, " ") {
			ids[content] = int32(i)
		}
	}
	var out []scoredMerge
	order := slices.SortedFunc(maps.Values(ids), func(x, y int32) int {
		return cmp.Or(cmp.Compare(g.Scores[y], g.Scores[x]), cmp.Compare(x, y))
	})
	for _, id := range order {
		content := g.Tokens[id]
		for at := len(content) - 1; at > 0; at-- {
			if !utf8.RuneStart(content[at]) {
				continue
			}
			if a, ok := ids[content[:at]]; ok {
				if b, ok := ids[content[at:]]; ok {
					out = append(out, scoredMerge{a, b, id})
				}
			}
		}
	}
	return out, nil
}

// scored makes the merger of llama's scores: the pair whose token has the highest score is merged first,
// the leftmost of equals.
func (g *GGUF) scored(vocab map[string]int32) (*merger, error) {
	pairs, err := g.pairs()
	if err != nil {
		return nil, err
	}
	m := &merger{chars: newCharacters(vocab, idOf(vocab, unknownToken), true), merges: make(map[uint64]merged, len(pairs)),
		cache: map[string][]int32{}}
	rank := int32(0)
	for i, p := range pairs {
		if i > 0 && g.Scores[p.id] != g.Scores[pairs[i-1].id] {
			rank++
		}
		m.merges[pairOf(p.a, p.b)] = merged{rank, p.id}
		m.chars.merging(p.a, p.b, g.Tokens[p.a], g.Tokens[p.b])
	}
	return m, nil
}

// SetBegin sets the tokens of [Tokenizer.Begin].
func (t *Tokenizer) SetBegin(ids ...int32) { t.begin = ids }
