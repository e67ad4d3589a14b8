package jsonl

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string // "!" for a line that is too long
	}{
		{"at the limit", "12345678\nab\n", []string{"12345678", "ab"}},
		{"over the limit", "1234567890\nab", []string{"!", "ab"}},
		{"over the limit at the end", "ab\n1234567890", []string{"ab", "!"}},
		{"only line feeds end lines", "a\u2028b\nc\rd\n", []string{"a\u2028b", "c\rd"}},
		{"blank lines", "\n \t\r\na\n\n", []string{"a"}},
		{"mark inside is kept", "a\n\xef\xbb\xbfb", []string{"a", "\xef\xbb\xbfb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// One byte at a time, so that no read has a whole line.
			l := NewReader(iotest.OneByteReader(strings.NewReader(c.in)), 9)
			var got []string
			for {
				text, bad, err := l.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if bad != nil {
					text = []byte("!")
				}
				got = append(got, string(text))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("lines %q, want %q", got, c.want)
			}
		})
	}
}
