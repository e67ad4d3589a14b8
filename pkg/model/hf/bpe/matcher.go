package bpe

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds added tokens in a text: the leftmost, and the longest of those.
type matcher struct {
	tokens []addedToken // by content; of equal ones the first of the file is last
	first  [257]int     // tokens[first[b]:first[b+1]] begin with the byte b
}

func newMatcher(tokens []addedToken) (m matcher) {
	m.tokens = slices.Clone(tokens)
	slices.Reverse(m.tokens)
	slices.SortStableFunc(m.tokens, func(a, b addedToken) int { return strings.Compare(a.Content, b.Content) })
	for b := range m.first {
		m.first[b] = sort.Search(len(m.tokens), func(i int) bool { return int(m.tokens[i].Content[0]) >= b })
	}
	return m
}

// below is the matcher of the tokens with ids below n.
func (m *matcher) below(n int) matcher {
	tokens := slices.DeleteFunc(slices.Clone(m.tokens), func(a addedToken) bool { return int(a.ID) >= n })
	slices.Reverse(tokens)
	return newMatcher(tokens)
}

// reserving is the matcher that treats the tokens with these ids as special ones.
func (m *matcher) reserving(ids []int32) matcher {
	out := *m
	out.tokens = slices.Clone(m.tokens)
	for i, a := range out.tokens {
		out.tokens[i].Special = a.Special || slices.Contains(ids, a.ID)
	}
	return out
}

// prefixes appends the places of the tokens with which s begins, shortest first. Byte for byte, it
// narrows the range of the tokens that agree with s so far.
func (m *matcher) prefixes(out []int, s string) []int {
	lo, hi := m.first[s[0]], m.first[int(s[0])+1]
	for n := 1; lo < hi; n++ {
		for ; lo < hi && len(m.tokens[lo].Content) == n; lo++ {
			out = append(out, lo)
		}
		if lo == hi || n == len(s) {
			break
		}
		among, from := m.tokens[lo:hi], lo
		lo = from + sort.Search(len(among), func(i int) bool { return among[i].Content[n] >= s[n] })
		hi = from + sort.Search(len(among), func(i int) bool { return among[i].Content[n] > s[n] })
	}
	return out
}

// each calls token for the added tokens in s, and text with the bounds of what is
// between them. A special token that touches the bytes from lo to hi is text.
func (m *matcher) each(s string, lo, hi int, token func(int32), text func(from, to int)) {
	start := 0
	var found []int
	for i := 0; i < len(s); i++ {
		if m.first[s[i]] == m.first[int(s[i])+1] {
			continue
		}
		found = m.prefixes(found[:0], s[i:])
		for _, at := range slices.Backward(found) {
			a := &m.tokens[at]
			from, to := i, i+len(a.Content)
			if a.Special && from < hi && lo < to {
				continue
			}
			if a.SingleWord && (endsInWord(s[:from]) || startsWord(s[to:])) {
				i = to - 1 // as in the library: no other token is looked for in what was found
				break
			}
			if a.LStrip {
				from = start + len(strings.TrimRightFunc(s[start:from], unicode.IsSpace))
			}
			if a.RStrip {
				to = len(s) - len(strings.TrimLeftFunc(s[to:], unicode.IsSpace))
			}
			if start < from {
				text(start, from)
			}
			token(a.ID)
			start, i = to, to-1
			break
		}
	}
	if start < len(s) {
		text(start, len(s))
	}
}

func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && wordRune(r)
}

func startsWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && wordRune(r)
}

// wordRune is \w of Rust's regular expressions.
func wordRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}
