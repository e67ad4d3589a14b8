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

// ggufSplitters are the pre-tokenizers by their names in GGUF files.
var ggufSplitters = map[string]func() (s *splitter, nfc, ignoreMerges bool){
	"gpt-2":     func() (*splitter, bool, bool) { return newSplitter(false, false, 0), false, false },
	"smollm":    func() (*splitter, bool, bool) { return newSplitter(true, false, 0), false, false },
	"llama-bpe": func() (*splitter, bool, bool) { return newSplitter(false, true, 3), false, true },
	"qwen2":     func() (*splitter, bool, bool) { return newSplitter(false, true, 1), true, false },
}

// Token types of GGUF files. Control and user-defined tokens are matched in the text as a whole,
// and so is llama's unknown token.
const (
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
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
	split, ok := ggufSplitters[g.Pre]
	if !ok {
		return fmt.Errorf("pre-tokenizer %.40q is not supported; supported are %s", g.Pre,
			strings.Join(slices.Sorted(maps.Keys(ggufSplitters)), ", "))
	}
	s, nfc, ignoreMerges := split()
	t.splitter = s
	if nfc {
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
	t.merger, err = newMerger(t.ids, pairs, ignoreMerges)
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
	m := &merger{chars: newCharacters(vocab, g.unknown(vocab), true), merges: make(map[uint64]merged, len(pairs)),
		cache: map[string][]int32{}}
	rank := int32(0)
	for i, p := range pairs {
		if i > 0 && g.Scores[p.id] != g.Scores[pairs[i-1].id] {
			rank++
		}
		m.merges[pairOf(p.a, p.b)] = merged{rank, p.id}
		m.chars.merging(p.a, p.b, g.Tokens[p.id])
	}
	return m, nil
}

// unknown is the token of what has no other one.
func (g *GGUF) unknown(vocab map[string]int32) int32 {
	if id, ok := vocab["<unk>"]; ok {
		return id
	}
	return noToken
}

// SetBegin sets the tokens of [Tokenizer.Begin].
func (t *Tokenizer) SetBegin(ids ...int32) { t.begin = ids }
