package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/stats"
)

// column is a column of a table that has a row for each of several things: arms, runs, sets of problems.
type column[T any] struct {
	Column
	cell func(T) Cell
}

// plain is a column of numbers.
func plain[T any](head string, text func(T) string) column[T] {
	return column[T]{Column{Head: head}, func(x T) Cell { return Cell{Text: text(x)} }}
}

// tableOf has a row for each of rows.
func tableOf[T any](label string, columns []column[T], rows []T) Table {
	t := Table{Label: label}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, x := range rows {
		var row Row
		for _, c := range columns {
			row.Cells = append(row.Cells, c.cell(x))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mean prints the mean with a fixed number of decimals.
func mean(digits int) func(analysis.Summary) string {
	return func(s analysis.Summary) string { return analysis.Decimals(s.Mean, digits) }
}

// interval is "0.933 [0.912, 0.954]".
func interval(s analysis.Summary) string { return analysis.WithInterval(s.Mean, s.Lo, s.Hi) }

// eachSeed is "955.2 (970, 949, 940, 962)": the mean and each seed.
func eachSeed(s analysis.Summary) string {
	if s.N == 0 {
		return analysis.Absent
	}
	return analysis.Decimals(s.Mean, 1) + " (" + strings.Join(bareEach(analysis.Plain(0), s.Values), ", ") + ")"
}

// bareEach has each of the values without its unit, and a dash for one that does not exist.
func bareEach(n analysis.NumberFormat, values []float64) []string {
	each := make([]string, len(values))
	for i, v := range values {
		each[i] = "-"
		if stats.IsFinite(v) {
			each[i] = n.Bare(v)
		}
	}
	return each
}

// threeDigits is for metrics without a natural unit.
func threeDigits(s analysis.Summary) string {
	return analysis.Decimals(s.Mean, analysis.DigitsFor(s.Mean))
}

// signed is "+0.123 [+0.101, +0.145]".
func signed(s analysis.Summary) string {
	if !stats.IsFinite(s.Mean) {
		return analysis.Absent
	}
	plus := func(v float64) string {
		text := fmt.Sprintf("%+.3f", v)
		if text[1:] == "0.000" { // no sign of a number that rounds to 0
			return text[1:]
		}
		return text
	}
	out := plus(s.Mean)
	if stats.IsFinite(s.Lo) {
		out += " [" + plus(s.Lo) + ", " + plus(s.Hi) + "]"
	}
	return out
}

// pointsOf is a summary of differences in points: "4.1 [1.2, 7.0]".
func pointsOf(s analysis.Summary) string {
	return analysis.InPercent.Bare(s.Mean) + analysis.InPercent.Interval(s.Lo, s.Hi)
}
