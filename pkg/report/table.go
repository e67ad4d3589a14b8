package report

import (
	"bytes"
	"encoding/csv"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

// Table is a table of a report. It has four forms: text for a terminal, Markdown,
// CSV, and HTML by the template "table".
type Table struct {
	Label   string // names the table to a reader who cannot see the page
	Columns []Column
	Rows    []Row
	Notes   []string // sentences below the table
}

// Column is a column of a table.
type Column struct {
	// Head may hold line breaks, which only the text form keeps, and back quotes,
	// which only Markdown keeps.
	Head string
	Text bool   // words, aligned left; numbers are aligned right
	Wrap string // how wide a column that wraps is on the page: "", "short", "middle" or "long"
}

// Row is a row of a table. The page makes its first cell a heading.
type Row struct {
	Badge string // after the first cell, on the page
	Cells []Cell
}

// Cell is a cell of a table.
type Cell struct {
	Text string
	Sort string // what the page sorts by, if not by Text
	Link string
	Bad  bool // something went wrong
}

// head appends columns of numbers.
func (t *Table) head(names ...string) {
	for _, name := range names {
		t.Columns = append(t.Columns, Column{Head: name})
	}
}

// add appends a row of plain cells.
func (t *Table) add(cells ...string) {
	row := Row{}
	for _, c := range cells {
		row.Cells = append(row.Cells, Cell{Text: c})
	}
	t.Rows = append(t.Rows, row)
}

// dropEmpty removes the columns of numbers in which no row has one.
func (t *Table) dropEmpty() {
	for k := len(t.Columns) - 1; k >= 0 && len(t.Rows) > 0; k-- {
		filled := func(r Row) bool { return r.Cells[k].Text != analysis.Absent }
		if !t.Columns[k].Text && !slices.ContainsFunc(t.Rows, filled) {
			t.dropColumn(k)
		}
	}
}

// drop removes the columns with these headings.
func (t *Table) drop(heads ...string) {
	for k := len(t.Columns) - 1; k >= 0; k-- {
		if slices.Contains(heads, t.Columns[k].Head) {
			t.dropColumn(k)
		}
	}
}

func (t *Table) dropColumn(k int) {
	t.Columns = slices.Delete(t.Columns, k, k+1)
	for i := range t.Rows {
		t.Rows[i].Cells = slices.Delete(t.Rows[i].Cells, k, k+1)
	}
}

// String is the table for a terminal: cells aligned under their headings, two
// spaces apart, without trailing spaces, and its notes below.
func (t *Table) String() string {
	var lines [][]string
	heads, height := make([][]string, len(t.Columns)), 0
	for k, c := range t.Columns {
		heads[k] = strings.Split(strings.ReplaceAll(c.Head, "`", ""), "\n")
		height = max(height, len(heads[k]))
	}
	for at := range height { // headings are aligned at the bottom
		line := make([]string, len(t.Columns))
		for k, h := range heads {
			if i := at - (height - len(h)); i >= 0 {
				line[k] = h[i]
			}
		}
		lines = append(lines, line)
	}
	for _, r := range t.Rows {
		lines = append(lines, r.texts(nil))
	}
	columns := ""
	for _, c := range t.Columns {
		if c.Text {
			columns += "l"
		} else {
			columns += "r"
		}
	}
	out := strings.Join(textutil.Align(columns, lines), "\n") + "\n"
	if len(t.Notes) > 0 {
		out += "\n" + strings.Join(t.Notes, " ") + "\n"
	}
	return out
}

// texts are the texts of the cells, escaped if escape is not nil.
func (r Row) texts(escape func(string) string) []string {
	out := make([]string, len(r.Cells))
	for k, c := range r.Cells {
		if out[k] = c.Text; escape != nil {
			out[k] = escape(c.Text)
		}
	}
	return out
}

// Markdown is the table and, below it, its notes.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	heads, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for k, c := range t.Columns {
		heads[k], rules[k] = markdownHead(c.Head), "---:"
		if c.Text {
			rules[k] = "---"
		}
	}
	line(heads)
	line(rules)
	for _, r := range t.Rows {
		line(r.texts(escapeMarkdown))
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n" + escapeMarkdown(strings.Join(t.Notes, " ")) + "\n")
	}
	return b.String()
}

// markdownHead is a heading with what is code in it; a name from data may be in it, too.
func markdownHead(head string) string {
	parts := strings.Split(strings.ReplaceAll(head, "\n", " "), "`")
	for i := range parts {
		parts[i] = escapeMarkdown(parts[i])
	}
	return strings.Join(parts, "`")
}

// escapeMarkdown keeps text from data inside its cell or paragraph: it makes no
// column, no HTML, no code, no emphasis, no link and no image.
func escapeMarkdown(s string) string {
	return markdownEscapes.Replace(textutil.Printable(s, 0))
}

var markdownEscapes = strings.NewReplacer("|", `\|`, `\`, `\\`, "<", "&lt;", "`", "'", "*", `\*`, "](", `]\(`)

// CSV is the table without its notes.
func (t *Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	heads := make([]string, len(t.Columns))
	for k, c := range t.Columns {
		heads[k] = textutil.CSVCell(c.Head)
	}
	w.Write(heads) // a Buffer returns no error
	for _, r := range t.Rows {
		w.Write(r.texts(textutil.CSVCell))
	}
	w.Flush()
	return b.Bytes()
}

// exact prints v with as many digits as it needs to be read back; empty where it is
// not finite.
func exact(v float64) string {
	if !stats.IsFinite(v) {
		return ""
	}
	return textutil.Number(v)
}

// Class is the CSS class of a cell in column k, for the template.
func (t *Table) Class(k int, c Cell) template.HTMLAttr {
	var classes []string
	if t.Columns[k].Text {
		classes = append(classes, "text")
	}
	if w := t.Columns[k].Wrap; w != "" {
		classes = append(classes, w)
	}
	if c.Bad {
		classes = append(classes, "bad")
	}
	if len(classes) == 0 {
		return ""
	}
	return template.HTMLAttr(` class="` + strings.Join(classes, " ") + `"`)
}

// Name is the heading on the page.
func (c Column) Name() string {
	return strings.NewReplacer("`", "", "\n", " ").Replace(c.Head)
}

// word is a word of a cell. The page does not break a short one, as at the hyphen
// of 1e-4.
type word struct {
	Text  string
	Whole bool
}

// Words are the words of the cell's text, for the template.
func (c Cell) Words() []word {
	var out []word
	for s := range strings.FieldsSeq(c.Text) {
		out = append(out, word{s, utf8.RuneCountInString(s) <= 12})
	}
	return out
}
