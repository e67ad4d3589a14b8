package bpe

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// meta is how the tokens of SentencePiece-style BPE write a space.
const (
	meta     = "▁"
	metaRune = '▁'
)

// characters are the tokens from which SentencePiece-style BPE starts to merge: those of single
// characters, and for every other character those of its bytes.
type characters struct {
	ascii   [utf8.RuneSelf]int32
	others  map[rune]int32
	bytes   [256]int32       // the tokens <0x00> to <0xFF>, or noToken
	isByte  map[int32]bool   // those of bytes
	unknown int32            // what has no token at all; without it (noToken) that is left out
	fuse    bool             // neighbouring unknown characters become one token
	whole   map[string]int32 // with ignore_merges: a whole piece that is a token is not split; else nil

	// A text may be cut where no token goes on, see words: cuts allows it before a meta, and joins has
	// the characters that precede one within a token; pairs, which allows it between other characters,
	// has a bit for two characters that some merge makes neighbours, and by chance for a few others.
	cuts  bool
	joins map[rune]bool
	pairs []uint64
}

// pairBits is the number of bits of pairs: two hundred thousand are set for Gemma 3.
const pairBits = 22

func bitOf(a, b rune) (word int, bit uint64) {
	h := (uint64(uint32(a))<<32 | uint64(uint32(b))) * 0x9e3779b97f4a7c15 >> (64 - pairBits)
	return int(h / 64), 1 << (h % 64)
}

func newCharacters(vocab map[string]int32, unknown int32, fuse bool) *characters {
	c := &characters{others: map[rune]int32{}, isByte: map[int32]bool{}, unknown: unknown, fuse: fuse,
		joins: map[rune]bool{}}
	for r := range c.ascii {
		c.ascii[r] = noToken
	}
	for content, id := range vocab {
		switch r, n := utf8.DecodeRuneInString(content); {
		case n != len(content) || n <= 1 && r == utf8.RuneError:
		case r < utf8.RuneSelf:
			c.ascii[r] = id
		default:
			c.others[r] = id
		}
	}
	for b := range c.bytes {
		id := idOf(vocab, fmt.Sprintf("<0x%02X>", b))
		c.bytes[b], c.isByte[id] = id, true
	}
	_, c.cuts = c.others[metaRune]
	if !c.isByte[noToken] { // else neighbours could be one unknown token
		c.pairs = make([]uint64, 1<<pairBits/64)
	} else if unknown == noToken { // characters are left out, and those around them become neighbours
		c.cuts = false
	}
	return c
}

// encode appends the tokens of the characters of s. Like the library, it writes an unknown token
// when the next known character comes, so after the bytes of one that falls back to them.
func (c *characters) encode(out []int32, s string) []int32 {
	pending := false
	for i := 0; i < len(s); {
		char, id := s[i:i+1], int32(noToken)
		if b := s[i]; b < utf8.RuneSelf {
			id = c.ascii[b]
		} else if r, n := utf8.DecodeRuneInString(s[i:]); n > 1 {
			char = s[i : i+n]
			if known, ok := c.others[r]; ok {
				id = known
			}
		}
		i += len(char)
		if id != noToken {
			if pending {
				out, pending = append(out, c.unknown), false
			}
			out = append(out, id)
			continue
		}
		start := len(out)
		for _, b := range []byte(char) {
			out = append(out, c.bytes[b])
			if c.bytes[b] == noToken { // all of its bytes or none
				out = out[:start]
				break
			}
		}
		if len(out) == start && c.unknown != noToken {
			if pending && !c.fuse {
				out = append(out, c.unknown)
			}
			pending = true
		}
	}
	if pending {
		out = append(out, c.unknown)
	}
	return out
}

// merging takes note of a merge of the tokens a and b, which are written left and right.
func (c *characters) merging(a, b int32, left, right string) {
	if c.isByte[a] || c.isByte[b] || a == c.unknown || b == c.unknown {
		c.cuts = false // these stand for other characters than those they are written with
	}
	// Where a token has two neighbours within, an earlier merge has joined them.
	before, _ := utf8.DecodeLastRuneInString(left)
	after, _ := utf8.DecodeRuneInString(right)
	if after == metaRune && before != metaRune {
		c.joins[before] = true
	}
	if c.pairs != nil {
		word, bit := bitOf(before, after)
		c.pairs[word] |= bit
	}
}

// words calls yield with the words of s, between which nothing is ever merged, so that each can be
// encoded by itself: a word begins at a meta after a character that no token has before one.
func (c *characters) words(s string, yield func(word string)) {
	if !c.cuts {
		yield(s)
		return
	}
	start := 0
	for i := 0; i < len(s); i += len(meta) {
		k := strings.Index(s[i:], meta)
		if k < 0 {
			break
		}
		i += k
		if r, _ := utf8.DecodeLastRuneInString(s[:i]); i > start && r != metaRune && !c.joins[r] {
			c.long(s[start:i], yield)
			start = i
		}
	}
	c.long(s[start:], yield)
}

// long cuts a word that is too long for the cache between characters that no merge joins.
func (c *characters) long(word string, yield func(part string)) {
	if len(word) <= maxCachedPiece || c.pairs == nil {
		yield(word)
		return
	}
	start, before := 0, rune(-1)
	for at, r := range word {
		if i, bit := bitOf(before, r); at > start && c.pairs[i]&bit == 0 {
			yield(word[start:at])
			start = at
		}
		before = r
	}
	yield(word[start:])
}

// fallbackDecoder joins tokens to a text. Runs of tokens <0x00> to <0xFF> are bytes; a run
// that is not UTF-8 becomes one U+FFFD for each byte.
type fallbackDecoder struct {
	replace *strings.Replacer // within each token
	strip   string            // is removed from the beginning of a text
	times   int               // is the most that strip is removed
}

func (d *fallbackDecoder) decode(tokens []string) string {
	var b strings.Builder
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			b.Write(run)
		} else {
			b.WriteString(strings.Repeat("\ufffd", len(run)))
		}
		run = run[:0]
	}
	for _, token := range tokens {
		if x, ok := byteOfToken(token); ok {
			run = append(run, x)
			continue
		}
		flush()
		b.WriteString(token)
	}
	flush()
	return validUTF8(b.String())
}

// byteOfToken is the byte of a token that is written as <0x0A>.
func byteOfToken(token string) (b byte, ok bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(n), err == nil
}
