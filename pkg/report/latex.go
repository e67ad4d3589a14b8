package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"grpo/internal/pattern"
	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// results.tex has the tables of results.md for a paper, with the rules of package booktabs. They have
// fewer columns, to fit a page; one that is wider is made smaller (graphicx).

// latexFile is a file of tables for \input.
func latexFile(tables ...Table) []byte {
	var b strings.Builder
	b.WriteString("% Tables of grpo for \\input{results}; the preamble needs \\usepackage{booktabs,graphicx}.\n")
	for i := range tables {
		b.WriteString("\n" + tables[i].LaTeX())
	}
	return []byte(b.String())
}

// latexTables are the tables of results.tex. Their captions, of which the labels are made, name the
// sweep, or its part of a study, so that a paper can have several.
func (a *Report) latexTables(name string) []Table {
	arms := armTable("Results by arm", latexColumns, a.Arms)
	arms.Notes = a.tableNotes()
	out := []Table{arms}
	sets := a.setsTable()
	sets.drop("`correct_num`", "`error_num`", "formatted, right", "formatted, wrong", "unformatted",
		"greedy gain by format", "greedy gain by answers")
	for _, t := range []Table{sets, a.atKTable(), a.comparisonsTable(true)} {
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].Label += ", " + name
	}
	return out
}

// studyLaTeX is the results.tex of a study.
func studyLaTeX(st sweepdir.Study, parts []*Report) []byte {
	var all []Table
	for i, a := range parts {
		if a != nil {
			all = append(all, a.latexTables(st.Parts[i].Name)...)
		}
	}
	return latexFile(all...)
}

// LaTeX is the table as a table environment for pdfLaTeX with the packages booktabs and graphicx. The
// first of its notes is in the caption, the others are comments.
func (t *Table) LaTeX() string {
	var b strings.Builder
	columns := ""
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
	caption := escapeLaTeX(strings.TrimSuffix(t.Label, ".") + ".")
	for i, note := range t.Notes {
		if i == 0 {
			caption += " " + escapeLaTeX(note)
		} else {
			fmt.Fprintf(&b, "%% %s\n", textutil.Printable(note, 0))
		}
	}
	fmt.Fprintf(&b, "\\begin{table}[tb]\n\\centering\\small\n\\caption{%s}\n\\label{tab:%s}\n", caption, labelLaTeX(t.Label))
	b.WriteString("\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n")
	fmt.Fprintf(&b, "\\begin{tabular}{%s}\n\\toprule\n", columns)
	line(heads)
	b.WriteString("\\midrule\n")
	for _, r := range t.Rows {
		line(r.texts(escapeLaTeX))
	}
	b.WriteString("\\bottomrule\n\\end{tabular}}\n\\end{table}\n")
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
var negative = pattern.Of(`(^|[\s\[(,/])-(\d)`)

// escapeLaTeX makes text from data into text of a cell or a caption: no commands, and only
// characters that pdfLaTeX knows with its own fonts.
func escapeLaTeX(s string) string {
	s = textutil.Printable(s, 0)
	s = negative().ReplaceAllString(s, "$1−$2")
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
