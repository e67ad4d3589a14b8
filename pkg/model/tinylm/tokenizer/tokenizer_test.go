package tokenizer

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"grpo/internal/untrusted"
)

// alphabet is every character that has its own token, in the order of ids.
var alphabet = func() string {
	var b strings.Builder
	b.WriteByte('\n')
	for c := 32; c <= 126; c++ {
		b.WriteByte(byte(c))
	}
	return b.String()
}()

func TestVocabularyTable(t *testing.T) {
	if got := []int{Pad, BOS, EOS, Unk, Newline, VocabSize}; !slices.Equal(got, []int{0, 1, 2, 3, 4, 100}) {
		t.Fatalf("constants are %v", got)
	}
	ids := Encode(alphabet)
	if len(ids) != VocabSize-Newline {
		t.Fatalf("%d characters have %d tokens", len(alphabet), len(ids))
	}
	for i, id := range ids {
		if id != Newline+i {
			t.Errorf("%q is %d, want %d", alphabet[i], id, Newline+i)
		}
	}
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name string
		ids  []int
		want string
	}{
		{"nothing", nil, ""},
		{"pad, bos and eos have no text", []int{BOS, 28, Pad, Newline, EOS, Pad}, "7\n"},
		{"unknown is shown", []int{28, Unk, 28}, "7\ufffd7"},
		{"ids outside the vocabulary are shown", []int{-1, VocabSize, math.MinInt, math.MaxInt, 99}, "\ufffd\ufffd\ufffd\ufffd~"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decode(tt.ids); got != tt.want {
				t.Errorf("Decode(%v) = %q, want %q", tt.ids, got, tt.want)
			}
		})
	}
}

func TestKnown(t *testing.T) {
	for r := rune(-1); r < 0x3000; r++ {
		if got, want := Known(r), r >= 0 && strings.ContainsRune(alphabet, r); got != want {
			t.Errorf("Known(%q) = %v, want %v", r, got, want)
		}
	}
	for _, r := range []rune{utf8.RuneError, utf8.MaxRune, math.MinInt32, math.MaxInt32} {
		if Known(r) {
			t.Errorf("Known(%#x) = true", r)
		}
	}
}

// fuzzLimit: an int and a few bytes of text per byte. The base covers the fuzzer's own allocations.
var fuzzLimit = untrusted.Limit{Base: 8 << 20, PerByte: 128, Time: untrusted.Reader.Time}

// FuzzEncode checks, on any bytes, that there is one token in the vocabulary
// for each rune, and that decoding changes exactly the runes that are not Known.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", alphabet, "<eos>", "\x00\t\r\x1f\x7f", "a\u00e9\u2028\U0001F600b", "a\xff\xe2\x80b", "\u2028\r\n", "\ufffd", "\xf0\x9f\x98", "\x1b[31m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzLimit.Check(t, len(text), func() {
			ids := Encode(text)
			if n := utf8.RuneCountInString(text); len(ids) != n {
				t.Fatalf("%d tokens for %d runes of %q", len(ids), n, text)
			}
			for _, id := range ids {
				if id < Unk || id >= VocabSize {
					t.Fatalf("token %d for %q", id, text)
				}
			}
			var want strings.Builder
			for _, r := range text {
				if !strings.ContainsRune(alphabet, r) {
					r = utf8.RuneError
				}
				want.WriteRune(r)
			}
			if got := Decode(ids); got != want.String() {
				t.Fatalf("Decode(Encode(%q)) = %q, want %q", text, got, want.String())
			}
		})
	})
}

// FuzzDecode checks, for any numbers, that ids outside the vocabulary are visible, that the three
// tokens without text leave none, and that encoding and decoding again is stable.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"\x01\x1c\x10\x02", "\x00\x03\x63\x64\xff", ""} {
		f.Add([]byte(s), 1)
	}
	f.Add([]byte("\x7f\x80"), -1<<62)
	f.Fuzz(func(t *testing.T, data []byte, scale int) {
		fuzzLimit.Check(t, len(data), func() {
			ids := make([]int, len(data))
			silent := 0
			for i, b := range data {
				ids[i] = int(b) * scale
				if ids[i] == Pad || ids[i] == BOS || ids[i] == EOS {
					silent++
				}
			}
			text := Decode(ids)
			if n := utf8.RuneCountInString(text); n != len(ids)-silent || !utf8.ValidString(text) {
				t.Fatalf("%q has %d runes for %d tokens, %d of them silent", text, n, len(ids), silent)
			}
			again := Encode(text)
			if !slices.Equal(Encode(Decode(again)), again) {
				t.Fatalf("%q changes on the second trip", text)
			}
		})
	})
}
