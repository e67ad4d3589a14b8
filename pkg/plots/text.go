package plots

import (
	"sort"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"grpo/internal/textutil"
)

// wrap breaks text at spaces into lines of at most the given width; a word
// that is wider by itself gets a line of its own.
func wrap(style text.Style, s string, width vg.Length) []string {
	var lines []string
	for word := range strings.FieldsSeq(s) {
		if n := len(lines); n > 0 && style.Width(lines[n-1]+" "+word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// twoLines makes at most two lines of s, with the value at the end.
func twoLines(style text.Style, s, value string, width vg.Length) string {
	s = oneLine(s)
	if s == "" || style.Width(s+value) <= width {
		return s + value
	}
	lines := wrap(style, s, width)
	first := shorten(style, lines[0], width)
	rest := strings.Join(lines[1:], " ")
	return first + "\n" + strings.TrimSpace(shorten(style, rest, width-style.Width(value))+value)
}

// oneLine makes one printable line of a string from a manifest.
func oneLine(s string) string {
	return strings.Join(strings.Fields(textutil.Printable(s, 0)), " ")
}

// separators are left out next to an ellipsis.
const separators = " ,;=-"

// shorten makes one line of s that is not wider than width, with an ellipsis for
// the rest.
func shorten(style text.Style, s string, width vg.Length) string {
	runes := []rune(oneLine(s))
	return longest(style, runes, len(runes), width, func(n int) string {
		return strings.TrimRight(string(runes[:n]), separators) + "…"
	})
}

// shortenMiddle makes one line of s that is not wider than width, with an ellipsis in the middle: the
// names of arms often differ at their ends.
func shortenMiddle(style text.Style, s string, width vg.Length) string {
	runes := []rune(oneLine(s))
	return longest(style, runes, len(runes)/2, width, func(n int) string { // n characters at each end
		first, last := string(runes[:n]), string(runes[len(runes)-n:])
		return strings.TrimRight(first, separators) + "…" + strings.TrimLeft(last, separators)
	})
}

// longest is s, or the longest cut(n) with n < most, that is not wider than width.
func longest(style text.Style, s []rune, most int, width vg.Length, cut func(n int) string) string {
	if style.Width(string(s)) <= width {
		return string(s)
	}
	// The first length that is too wide; a longer string is never narrower.
	n := sort.Search(most, func(n int) bool { return style.Width(cut(n)) > width })
	return cut(max(0, n-1))
}

// sentence is s with a capital and a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
