// Package textutil makes strings of unknown origin printable: from a file, an argument, a path or
// the environment. Raw, they could move the cursor, color or clear the screen, change the direction
// of text, or imitate the program's own lines.
package textutil

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns s as one printable line. Other characters are escaped as in Go (\n, \x1b,
// \u202e): control characters, separators of lines and paragraphs, signs that change the direction
// of text, spaces other than U+0020, and bytes that are not UTF-8. A string of more than limit
// characters is cut and ends with "..."; 0 means no limit.
func Printable(s string, limit int) string {
	var b strings.Builder
	for i, w := 0, 0; i < len(s); i += w {
		var r rune
		r, w = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && w == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		if limit > 0 && b.Len() > utf8.UTFMax*(limit+1) {
			break // enough: a file may be one line of a gigabyte
		}
	}
	if limit > 0 {
		return Cut(b.String(), limit)
	}
	return b.String()
}

// Cut shortens s to at most limit characters, the last three of them "...".
func Cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	if limit < 4 {
		return string([]rune(s)[:max(0, limit)])
	}
	return string([]rune(s)[:limit-3]) + "..."
}

// Text is [Printable] for a document of several lines.
func Text(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i], 0)
	}
	return strings.Join(lines, "\n")
}

// Screen is [Printable] for a text that is itself the output of a program: line breaks and tabs stay as they are.
func Screen(s string) string {
	lines := strings.Split(s, "\t")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return strings.Join(lines, "\t")
}

// Lines is a string of several lines. [Fprintf] keeps its line breaks and indents every line but
// the first, so that none looks like a line of the program.
type Lines string

func (l Lines) printable() string {
	first, rest, more := strings.Cut(Text(strings.TrimRight(string(l), "\n")), "\n")
	if !more {
		return first
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		if line != "" && !strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		}
	}
	return first + "\n" + strings.Join(lines, "\n")
}

// Fprintf is [fmt.Fprintf] with [Printable] strings, errors and values that have a
// String method. The format is unchanged. The elements of args are replaced.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	for i, a := range args {
		switch v := a.(type) {
		case Lines:
			args[i] = v.printable()
		case string:
			args[i] = Printable(v, 0)
		case error:
			args[i] = Printable(v.Error(), 0)
		case fmt.Stringer:
			args[i] = Printable(v.String(), 0)
		default:
			if r := reflect.ValueOf(a); r.Kind() == reflect.String {
				args[i] = Printable(r.String(), 0)
			}
		}
	}
	return fmt.Fprintf(w, format, args...)
}

// Count formats a number with a noun: "1 run", "4 runs", "2 batches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Span is the least and the largest of some numbers, "2 to 4", or the one number that all are, "4".
func Span(numbers []int) string {
	least, most := slices.Min(numbers), slices.Max(numbers)
	if least == most {
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// Ranges writes ascending numbers as a list with ranges: 0,3,5-9.
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
