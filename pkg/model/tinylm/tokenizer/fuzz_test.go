package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"grpo/internal/untrusted"
)

// fuzzLimit: an int and a few bytes of text per byte. The base covers the fuzzer's own allocations.
var fuzzLimit = untrusted.Limit{Base: 8 << 20, PerByte: 128, Time: untrusted.Reader.Time}

// FuzzEncode checks, on any bytes, that there is one token in the vocabulary
// for each rune, and that decoding changes exactly the runes that are not Known.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", alphabet, "a\xff\xe2\x80b", "\u2028\r\n", "\ufffd", "\xf0\x9f\x98", "\x1b[31m"} {
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
