package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// results.tex has the tables of results.md for a paper, with the rules of package booktabs. Its
// table of arms has the columns of the terminal, which fit a page.

// latexFile is a file of tables for \input.
func latexFile(tables ...Table) []byte {
	var b strings.Builder
	b.WriteString("% Tables of grpo for \\input{results}; the preamble needs \\usepackage{booktabs}.\n")
	for i := range tables {
		b.WriteString("\n" + tables[i].LaTeX())
	}
	return []byte(b.String())
}

// latexTables are the tables of results.tex; of is a suffix of their captions.
func (a *Report) latexTables(of string) []Table {
	arms := armTable(terminalColumns, a.Arms)
	arms.Label, arms.Notes = "Results by arm", a.tableNotes()
	out := []Table{arms}
	for _, t := range []Table{a.setsTable(), a.comparisonsTable(true)} {
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].Label += of
	}
	return out
}

// studyLaTeX is the results.tex of a study.
func studyLaTeX(st sweepdir.Study, parts []*Report) []byte {
	var all []Table
	for i, a := range parts {
		if a != nil {
			all = append(all, a.latexTables(", "+st.Parts[i].Name)...)
		}
	}
	return latexFile(all...)
}

// mostColumns of a table in the size \small; one with more is in \scriptsize.
const mostColumns = 9

// LaTeX is the table as a table environment with its notes in the caption, for pdfLaTeX with package
// booktabs.
func (t *Table) LaTeX() string {
	var b strings.Builder
	size, columns := `\small`, ""
	if len(t.Columns) > mostColumns {
		size = `\scriptsize`
	}
	heads := make([]string, len(t.Columns))
	for k, c := range t.Columns {
		side := "r"
		if c.Text {
			side = "l"
		}
		columns += side
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(c.Head, "`", ""), "-\n", ""), "\n")
		for i := range lines {
			lines[i] = escapeLaTeX(lines[i])
		}
		heads[k] = strings.Join(lines, `\\`)
		if len(lines) > 1 {
			heads[k] = `\shortstack[` + side + `]{` + heads[k] + `}`
		}
	}
	line := func(cells []string) { b.WriteString(strings.Join(cells, " & ") + ` \\` + "\n") }
	caption := append([]string{strings.TrimSuffix(t.Label, ".") + "."}, t.Notes...)
	fmt.Fprintf(&b, "\\begin{table}[tb]\n\\centering\n%s\n\\setlength{\\tabcolsep}{4pt}\n\\caption{%s}\n\\label{tab:%s}\n",
		size, escapeLaTeX(strings.Join(caption, " ")), labelLaTeX(t.Label))
	fmt.Fprintf(&b, "\\begin{tabular}{%s}\n\\toprule\n", columns)
	line(heads)
	b.WriteString("\\midrule\n")
	for _, r := range t.Rows {
		cells := r.texts()
		for k := range cells {
			cells[k] = escapeLaTeX(cells[k])
		}
		line(cells)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n\\end{table}\n")
	return b.String()
}

// labelLaTeX makes a label of letters, digits and hyphens.
func labelLaTeX(s string) string {
	parts := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	return strings.Join(parts, "-")
}

// negative is the hyphen of a negative number.
var negative = regexp.MustCompile(`(^|[\s\[(,/])-(\d)`)

// escapeLaTeX makes text from data into text of a cell or a caption: no commands, and only
// characters that pdfLaTeX knows with its own fonts.
func escapeLaTeX(s string) string {
	s = textutil.Printable(s, 0)
	s = negative.ReplaceAllString(s, "$1−$2")
	var b strings.Builder
	quotes := 0
	for i, r := range s {
		switch {
		case r == '"': // the first and the second of a pair
			b.WriteString([]string{"``", "''"}[quotes%2])
			quotes++
		case i == 0 && (r == '[' || r == '*'): // after \\ they would be its argument
			b.WriteString("{" + string(r) + "}")
		case latexEscapes[r] != "":
			b.WriteString(latexEscapes[r])
		case r <= unicode.MaxASCII, r >= 'À' && r <= 'ÿ' && !slices.Contains([]rune("ÐðÞþ"), r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}

var latexEscapes = map[rune]string{
	'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '$': `\$`, '&': `\&`, '#': `\#`, '%': `\%`, '_': `\_`,
	'^': `\textasciicircum{}`, '~': `\textasciitilde{}`, '<': `\textless{}`, '>': `\textgreater{}`, '|': `\textbar{}`,
	'−': `$-$`, '×': `$\times$`, '÷': `$\div$`, '±': `$\pm$`, '·': `$\cdot$`, '–': `--`, '…': `\dots{}`,
}
