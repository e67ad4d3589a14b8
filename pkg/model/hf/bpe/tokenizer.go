// Package bpe encodes and decodes text with the BPE tokenizers of Hugging Face's tokenizer.json
// and of GGUF files. Byte-level BPE: added tokens, NFC, the pre-tokenizers of GPT-2, Llama 3
// (cl100k), Qwen and SmolLM2, merges, and the tokens that a template adds. SentencePiece-style
// BPE, as of Llama 2, Mistral and Gemma: characters instead of bytes, with byte fallback.
// The ids equal those of the tokenizers library. A file with any other part is an
// error, never a guess.
package bpe

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	splitter    *splitter
	spaces      *spaces          // of SentencePiece-style BPE, instead of splitter; else nil
	decoder     *fallbackDecoder // with spaces
	merger      *merger
	normalizer  []change
	prefixSpace bool
	raw         matcher  // added tokens that are found in the text as it is
	normalized  matcher  // those that are found after the normalizer
	tokens      []string // the bytes of each id; of an added token its content
	special     map[int32]bool
	ids         map[string]int32 // by content, of added tokens and of the vocabulary
	begin       []int32          // see Begin
	model       int              // one more than the largest id that is not only added
}

// Encode returns the ids of text. Added tokens in it, such as <|im_end|>, become their
// own ids. The template's tokens are not added; see [Tokenizer.Begin].
func (t *Tokenizer) Encode(text string) []int32 { return t.encode(text, 0, 0, atStart) }

// place is what a text, or the part of it between two added tokens, follows. Some tokenizers put a space
// before the first place, some before the first two; none puts one between two parts of a text.
type place int

const (
	atStart place = iota
	afterToken
	afterText
)

// EncodeAfter returns the ids of template + text, which follow ids. Special tokens are found in
// template only.
func (t *Tokenizer) EncodeAfter(ids []int32, template, text string) []int32 {
	p := afterText
	if len(ids) == 0 || slices.Equal(ids, t.begin) {
		p = atStart
	} else if t.Added(ids[len(ids)-1]) {
		p = afterToken
	}
	return t.encode(template+text, len(template), len(template)+len(text), p)
}

// EncodeAround returns the ids of before + text + after. Special tokens are found in
// before and after; in text they are plain text: what users typed cannot end a turn.
// Everything else is split and merged across the boundaries, so that without special
// tokens in text the ids are those of [Tokenizer.Encode].
func (t *Tokenizer) EncodeAround(before, text, after string) []int32 {
	return t.encode(before+text+after, len(before), len(before)+len(text), atStart)
}

// Reserving is the tokenizer that finds tokens with these ids, too, only outside of plain text.
func (t *Tokenizer) Reserving(ids []int32) *Tokenizer {
	out := *t
	out.raw, out.normalized = t.raw.reserving(ids), t.normalized.reserving(ids)
	return &out
}

func (t *Tokenizer) normalize(text string, p place) string {
	for _, f := range t.normalizer {
		text = f(text, p)
	}
	return text
}

// encode encodes text, which is at a place; its bytes from lo to hi are plain.
func (t *Tokenizer) encode(text string, lo, hi int, p place) []int32 {
	var out []int32
	token := func(id int32) { out = append(out, id) }
	t.raw.each(text, lo, hi, token, func(from, to int) {
		p := p
		if from > 0 {
			p = afterToken
		}
		part := t.normalize(text[from:to], p)
		lo, hi := t.plain(part, text[from:to], max(lo, from)-from, min(hi, to)-from, p)
		piece := func(piece string) {
			if piece != "" {
				out = t.merger.encode(out, piece)
			}
		}
		t.normalized.each(part, lo, hi, token, func(from, to int) {
			part, p := part[from:to], p
			if from > 0 {
				p = afterToken
			}
			if t.spaces != nil {
				t.spaces.split(part, p, piece)
				return
			}
			if t.prefixSpace && p != afterText && !strings.HasPrefix(part, " ") {
				part = " " + part
			}
			t.splitter.split(part, piece)
		})
	})
	return out
}

// plain returns where the bytes of text from lo to hi are after normalizing it, at a place, to part. If a normalizer
// changes more than each of them, all of the part counts as plain.
func (t *Tokenizer) plain(part, text string, lo, hi int, p place) (from, to int) {
	switch {
	case lo >= hi:
		return 0, 0
	case len(t.normalizer) == 0:
		return lo, hi
	}
	before, with := "", t.normalize(text[:hi], p)
	if lo > 0 {
		before = t.normalize(text[:lo], p)
	}
	if !strings.HasPrefix(with, before) || !strings.HasPrefix(part, with) {
		return 0, len(part)
	}
	return len(before), len(with)
}

// Begin returns the tokens that the tokenizer's template puts before a text, such as a begin
// token. Those that it puts after one would end a prompt before its completion.
func (t *Tokenizer) Begin() []int32 { return t.begin }

// Decode returns the text of ids. With skipSpecial, special tokens are left out. Bytes
// that are not UTF-8, as at the end of a cut completion, become U+FFFD; ids outside
// the vocabulary are left out.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	text := t.DecodeAfter(ids, skipSpecial)
	if d := t.decoder; d != nil && d.strip != "" {
		for n := 0; n < d.times && strings.HasPrefix(text, d.strip); n++ {
			text = text[len(d.strip):]
		}
	}
	return text
}

// DecodeAfter is Decode of ids that follow others: it keeps a space at the beginning, which Decode
// leaves out if the tokenizer puts one before every text.
func (t *Tokenizer) DecodeAfter(ids []int32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.tokens) && !(skipSpecial && t.special[id]) {
			tokens = append(tokens, t.tokens[id])
		}
	}
	if t.decoder != nil {
		return t.decoder.decode(tokens)
	}
	return validUTF8(strings.Join(tokens, ""))
}

// SameTokens reports whether both tokenizers have the same tokens under the same ids.
func (t *Tokenizer) SameTokens(o *Tokenizer) bool { return slices.Equal(t.tokens, o.tokens) }

// Size is one more than the largest id.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token by its content, as in tokenizer.json.
func (t *Tokenizer) ID(content string) (id int32, ok bool) {
	id, ok = t.ids[content]
	return id, ok && int(id) < len(t.tokens)
}

// Below returns the tokenizer without the ids from n on. They must be added tokens beyond the
// vocabulary, such as the one for images that Gemma 3's tokenizer has and its text models lack.
func (t *Tokenizer) Below(n int) (*Tokenizer, error) {
	if len(t.tokens) <= n {
		return t, nil
	}
	if n < t.model || slices.ContainsFunc(t.begin, func(id int32) bool { return int(id) >= n }) {
		return nil, fmt.Errorf("the tokenizer has %d tokens", len(t.tokens))
	}
	out := *t
	out.tokens = t.tokens[:n]
	out.raw, out.normalized = t.raw.below(n), t.normalized.below(n)
	return &out, nil
}

// Special reports whether id is a special token.
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// Added reports whether id is a token that is found in a text as a whole, special or not.
func (t *Tokenizer) Added(id int32) bool {
	_, added := t.special[id]
	return added
}

// validUTF8 replaces what is not UTF-8 as Rust's from_utf8_lossy does: one U+FFFD for
// each longest prefix of a character that is cut short, one for any other byte.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteRune(utf8.RuneError)
			i += brokenPrefix(s[i:])
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// brokenPrefix is the length of the longest prefix of s that could begin a character
// (table 3-7 of the Unicode standard), at least 1.
func brokenPrefix(s string) int {
	need, lo, hi := 0, byte(0x80), byte(0xbf)
	switch b := s[0]; {
	case 0xc2 <= b && b <= 0xdf:
		need = 1
	case 0xe0 <= b && b <= 0xef:
		need = 2
		if b == 0xe0 {
			lo = 0xa0
		} else if b == 0xed {
			hi = 0x9f
		}
	case 0xf0 <= b && b <= 0xf4:
		need = 3
		if b == 0xf0 {
			lo = 0x90
		} else if b == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for ; n <= need && n < len(s) && lo <= s[n] && s[n] <= hi; n++ {
		lo, hi = 0x80, 0xbf
	}
	return n
}
