// Package tokenizer is TinyLM's character vocabulary: one token for each printable ASCII character
// and for newline, and four special tokens. A table of 100 rows keeps the embedding and the head
// small, and every digit is a separate token, as the arithmetic needs.
//
//	0 <pad>   1 <bos>   2 <eos>   3 <unk>   4 newline   5..99 ASCII 32..126
package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// The special tokens, newline, and the size of the vocabulary (V, the number of
// rows of TinyLM's embedding and of its head).
const (
	Pad       = 0
	BOS       = 1
	EOS       = 2
	Unk       = 3
	Newline   = 4
	VocabSize = 100
)

// Printable ASCII, which follows newline in the vocabulary.
const (
	firstRune = ' '
	lastRune  = '~'
	firstID   = Newline + 1
)

// Encode returns the tokens of text, one for each rune; it adds neither BOS nor
// EOS. A rune outside the vocabulary is Unk (tab and carriage return too), and
// so is each byte that is not part of valid UTF-8.
func Encode(text string) []int {
	ids := make([]int, 0, len(text))
	for _, r := range text {
		ids = append(ids, token(r))
	}
	return ids
}

// Decode returns the text of ids. Pad, BOS and EOS have no text. Unk and ids outside the vocabulary
// become U+FFFD, so that losses are visible in a sample. It is the inverse of [Encode] on text
// whose runes are all [Known].
func Decode(ids []int) string {
	var b strings.Builder
	b.Grow(len(ids))
	for _, id := range ids {
		switch {
		case id == Pad || id == BOS || id == EOS:
		case id == Newline:
			b.WriteByte('\n')
		case firstID <= id && id < VocabSize:
			b.WriteByte(byte(firstRune + id - firstID))
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// Known reports whether r has its own token: newline and ASCII 32..126.
func Known(r rune) bool { return token(r) != Unk }

func token(r rune) int {
	switch {
	case firstRune <= r && r <= lastRune:
		return firstID + int(r-firstRune)
	case r == '\n':
		return Newline
	}
	return Unk
}
