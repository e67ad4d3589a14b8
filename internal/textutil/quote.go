package textutil

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shorten cuts a string of more than 60 characters.
func Shorten(s string) string { return Cut(s, 60) }

// Quote puts untrusted text in quotes, shortened and with unprintable characters
// escaped.
func Quote(s string) string { return strconv.Quote(Shorten(s)) }

// Show shortens a string, and quotes it if it would be misread: empty, with space around it, or
// with unprintable characters.
func Show(s string) string {
	s = Shorten(s)
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}
