package textutil

import (
	"fmt"
	"strings"
)

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
