package explain

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"grpo/internal/textutil"
)

// textWidth is the width of running text in characters.
const textWidth = 78

// page collects the text of a subject.
type page struct{ text strings.Builder }

func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.text.String())
	return err
}

// line writes one line.
func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// gap writes an empty line.
func (p *page) gap() { p.line("") }

// title writes a line with an empty line below it.
func (p *page) title(format string, args ...any) {
	p.line(format, args...)
	p.gap()
}

// meaning starts the list of conclusions.
func (p *page) meaning() {
	p.gap()
	p.line("What this means")
}

// paragraph writes a paragraph, broken at spaces. Line breaks in format don't matter.
func (p *page) paragraph(format string, args ...any) { p.wrap("", fmt.Sprintf(format, args...)) }

// point writes a paragraph as an item of a list.
func (p *page) point(format string, args ...any) { p.wrap("- ", fmt.Sprintf(format, args...)) }

// wrap breaks text at spaces. The first line starts with mark, the others are indented by its
// width.
func (p *page) wrap(mark, text string) {
	line, empty := mark, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			p.line("%s", line)
			line, empty = strings.Repeat(" ", len(mark)), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	p.line("%s", line)
}

// table writes rows with columns aligned as in [textutil.Align].
func (p *page) table(columns string, rows ...[]string) {
	for _, line := range textutil.Align(columns, rows) {
		p.line("%s", line)
	}
}

// fixed formats x with this number of decimals, without a negative zero.
func fixed(x float64, decimals int) string {
	if math.Abs(x) >= 1e15 { // it has no decimals
		return textutil.Exponent(strconv.FormatFloat(x, 'g', 6, 64))
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// num formats a number in a table.
func num(x float64) string { return fixed(x, 4) }

// short formats an input as the user would type it, in as few digits as possible.
func short(x float64) string { return textutil.Number(x) }

// digits formats x with n significant digits, without an exponent if that is readable.
func digits(x float64, n int) string {
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e7) {
		return textutil.Exponent(strconv.FormatFloat(x, 'g', n, 64))
	}
	s := strconv.FormatFloat(x, 'g', n, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return s
}

func percent(x float64) string { return fixed(100*x, 1) + "%" }

// round rounds to this number of decimals, for [short].
func round(x float64, decimals int) float64 {
	if math.Abs(x) >= 1e15 {
		return x // it has no decimals, and x*k may be infinite
	}
	k := math.Pow(10, float64(decimals))
	return math.Round(x*k) / k
}

// each formats the elements of xs and joins them; a long list is cut.
func each[T any](xs []T, sep string, format func(T) string) string {
	const longest = 16
	var out []string
	for i, x := range xs {
		if i == longest-1 && len(xs) > longest {
			out = append(out, fmt.Sprintf("... (%d in all)", len(xs)))
			break
		}
		out = append(out, format(x))
	}
	return strings.Join(out, sep)
}

// list is [a, b, c] with each number formatted.
func list(xs []float64, format func(float64) string) string {
	return "[" + each(xs, ", ", format) + "]"
}

// plural returns one if n is 1, otherwise many.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// quote shows a string on one line, quoted. Of a long string it shows the end, which has the
// answer.
func quote(s string, longest int) string {
	if r := []rune(s); len(r) > longest {
		return "..." + strconv.Quote(string(r[len(r)-longest:]))
	}
	return strconv.Quote(s)
}
