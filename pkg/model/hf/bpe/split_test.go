package bpe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// The scanner cuts as a regular expression engine with look-ahead does.
func FuzzSplit(f *testing.F) {
	patterns := []struct {
		splitter *splitter
		pattern  *regexp2.Regexp
	}{
		{newSplitter(false, false, 0), regexp2.MustCompile(patternGPT2, regexp2.None)},
		{newSplitter(false, true, 3), regexp2.MustCompile(patternCl100k, regexp2.None)},
		{newSplitter(false, true, 1), regexp2.MustCompile(patternQwen, regexp2.None)},
	}
	for _, s := range []string{
		"", " ", "  ", "a  b", "it's we'LL '", "x\r\n\r\n  y", "\t\tfoo bar", "12345 678", "½²Ⅷ 3", " \u3000\u2028x", "\u0085", "a\n \n", "日本語 テキスト!!\n\n?", "e\u0301 ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "\ufffd")
		if strings.ContainsFunc(s, func(r rune) bool { return r == 'ſ' || unicode.In(r, newLetters, newNumbers) }) {
			t.Skip("the engine's Unicode is older")
		}
		for i, p := range patterns {
			var got, want []string
			p.splitter.split(s, func(piece string) { got = append(got, piece) })
			for m, err := p.pattern.FindStringMatch(s); m != nil; m, err = p.pattern.FindNextMatch(m) {
				expect.OK(t, err)
				want = append(want, m.String())
			}
			if !slices.Equal(got, want) {
				t.Fatalf("pattern %d, %q: %q, want %q", i, s, got, want)
			}
		}
	})
}

// Numbers are pieces of their own, and what is between them is split by itself.
func TestSplitDigits(t *testing.T) {
	var got []string
	newSplitter(true, false, 0).split("a  52½ b ", func(s string) { got = append(got, s) })
	if want := []string{"a", "  ", "5", "2", "½", " b", " "}; !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "" }), want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The heap and the scan make the same tokens.
func TestMergeLongIsMerge(t *testing.T) {
	tok := load(t, "gpt2")
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-e ]{0,90}|[ -~]{0,60}|(ab|abc|ing){0,30}`).Draw(t, "text")
		one := tok.merger.encodeBytes(nil, s)
		two := slices.Clone(one)
		short := one[:tok.merger.mergeScan(one)]
		if long := two[:tok.merger.mergeLong(two)]; !slices.Equal(short, long) {
			t.Fatalf("%q: %v and %v", s, short, long)
		}
	})
}

// find is the longest token at the beginning of s, of equal ones the first; found one by one.
func find(tokens []addedToken, s string) (best addedToken) {
	for _, a := range tokens {
		if len(a.Content) > len(best.Content) && strings.HasPrefix(s, a.Content) {
			best = a
		}
	}
	return best
}

func TestMatcher(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, 1+draw.IntN(n))
		for i := range b {
			b[i] = "ab\xff"[draw.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		var tokens []addedToken
		for id := range 1 + draw.IntN(12) {
			tokens = append(tokens, addedToken{ID: int32(id), Content: word(4)})
		}
		m, s := newMatcher(tokens), word(40)
		var got, want []int32
		m.each(s, 0, 0, func(id int32) { got = append(got, id) }, func(from, to int) { got = append(got, -int32(to-from)) })
		text := int32(0)
		for i := 0; i <= len(s); i++ {
			a := find(tokens, s[i:])
			if text > 0 && (a.Content != "" || i == len(s)) {
				want, text = append(want, -text), 0
			}
			if a.Content != "" {
				want, i = append(want, a.ID), i+len(a.Content)-1
			} else {
				text++
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v in %q: %v, want %v", tokens, s, got, want)
		}
	}
}

// 200,000 tokens with a common beginning take a fraction of a second; a sort at each took minutes.
func TestManyAddedTokens(t *testing.T) {
	var tokens []addedToken
	for i := range 200_000 {
		tokens = append(tokens, addedToken{ID: int32(i), Content: fmt.Sprintf("<custom_token_%d>", i)})
	}
	start, found := time.Now(), 0
	m := newMatcher(tokens)
	m.each(strings.Repeat("a < b <custom_token_123456> <cust ", 10_000), 0, 0, func(id int32) {
		if id == 123456 {
			found++
		}
	}, func(int, int) {})
	if d := time.Since(start); found != 10_000 || d > 20*time.Second {
		t.Errorf("%d found in %v", found, d)
	}
}
