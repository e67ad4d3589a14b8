package explain

import (
	"fmt"
	"math"
	"strings"

	"grpo/internal/textutil"
)

// Two numbers agree if they differ by at most atol + rtol * |expected|.
const (
	rtol = 1e-5
	atol = 1e-6
)

// Check compares computed numbers with the expected values of a file.
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

// add compares one number.
func (c *Check) add(name string, got, want float64) {
	c.addAll(name, []float64{got}, []float64{want}, func(int) string { return "" })
}

// addAll compares the numbers of one quantity; index names the place of the i-th.
func (c *Check) addAll(name string, got, want []float64, index func(i int) string) {
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
		if !(d <= atol+rtol*math.Abs(w)) {
			c.Wrong++
			if diff.Wrong++; diff.Wrong == 1 {
				diff.Index, diff.Got, diff.Want = index(i), got[i], w
			}
		}
	}
	if diff.Wrong > 0 {
		c.Differences = append(c.Differences, diff)
	}
}

// orNil returns nil for a check without values.
func (c *Check) orNil() *Check {
	if c.Values == 0 {
		return nil
	}
	return c
}

// String describes the result; "" for a nil check.
func (c *Check) String() string {
	switch {
	case c == nil:
		return ""
	case c.Wrong == 0:
		return "agrees"
	}
	var names []string
	for _, d := range c.Differences {
		names = append(names, textutil.Printable(d.Name, 43))
	}
	return "differs: " + strings.Join(names, ", ")
}

// Case is a case of a batch file.
type Case interface{ check() *Check }

func (c LossCase) check() *Check      { return c.Check }
func (c AdvantageCase) check() *Check { return c.Check }
func (c RewardCase) check() *Check    { return c.Check }

func checksOf[T Case](cases []T) []*Check {
	checks := make([]*Check, len(cases))
	for i, c := range cases {
		checks[i] = c.check()
	}
	return checks
}

// Disagreement returns an error if a case differs from the expected values of its file. It names
// each quantity of the first such case.
func Disagreement[T Case](file string, cases []T) error {
	wrong, first := 0, ""
	for i, check := range checksOf(cases) {
		if check == nil || check.Wrong == 0 {
			continue
		}
		if wrong++; wrong == 1 {
			first = fmt.Sprintf("case %d, ", i) + each(check.Differences, "; ", Difference.String)
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("compare with the expected values of %s: %d of %s %s: %s", file, wrong,
		textutil.Count(len(cases), "case"), plural(wrong, "differs", "differ"), first)
}

// caseTable writes a table of cases, with a column for the checks of its rows if there are any; row
// 0 is the header.
func (p *page) caseTable(align string, table [][]string, checks []*Check) {
	for i, row := range table {
		switch {
		case sum(checks).Values == 0:
		case i == 0:
			table[i] = append(row, "file's values")
		default:
			table[i] = append(row, checks[i-1].String())
		}
	}
	p.table(align, table...)
	p.gap()
}

// checks summarizes the comparison with the file's expected values.
func (p *page) checks(checks []*Check) {
	all := sum(checks)
	if all.Values == 0 {
		return
	}
	checked, wrong := 0, 0
	for _, c := range checks {
		if c != nil {
			checked++
			wrong += min(c.Wrong, 1)
		}
	}
	p.gap()
	cases := textutil.Count(checked, "case")
	if wrong == 0 {
		p.paragraph(`The file has expected values for %s: all %s agree within %s + %s * |expected| (largest
			difference %s).`,
			cases, textutil.Count(all.Values, "number"), short(atol), short(rtol), digits(all.Worst, 1))
	} else {
		p.paragraph(`The file has expected values for %s, and %d %s by more than %s + %s * |expected| (largest
			difference %s).`,
			cases, wrong, plural(wrong, "differs", "differ"), short(atol), short(rtol), digits(all.Worst, 3))
		p.differences(checks)
	}
}

// differences lists what differs, by the number of the case.
func (p *page) differences(checks []*Check) {
	p.gap()
	for i, c := range checks {
		if c == nil {
			continue
		}
		for _, d := range c.Differences {
			p.line("case %d, %s", i, d)
		}
	}
}

func sum(checks []*Check) (all Check) {
	for _, c := range checks {
		if c != nil {
			all.Values += c.Values
			all.Worst = max(all.Worst, c.Worst)
		}
	}
	return all
}
