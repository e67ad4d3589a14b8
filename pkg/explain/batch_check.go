package explain

import (
	"fmt"
	"math"
	"slices"
)

// Tolerances of the comparison with values that stand in a batch file: two
// numbers agree if they differ by at most atol + rtol times the expected one.
const (
	rtol = 1e-5
	atol = 1e-6
)

// Check compares computed numbers with those that a file expects.
type Check struct {
	Values int     // compared
	Wrong  int     // that differ by more than the tolerance
	Worst  float64 // largest difference
	First  string  // the name of the first that is wrong, in the order of names
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

// String says how the comparison went; it is "" for a nil check.
func (c *Check) String() string {
	switch {
	case c == nil:
		return ""
	case c.Wrong == 0:
		return "agrees"
	}
	return fmt.Sprintf("differs: %s (%d of %d)", shown(c.First), c.Wrong, c.Values)
}

// wanted are the values that a case of a file says to expect.
type wanted struct {
	loss    *float64
	grad    []float64
	metrics map[string]float64
}

// readWanted reads the expected values of a case, under the source's names.
func readWanted(f *fields, grad string) (w wanted) {
	w.loss = f.floatOrNil("loss")
	if n, ok := f.get(grad); ok {
		x, _, _, err := n.matrix(true)
		if err != nil {
			f.fail(err)
		}
		w.grad = x
	}
	if n, ok := f.get("metrics"); ok {
		m := n.fields()
		if m.err != nil {
			f.fail(m.err)
			return w
		}
		w.metrics = map[string]float64{}
		for _, name := range m.order {
			w.metrics[name] = m.float(name, math.NaN())
		}
		if m.err != nil {
			f.fail(m.err)
		}
	}
	return w
}

func (w wanted) check(got LossResult) (*Check, error) {
	c := &Check{}
	if w.loss != nil {
		c.add("loss", got.Loss, *w.loss)
	}
	if w.grad != nil {
		flat := slices.Concat(got.Grad...)
		if len(w.grad) != len(flat) {
			return nil, fmt.Errorf("the expected gradient has %d numbers, the batch %d tokens", len(w.grad), len(flat))
		}
		for i, g := range flat {
			c.add("gradient", g, w.grad[i])
		}
	}
	for name, x := range w.metrics {
		g, ok := got.Metrics[name]
		if !ok {
			g = math.Inf(1) // a metric that is not computed here agrees with nothing
		}
		c.add(name, g, x)
	}
	if c.Values == 0 {
		return nil, nil
	}
	return c, nil
}
