package bpe

import (
	"slices"
	"strings"
	"testing"
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
