package explain

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"grpo/internal/words"
)

// textWidth is the width of running text in characters.
const textWidth = 78

// printer writes text and remembers the first error of its writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) print(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// line writes one line as it is.
func (p *printer) line(format string, args ...any) { p.print(fmt.Sprintf(format, args...) + "\n") }

// gap writes an empty line.
func (p *printer) gap() { p.print("\n") }

// say writes a paragraph, broken at spaces.
func (p *printer) say(format string, args ...any) { p.wrap("", fmt.Sprintf(format, args...)) }

// point writes a paragraph as an item of a list.
func (p *printer) point(format string, args ...any) { p.wrap("- ", fmt.Sprintf(format, args...)) }

// wrap breaks text at spaces; the first line begins with the mark, the others are
// indented by its width.
func (p *printer) wrap(mark, text string) {
	line, indent := mark, strings.Repeat(" ", len(mark))
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			p.line("%s", line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	p.line("%s", line)
}

// table writes rows with aligned columns; row 0 is the head. In align an l stands
// for a column that is aligned at its left; the others, which hold numbers, are
// aligned at their right.
func (p *printer) table(align string, rows ...[]string) {
	var widths []int
	for _, row := range rows {
		for j, cell := range row {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if j > 0 {
				b.WriteString("  ")
			}
			if j < len(align) && align[j] == 'l' {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		p.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// fixed formats x with the given number of decimals, without a negative zero.
func fixed(x float64, decimals int) string {
	if math.Abs(x) >= 1e15 { // the decimals are beyond what the number holds
		return words.Exponent(strconv.FormatFloat(x, 'g', 6, 64))
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// num is the form of a number in a table.
func num(x float64) string { return fixed(x, 4) }

// short is the form of an input in a sentence: as few digits as give it back.
func short(x float64) string { return words.Number(x) }

// digits formats x with n significant digits, without an exponent where that can
// be read.
func digits(x float64, n int) string {
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e7) {
		return words.Exponent(strconv.FormatFloat(x, 'g', n, 64))
	}
	s := strconv.FormatFloat(x, 'g', n, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return s
}

func percent(x float64) string { return fixed(100*x, 1) + "%" }

// longestList is the number of elements up to which a list is printed whole.
const longestList = 16

// each formats the elements of xs and joins them; of a long list the first ones.
func each(xs []float64, sep string, format func(float64) string) string {
	out := make([]string, 0, min(len(xs), longestList)+1)
	for i, x := range xs {
		if i == longestList-1 && len(xs) > longestList {
			out = append(out, fmt.Sprintf("... (%d in all)", len(xs)))
			break
		}
		out = append(out, format(x))
	}
	return strings.Join(out, sep)
}

// lengthList is a list of lengths.
func lengthList(lengths []int) string {
	xs := make([]float64, len(lengths))
	for i, n := range lengths {
		xs[i] = float64(n)
	}
	return each(xs, ", ", short)
}

// list is [a, b, c] in the form of tables.
func list(xs []float64) string { return "[" + each(xs, ", ", num) + "]" }

// columns is a b c, each in a column of its own, so that lists of equal length
// line up below each other.
func columns(xs []float64) string {
	return each(xs, " ", func(x float64) string { return fmt.Sprintf("%8s", num(x)) })
}

// listShort is [a, b, c] as the user would type it.
func listShort(xs []float64) string { return "[" + each(xs, ", ", short) + "]" }

// count writes "1 token" and "2 tokens".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// round rounds to the given number of decimals, for [short].
func round(x float64, decimals int) float64 {
	if math.Abs(x) >= 1e15 {
		return x // it has no such decimals, and x*k may be infinite
	}
	k := math.Pow(10, float64(decimals))
	return math.Round(x*k) / k
}
