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

	file   string
	noun   string // of one case
	checks []Check
	table  func(*page)
}

// newBatch collects the checks of the cases.
func newBatch[T any](f File, noun string, cases []T, check func(T) Check, table func(*page, []T, []Check)) Batch {
	b := Batch{Cases: cases, file: f.Name, noun: noun}
	for _, c := range cases {
		b.checks = append(b.checks, check(c))
	}
	b.table = func(p *page) { table(p, cases, b.checks) }
	return b
}

// WriteText writes a table of the cases, and the comparison with the file's expected values.
func (b Batch) WriteText(w io.Writer) error {
	p := &page{}
	p.title("%s of %s", textutil.Count(len(b.checks), b.noun), b.file)
	b.table(p)
	all, checked, wrong := b.sum()
	if all.Values == 0 {
		return p.writeTo(w)
	}
	p.gap()
	agreement, worst := fmt.Sprintf("all %s agree within", textutil.Count(all.Values, "number")), digits(all.Worst, 1)
	if wrong > 0 {
		agreement = fmt.Sprintf("and %d %s by more than", wrong, plural(wrong, "differs", "differ"))
		worst = digits(all.Worst, 3)
	}
	p.paragraph("The file has expected values for %s%s %s %s + %s * |expected| (largest difference %s).",
		textutil.Count(checked, "case"), plural(min(wrong, 1), ",", ":"), agreement, short(atol), short(rtol), worst)
	if wrong > 0 {
		p.gap()
	}
	for i, c := range b.checks {
		for _, d := range c.Differences {
			p.line("case %d, %s", i, d)
		}
	}
	return p.writeTo(w)
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

// caseTable writes a table of cases, with a column for the checks of its rows if there are any; row
// 0 is the header.
func (p *page) caseTable(align string, table [][]string, checks []Check) {
	if all, _, _ := (Batch{checks: checks}).sum(); all.Values > 0 {
		table[0] = append(table[0], "file's values")
		for i, c := range checks {
			table[i+1] = append(table[i+1], c.String())
		}
	}
	p.table(align, table...)
	p.gap()
}

// Two numbers agree if they differ by at most atol + rtol * |expected|.
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
