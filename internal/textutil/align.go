package textutil

import (
	"strings"
	"unicode/utf8"
)

// Align returns a line for each row of a table: its cells padded to the widest of their column, two spaces
// apart, without trailing spaces. The letters of columns are l or r for each column, left or right; the last
// one is also for the columns after it.
func Align(columns string, rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for k, cell := range row {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		cells := make([]string, len(row))
		for k, cell := range row {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell))
			if columns[min(k, len(columns)-1)] == 'l' {
				cells[k] = cell + pad
			} else {
				cells[k] = pad + cell
			}
		}
		lines[i] = strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	return lines
}
