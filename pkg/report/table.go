package report

import (
	"strings"
	"unicode/utf8"
)

// column is a column of a text table. A heading may take several lines.
type column struct {
	head  string
	right bool // numbers stand to the right
}

// textTable aligns rows under their headings, two spaces apart, without
// trailing spaces.
func textTable(columns []column, rows [][]string) string {
	heads := make([][]string, len(columns))
	height := 0
	for i, c := range columns {
		heads[i] = strings.Split(c.head, "\n")
		height = max(height, len(heads[i]))
	}
	var all [][]string
	for line := range height {
		row := make([]string, len(columns))
		for i, h := range heads {
			// Short headings stand at the bottom, over their numbers.
			if k := line - (height - len(h)); k >= 0 {
				row[i] = h[k]
			}
		}
		all = append(all, row)
	}
	all = append(all, rows...)

	width := make([]int, len(columns))
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if columns[i].right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
