package explain

import (
	"embed"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"unicode/utf8"

	"grpo/internal/pattern"
	"grpo/internal/textutil"
)

//go:embed pages/*.tmpl
var pageFiles embed.FS

// pages are the templates of the subjects' texts. In their files a line break with its indentation is one space,
// and " | " is between the cells of a table.
var pages = sync.OnceValue(func() *template.Template {
	all := template.New("").Funcs(template.FuncMap{
		"num": num, "fixed": fixed, "short": short, "digits": digits, "percent": percent, "round": round,
		"nums": listOf(num), "shorts": listOf(short), "percents": listOf(percent), "ints": listOf(strconv.Itoa),
		"digitsOf": func(xs []float64, n int) []string { return listOf(func(x float64) string { return digits(x, n) })(xs) },
		"fixedOf":  func(xs []float64, n int) []string { return listOf(func(x float64) string { return fixed(x, n) })(xs) },
		"columns": func(xs []float64) []string {
			return listOf(func(x float64) string { return fmt.Sprintf("%8s", num(x)) })(xs)
		},
		"join": strings.Join, "list": func(s []string) string { return "[" + strings.Join(s, ", ") + "]" },
		"count": textutil.Count, "plural": plural, "quote": quote, "matrix": numbersText, "bits": bitsText,
		"div": func(x, y float64) float64 { return x / y }, "float": func(n int) float64 { return float64(n) },
		"sub": func(x, y float64) float64 { return x - y }, "neg": func(x float64) float64 { return -x },
		"minus": func(x, y int) int { return x - y },
		"cell":  cell, "arm": armName,
	})
	files, err := pageFiles.ReadDir("pages")
	for _, f := range files {
		var text []byte
		if text, err = pageFiles.ReadFile("pages/" + f.Name()); err != nil {
			break
		}
		source := regexp.MustCompile(`\n +`).ReplaceAllString(string(text), " ")
		template.Must(all.New(strings.TrimSuffix(f.Name(), ".tmpl")).Parse(strings.ReplaceAll(source, " | ", "\t")))
	}
	return template.Must(all, err)
})

// textWidth is the width of running text in characters.
const textWidth = 78

// writePage writes the page of a subject. Tables are aligned: the line ".table lr" before one has the letters of
// [textutil.Align]. Longer lines are broken at spaces; those of an item of a list ("- ") or with an indentation
// are indented.
func writePage(w io.Writer, name string, data any) error {
	var out, text strings.Builder
	if err := pages().ExecuteTemplate(&text, name, data); err != nil {
		return fmt.Errorf("write the page of %s: %w", name, err)
	}
	columns, blank := "lr", true
	var rows [][]string
	for line := range strings.SplitSeq(strings.TrimRight(text.String(), "\n")+"\n", "\n") {
		letters, isTable := strings.CutPrefix(line, ".table ")
		if isTable {
			columns = letters
			continue
		}
		if strings.Contains(line, "\t") {
			rows, blank = append(rows, strings.Split(line, "\t")), false
			continue
		}
		for _, aligned := range textutil.Align(columns, rows) {
			out.WriteString(aligned + "\n")
		}
		if rows = nil; line != "" || !blank {
			wrap(&out, line)
		}
		blank = line == ""
	}
	_, err := io.WriteString(w, strings.TrimRight(out.String(), "\n")+"\n")
	return err
}

var marks = pattern.Of(`^(- | *)`)

// wrap writes a line, broken at spaces if it is wider than the text.
func wrap(out *strings.Builder, line string) {
	if utf8.RuneCountInString(line) <= textWidth {
		out.WriteString(line + "\n")
		return
	}
	mark := marks().FindString(line)
	line, rest := mark, line[len(mark):]
	empty := true
	for word := range strings.FieldsSeq(rest) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			out.WriteString(line + "\n")
			line, empty = strings.Repeat(" ", len(mark)), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	out.WriteString(line + "\n")
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

// longest is how many elements of a list are printed.
const longest = 16

// listOf formats the elements of a list; a long one is cut.
func listOf[T any](format func(T) string) func([]T) []string {
	return func(xs []T) (out []string) {
		for i, x := range xs {
			if i == longest-1 && len(xs) > longest {
				return append(out, fmt.Sprintf("... (%d in all)", len(xs)))
			}
			out = append(out, format(x))
		}
		return out
	}
}

// each formats the elements of xs and joins them; a long list is cut.
func each[T any](xs []T, sep string, format func(T) string) string {
	return strings.Join(listOf(format)(xs), sep)
}

// list is [a, b, c] with each number formatted.
func list(xs []float64, format func(float64) string) string {
	return "[" + each(xs, ", ", format) + "]"
}

// widestMatrix is the number of columns up to which a matrix is printed.
const widestMatrix = 12

// numbersText is a named matrix of a page, with a dot where there is no token; bitsText is a mask.
var (
	numbersText = matrixText(func(x float64) string {
		if math.IsNaN(x) {
			return "."
		}
		return num(x)
	})
	bitsText = matrixText(strconv.Itoa)
)

func matrixText[T any](format func(T) string) func(name string, m [][]T) string {
	return func(name string, m [][]T) string {
		var b strings.Builder
		fmt.Fprintf(&b, "\n   %s\n.table lr\n", name)
		for i, row := range m {
			fmt.Fprintf(&b, "     %d", i)
			for _, x := range row[:min(len(row), widestMatrix)] {
				b.WriteString("\t" + format(x))
			}
			if len(row) > widestMatrix {
				fmt.Fprintf(&b, "\t... (%d in all)", len(row))
			}
			b.WriteString("\n")
		}
		return b.String()
	}
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
