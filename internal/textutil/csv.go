package textutil

import (
	"strconv"
	"strings"
)

// CSVCell is s as a cell of a CSV file. A spreadsheet runs a cell that begins with one of these
// characters as a formula, so anything but a number gets an apostrophe in front, which makes it text
// (OWASP, CSV injection).
func CSVCell(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
