package bpe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ggufSplitters are the pre-tokenizers by their names in GGUF files.
var ggufSplitters = map[string]func() (s *splitter, nfc, ignoreMerges bool){
	"gpt-2":     func() (*splitter, bool, bool) { return newSplitter(false, false, 0), false, false },
	"smollm":    func() (*splitter, bool, bool) { return newSplitter(true, false, 0), false, false },
	"llama-bpe": func() (*splitter, bool, bool) { return newSplitter(false, true, 3), false, true },
	"qwen2":     func() (*splitter, bool, bool) { return newSplitter(false, true, 1), true, false },
}

// Token types of GGUF files that are matched in the text as a whole.
const (
	ggufControl     = 3
	ggufUserDefined = 4
)

// FromGGUF makes the tokenizer of a GGUF file from the name of its pre-tokenizer, its
// tokens with their types, and its merges.
func FromGGUF(pre string, tokens []string, types []int64, merges []string) (*Tokenizer, error) {
	split, ok := ggufSplitters[pre]
	if !ok {
		return nil, fmt.Errorf("pre-tokenizer %.40q is not supported; supported are %s", pre,
			strings.Join(slices.Sorted(maps.Keys(ggufSplitters)), ", "))
	}
	if len(tokens) > maxID {
		return nil, fmt.Errorf("%d tokens; the limit is %d", len(tokens), maxID)
	}
	if len(types) != len(tokens) {
		return nil, fmt.Errorf("%d token types for %d tokens", len(types), len(tokens))
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: make(map[string]int32, len(tokens))}
	var ignoreMerges bool
	t.splitter, t.nfc, ignoreMerges = split()
	vocab := make(map[string]int32, len(tokens))
	var added []addedToken
	for i, content := range tokens {
		id, text := int32(i), bytesOf(content)
		if types[i] == ggufControl || types[i] == ggufUserDefined {
			text = content
			t.special[id] = types[i] == ggufControl
			if content != "" {
				added = append(added, addedToken{ID: id, Content: content, Special: t.special[id]})
			}
		}
		if err := t.setToken(id, content, text); err != nil {
			return nil, err
		}
		if content == "" { // some vocabularies have unused tokens without a text
			continue
		}
		if other, ok := vocab[content]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %.40q", other, id, content)
		}
		vocab[content], t.ids[content] = id, id
	}
	t.raw = newMatcher(added)
	pairs := make([]merge, len(merges))
	for i, s := range merges {
		a, b, ok := strings.Cut(s, " ")
		if !ok {
			return nil, fmt.Errorf("merge %d, %.40q, is not two tokens", i, s)
		}
		pairs[i] = merge{a, b}
	}
	var err error
	t.merger, err = newMerger(vocab, pairs, ignoreMerges)
	return t, err
}

// SetBegin sets the tokens of [Tokenizer.Begin].
func (t *Tokenizer) SetBegin(ids ...int32) { t.begin = ids }
