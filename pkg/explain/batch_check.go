package explain

import (
	"fmt"
	"io"
	"math"
	"slices"

	"grpo/internal/textutil"
)

// Batch is the result of a batch file.
type Batch struct {
	Cases any // a list, for JSON

	file, noun string
	checks     []Check
	table      caseTable
	calls      []string // the function of each case, if the file has a student's results in place of expected values
}

// HasCalls reports whether the cases are calls of the assignment's functions.
func (b Batch) HasCalls() bool { return b.calls != nil }

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
	rows, values, column := b.table.rows, "expected values", "file's values"
	if b.calls != nil {
		values, column = "your results", "your results"
	}
	if all.Values > 0 {
		rows[0] = append(rows[0], column)
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
		Values, Case   string
		All            Check
		Checked, Wrong int
	}{
		len(b.checks), b.noun, textutil.Printable(b.file, 0), b.table.columns, rows, b.table.notes, values, b.of(),
		all, checked, wrong,
	}); err != nil || wrong == 0 {
		return err
	}
	lines := "\n"
	for i, c := range b.checks {
		for _, d := range c.Differences {
			lines += b.label(i) + ", " + d.String() + "\n"
			if d.Hint != "" {
				lines += "  " + d.Hint + "\n"
			}
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
			with := "the expected values of"
			if b.calls != nil {
				with = "your results in"
			}
			return fmt.Errorf("compare with %s %s: %d of %s %s: %s, %s", with, b.file, wrong,
				textutil.Count(len(b.checks), b.of()), plural(wrong, "differs", "differ"), b.label(i),
				each(c.Differences, "; ", Difference.String))
		}
	}
	return nil
}

// of is what a case is in the sentences about expected values.
func (b Batch) of() string {
	if b.calls != nil {
		return "call"
	}
	return "case"
}

// label names a case: "case 3", or "call 3, masked_mean".
func (b Batch) label(i int) string {
	s := fmt.Sprintf("%s %d", b.of(), i)
	if b.calls != nil {
		s += ", " + b.calls[i]
	}
	return s
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
	Name   string  `json:"name"`
	Index  string  `json:"index"` // of the first number that differs, such as [1][3]; "" if there is one number
	Want   float64 `json:"expected"`
	Got    float64 `json:"got"`
	Wrong  int     `json:"differ"`
	Values int     `json:"values"`
	// Shapes says how the shapes differ; then there are no numbers.
	Shapes string `json:"shapes,omitempty"`
	Hint   string `json:"hint,omitempty"` // the mistake that gives these numbers
}

// String names the first number that differs.
func (d Difference) String() string {
	if d.Shapes != "" {
		return d.Name + ": " + d.Shapes
	}
	got := brief(d.Got)
	if math.IsInf(d.Got, 1) { // see expected.check
		got = "no metric of this name"
	}
	s := fmt.Sprintf("%s%s: expected %s, got %s", textutil.Printable(d.Name, 43), d.Index, brief(d.Want), got)
	if d.Values > 1 {
		s += fmt.Sprintf(" (%d of %d numbers differ)", d.Wrong, d.Values)
	}
	return s
}

// brief is a number in eight digits, more than the tolerance needs, or fewer.
func brief(x float64) string {
	if x == 0 {
		return "0" // not -0
	}
	if s := digits(x, 8); len(s) < len(short(x)) {
		return s
	}
	return short(x)
}

// add compares the numbers of one quantity: one number, a list, or a tensor of this shape.
func (c *Check) add(name string, got, want []float64, shape ...int) {
	diff := Difference{Name: name, Values: len(want)}
	for i, w := range want {
		c.Values++
		if got[i] == w || math.IsNaN(got[i]) && math.IsNaN(w) {
			continue
		}
		if d := math.Abs(got[i] - w); !(d <= c.Worst) {
			c.Worst = d
		}
		if agrees(got[i], w) {
			continue
		}
		c.Wrong++
		if diff.Wrong++; diff.Wrong > 1 {
			continue
		}
		diff.Got, diff.Want, diff.Index = got[i], w, indexOf(i, len(want), shape)
	}
	if diff.Wrong > 0 {
		c.Differences = append(c.Differences, diff)
	}
}

// agrees reports whether two numbers are within the tolerance.
func agrees(got, want float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= atol+rtol*math.Abs(want)
}

// indexOf is the place of element i of n in a tensor of this shape, as [1][3].
func indexOf(i, n int, shape []int) (s string) {
	if len(shape) == 0 && n > 1 {
		shape = []int{n}
	}
	for _, side := range slices.Backward(shape) {
		s = fmt.Sprintf("[%d]", i%side) + s
		i /= side
	}
	return s
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
