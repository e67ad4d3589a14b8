package explain

import (
	"fmt"
	"math"

	"grpo/internal/textutil"
)

// Two numbers agree if they differ by at most atol + rtol * |expected|.
const (
	rtol = 1e-5
	atol = 1e-6
)

// Check compares computed numbers with the expected values of a file.
type Check struct {
	Values int     // number compared
	Wrong  int     // number outside the tolerance
	Worst  float64 // largest difference
	First  string  // first wrong one, in the order of names
}

func (c *Check) add(name string, got, want float64) {
	c.Values++
	if math.IsNaN(got) && math.IsNaN(want) || got == want {
		return
	}
	d := math.Abs(got - want)
	if !(d <= c.Worst) {
		c.Worst = d
	}
	if !(d <= atol+rtol*math.Abs(want)) {
		c.Wrong++
		if c.First == "" || name < c.First {
			c.First = name
		}
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
	return fmt.Sprintf("differs: %s (%d of %d)", textutil.Printable(c.First, 43), c.Wrong, c.Values)
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
