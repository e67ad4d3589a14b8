package explain

import (
	"fmt"
	"io"
	"math"

	"grpo/internal/textutil"
)

// Batch is the result of a batch file.
type Batch struct {
	Cases any // a list, for JSON

	file, noun string
	checks     []Check
	table      caseTable
}

// caseTable is the table of a batch.
type caseTable struct {
	columns string     // see [textutil.Align]
	rows    [][]string // the first is the header
	checks  []Check    // of the rows below it
	notes   []string
}

// newBatch collects the checks of the cases.
func newBatch[T any](f File, noun string, cases []T, check func(T) Check, table func([]T, []Check) caseTable) Batch {
	b := Batch{Cases: cases, file: f.Name, noun: noun}
	for _, c := range cases {
		b.checks = append(b.checks, check(c))
	}
	b.table = table(cases, b.checks)
	return b
}

// WriteText writes a table of the cases, with a column for their checks if there are any, and the comparison with
// the file's expected values.
func (b Batch) WriteText(w io.Writer) error {
	all, checked, wrong := b.sum()
	rows := b.table.rows
	if all.Values > 0 {
		rows[0] = append(rows[0], "file's values")
		for i, c := range b.table.checks {
			rows[i+1] = append(rows[i+1], c.String())
		}
	}
	if err := writePage(w, "batch", struct {
		Cases          int
		Noun, File     string
		Columns        string
		Rows           [][]string
		Notes          []string
		All            Check
		Checked, Wrong int
	}{
		len(b.checks), b.noun, textutil.Printable(b.file, 0), b.table.columns, rows, b.table.notes, all, checked, wrong,
	}); err != nil || wrong == 0 {
		return err
	}
	lines := "\n"
	for i, c := range b.checks {
		for _, d := range c.Differences {
			lines += fmt.Sprintf("case %d, %s\n", i, d)
		}
	}
	_, err := io.WriteString(w, lines)
	return err
}

// Disagreement returns an error if a case differs from the expected values of its file. It names
// each quantity of the first such case.
func (b Batch) Disagreement() error {
	_, _, wrong := b.sum()
	for i, c := range b.checks {
		if c.Wrong > 0 {
			return fmt.Errorf("compare with the expected values of %s: %d of %s %s: case %d, %s", b.file, wrong,
				textutil.Count(len(b.checks), "case"), plural(wrong, "differs", "differ"), i,
				each(c.Differences, "; ", Difference.String))
		}
	}
	return nil
}

// sum returns the totals of the checks, and the numbers of cases with expected and with wrong values.
func (b Batch) sum() (all Check, checked, wrong int) {
	for _, c := range b.checks {
		all.Values += c.Values
		all.Worst = max(all.Worst, c.Worst)
		checked += min(c.Values, 1)
		wrong += min(c.Wrong, 1)
	}
	return all, checked, wrong
}

// Two numbers agree if they differ by at most atol + rtol * |expected|; batch.tmpl has the numbers too.
const (
	rtol = 1e-5
	atol = 1e-6
)

// Check compares computed numbers with the expected values of a case; it has no values if there are
// none.
type Check struct {
	Values      int          // number compared
	Wrong       int          // number outside the tolerance
	Worst       float64      // largest difference
	Differences []Difference // one for each quantity that differs
}

// Difference is a quantity, such as the gradient, in which numbers are outside the tolerance.
type Difference struct {
	Name          string
	Index         string // of the first number that differs, such as [1][3]; "" if there is one number
	Got, Want     float64
	Wrong, Values int
}

// String names the first number that differs.
func (d Difference) String() string {
	got := short(d.Got)
	if math.IsInf(d.Got, 1) { // see expected.check
		got = "no metric of this name"
	}
	s := fmt.Sprintf("%s%s: expected %s, got %s", textutil.Printable(d.Name, 43), d.Index, short(d.Want), got)
	if d.Values > 1 {
		s += fmt.Sprintf(" (%d of %d numbers differ)", d.Wrong, d.Values)
	}
	return s
}

// add compares the numbers of one quantity: one number, or a matrix of this many columns.
func (c *Check) add(name string, columns int, got, want []float64) {
	diff := Difference{Name: name, Values: len(want)}
	for i, w := range want {
		c.Values++
		if math.IsNaN(got[i]) && math.IsNaN(w) || got[i] == w {
			continue
		}
		d := math.Abs(got[i] - w)
		if !(d <= c.Worst) {
			c.Worst = d
		}
		if d <= atol+rtol*math.Abs(w) {
			continue
		}
		c.Wrong++
		if diff.Wrong++; diff.Wrong > 1 {
			continue
		}
		diff.Got, diff.Want = got[i], w
		switch {
		case columns > 1:
			diff.Index = fmt.Sprintf("[%d][%d]", i/columns, i%columns)
		case len(want) > 1:
			diff.Index = fmt.Sprintf("[%d]", i)
		}
	}
	if diff.Wrong > 0 {
		c.Differences = append(c.Differences, diff)
	}
}

// String describes the result; "" without expected values.
func (c Check) String() string {
	switch {
	case c.Values == 0:
		return ""
	case c.Wrong == 0:
		return "agrees"
	}
	return "differs: " + each(c.Differences, ", ", func(d Difference) string { return textutil.Printable(d.Name, 43) })
}
