package bpe

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A splitter cuts text into the pieces within which BPE merges. It scans by hand what
// the library matches with a regular expression: Go's regexp has no look-ahead, and a
// scan is many times faster.
type splitter struct {
	// digits isolates every \p{N} before anything else.
	digits bool
	// cl100k selects the pattern of cl100k, with runs of up to maxDigits numbers,
	// instead of GPT-2's.
	cl100k    bool
	maxDigits int

	classes *[0x10000]class
}

// Patterns as tokenizer.json spells them.
const (
	patternCl100k = cl100kWords + `\p{N}{1,3}` + cl100kRest
	patternQwen   = cl100kWords + `\p{N}` + cl100kRest
	cl100kWords   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	cl100kRest    = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

func newSplitter(digits, cl100k bool, maxDigits int) *splitter {
	return &splitter{digits: digits, cl100k: cl100k, maxDigits: maxDigits, classes: planeZero()}
}

// at is the character at s[i] with its class and its length in bytes. An invalid byte
// counts as one character of class other, as U+FFFD does.
func (p *splitter) at(s string, i int) (r rune, c class, n int) {
	if b := s[i]; b < utf8.RuneSelf {
		return rune(b), p.classes[b], 1
	}
	r, n = utf8.DecodeRuneInString(s[i:])
	if r < 0x10000 {
		return r, p.classes[r], n
	}
	return r, lookUp(r), n
}

// run is the end of the run of characters of class c that begins at s[i].
func (p *splitter) run(s string, i int, c class) int {
	for i < len(s) {
		_, k, n := p.at(s, i)
		if k != c {
			break
		}
		i += n
	}
	return i
}

// split calls yield with the pieces of s in their order.
func (p *splitter) split(s string, yield func(piece string)) {
	if !p.digits {
		p.pattern(s, yield)
		return
	}
	start := 0
	for i := 0; i < len(s); {
		_, c, n := p.at(s, i)
		if c == number {
			p.pattern(s[start:i], yield)
			yield(s[i : i+n])
			start = i + n
		}
		i += n
	}
	p.pattern(s[start:], yield)
}

func (p *splitter) pattern(s string, yield func(string)) {
	next := p.gpt2
	if p.cl100k {
		next = p.cl100kEnd
	}
	for i := 0; i < len(s); {
		end := next(s, i)
		yield(s[i:end])
		i = end
	}
}

// gpt2 is the end of the match of [patternGPT2] at s[i].
func (p *splitter) gpt2(s string, i int) int {
	r, c, n := p.at(s, i)
	if r == '\'' {
		if k := contraction(s[i+1:], false); k > 0 {
			return i + 1 + k
		}
	}
	if r == ' ' && i+1 < len(s) {
		if _, next, _ := p.at(s, i+1); next != space {
			return p.run(s, i+1, next)
		}
	}
	if c != space {
		return p.run(s, i+n, c)
	}
	return p.spaces(s, i)
}

// cl100kEnd is the end of the match of [patternCl100k] or [patternQwen] at s[i].
func (p *splitter) cl100kEnd(s string, i int) int {
	r, c, n := p.at(s, i)
	if r == '\'' {
		if k := contraction(s[i+1:], true); k > 0 {
			return i + 1 + k
		}
	}
	if c == letter {
		return p.run(s, i+n, letter)
	}
	next, m := other, 0 // of the character after this one
	if i+n < len(s) {
		_, next, m = p.at(s, i+n)
	}
	if m > 0 && next == letter && c != number && r != '\r' && r != '\n' {
		return p.run(s, i+n+m, letter)
	}
	if c == number {
		end := i + n
		for k := 1; k < p.maxDigits && end < len(s); k++ {
			_, d, n := p.at(s, end)
			if d != number {
				break
			}
			end += n
		}
		return end
	}
	if c == other || r == ' ' && m > 0 && next == other {
		end := p.run(s, i+n, other)
		for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
			end++
		}
		return end
	}
	end := p.run(s, i, space)
	if k := strings.LastIndexAny(s[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return p.spaces(s, i)
}

// spaces is the end of the match of \s+(?!\S)|\s+ at s[i]: a run of white space, without
// its last character where more text follows.
func (p *splitter) spaces(s string, i int) int {
	end := p.run(s, i, space)
	if end == len(s) {
		return end
	}
	if _, n := utf8.DecodeLastRuneInString(s[i:end]); end-n > i {
		return end - n
	}
	return end
}

// contraction is the length of what follows an apostrophe in 's, 't, 're, 've, 'm, 'll
// and 'd; 0 if it is none of them.
func contraction(s string, fold bool) int {
	if s == "" {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if b := s[i]; fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return s[i]
	}
	switch a, b := lower(0), lower(1); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 1
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 2
	case fold && strings.HasPrefix(s, "ſ"): // U+017F folds to s
		return len("ſ")
	}
	return 0
}

// class is what the split patterns ask of a character.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s: White_Space
)

// newLetters and newNumbers became letters and numbers in Unicode 15.1 and 16, which
// the tokenizers library uses; Go's tables are of Unicode 15.
var (
	newLetters = &unicode.RangeTable{
		R16: []unicode.Range16{{0x1c89, 0x1c8a, 1}, {0xa7cb, 0xa7cd, 1}, {0xa7da, 0xa7dc, 1}},
		R32: []unicode.Range32{
			{0x105c0, 0x105f3, 1}, {0x10d4a, 0x10d65, 1}, {0x10d6f, 0x10d85, 1}, {0x10ec2, 0x10ec4, 1}, {0x11380, 0x11389, 1},
			{0x1138b, 0x1138b, 1}, {0x1138e, 0x1138e, 1}, {0x11390, 0x113b5, 1}, {0x113b7, 0x113b7, 1}, {0x113d1, 0x113d1, 1},
			{0x113d3, 0x113d3, 1}, {0x11bc0, 0x11be0, 1}, {0x13460, 0x143fa, 1}, {0x16100, 0x1611d, 1}, {0x16d40, 0x16d6c, 1},
			{0x18cff, 0x18cff, 1}, {0x1e5d0, 0x1e5ed, 1}, {0x1e5f0, 0x1e5f0, 1}, {0x2ebf0, 0x2ee5d, 1},
		},
	}
	newNumbers = &unicode.RangeTable{
		R32: []unicode.Range32{
			{0x10d40, 0x10d49, 1}, {0x116d0, 0x116e3, 1}, {0x11bf0, 0x11bf9, 1}, {0x16130, 0x16139, 1}, {0x16d70, 0x16d79, 1},
			{0x1ccf0, 0x1ccf9, 1}, {0x1e5f1, 0x1e5fa, 1},
		},
	}
)

// planeZero holds the classes of the characters below 0x10000.
var planeZero = sync.OnceValue(func() *[0x10000]class {
	var out [0x10000]class
	for r := range out {
		out[r] = lookUp(rune(r))
	}
	return &out
})

func lookUp(r rune) class {
	switch {
	case unicode.In(r, unicode.L, newLetters):
		return letter
	case unicode.In(r, unicode.N, newNumbers):
		return number
	case unicode.Is(unicode.White_Space, r):
		return space
	}
	return other
}
