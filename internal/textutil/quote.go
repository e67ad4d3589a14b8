package textutil

import (
	"fmt"
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

// plain are the characters, besides letters and digits, without a meaning to a shell within a word.
// "=" has one at the start of a word (zsh) and in the first word (an assignment).
const plain = "%+,-./:=@_"

// CommandLine quotes arguments as a line for a POSIX shell. The line is printable:
// other bytes are written as $'\033', which bash, zsh and ksh read.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = shellWord(arg, i == 0)
	}
	return strings.Join(words, " ")
}

func shellWord(s string, program bool) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(plain, r))
	}
	switch {
	case Printable(s, 0) != s:
		var b strings.Builder
		for _, c := range []byte(s) {
			if c < ' ' || c > '~' || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	case s == "" || strings.ContainsFunc(s, special) || s[0] == '=' || program && strings.Contains(s, "="):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// CSVCell is s as a cell of a CSV file. A spreadsheet runs a cell that begins with one of these
// characters as a formula, so anything but a number gets an apostrophe in front, which makes it text
// (OWASP, CSV injection).
func CSVCell(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
