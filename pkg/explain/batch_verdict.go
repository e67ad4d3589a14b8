package explain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// Limits of a file, whose cases may be small and their work large.
const (
	maxWork      = 1 << 26 // squares of the numbers of pairs, once more for each look
	maxTables    = 1 << 18 // of the tests of collapse
	maxCollapsed = 100     // seeds of an arm in such a test
)

// VerdictCase is the result of a case: pairs of arms, contrasts of a grid, the test of two rates of
// collapse, or a comparison with seeds and problems as two sources of chance.
type VerdictCase struct {
	Pairs     []VerdictPair     `json:"pairs,omitempty"`
	Contrasts []VerdictContrast `json:"contrasts,omitempty"`
	Weight    *float64          `json:"weight,omitempty"` // that was used: 0 if the pairs do not have the same seeds

	// See [stats.Crossed].
	Mean   *float64 `json:"mean,omitempty"`
	A      *float64 `json:"a,omitempty"`
	B      *float64 `json:"b,omitempty"`
	R      *float64 `json:"r,omitempty"`
	V      *float64 `json:"v,omitempty"`
	PSeeds *float64 `json:"p_seeds,omitempty"` // with A alone

	P         *float64     `json:"p,omitempty"` // of collapse, or with V
	FisherP   *float64     `json:"fisher_p,omitempty"`
	Intervals [][2]float64 `json:"intervals,omitempty"` // of the two rates of collapse

	name string // of a comparison without arms
}

// VerdictContrast is one of the three questions of a grid; see [stats.Contrasts].
type VerdictContrast struct {
	Contrast string `json:"contrast"`
	VerdictTest
}

type verdictFields struct {
	Arms      members[values]  `json:"arms"`
	Problems  int              `json:"problems"`
	Weight    *float64         `json:"weight"`
	Margin    *float64         `json:"margin"`
	Reference *string          `json:"reference"`
	Stopped   []string         `json:"stopped"`
	Looks     values           `json:"looks"`
	Grid      *gridFields      `json:"grid"`
	Collapse  values           `json:"collapse"`
	BySeed    members[bitRows] `json:"problems_by_seed"`
}

// gridFields are the cells of a grid: x10 has the second value of the first key and the first of the second key.
type gridFields struct {
	X00 values `json:"x00"`
	X01 values `json:"x01"`
	X10 values `json:"x10"`
	X11 values `json:"x11"`
}

// Verdicts reads a batch of comparisons and tests each, in the order of the file.
func Verdicts(f File) (Batch, error) {
	cases, err := verdicts(f)
	return newBatch(f, "case", cases, func(VerdictCase) Check { return Check{} }, verdictTable), err
}

func verdicts(f File) (cases []VerdictCase, err error) {
	defer func() { f.wrap("verdict", &err) }()
	if f, err = f.listed(); err != nil {
		return nil, err
	}
	var in struct {
		Cases []verdictFields `json:"cases"`
	}
	if err := f.decode(&in); err != nil {
		return nil, err
	}
	if len(in.Cases) == 0 {
		return nil, path("/cases").errorf("no cases")
	}
	work, tables := 0, 0
	return readCases("cases", in.Cases, func(c verdictFields, at path) (out VerdictCase, err error) {
		if out, err = c.verdict(at); err != nil {
			return out, err
		}
		work += len(out.Pairs) * len(out.Pairs) * (1 + len(c.Looks))
		if c.Collapse != nil {
			tables += int((c.Collapse[1] + 1) * (c.Collapse[3] + 1))
		}
		if work > maxWork || tables > maxTables {
			return out, at.errorf("the cases up to this one are too many comparisons (split the file)")
		}
		return out, nil
	})
}

// verdict computes one case.
func (c verdictFields) verdict(at path) (VerdictCase, error) {
	forms := []struct {
		name    string
		given   bool
		compute func(path) (VerdictCase, error)
		options string // that have an effect
	}{
		{"arms", c.Arms != nil, c.pairs, "problems weight margin reference stopped looks"},
		{"grid", c.Grid != nil, c.contrasts, "problems weight margin"},
		{"collapse", c.Collapse != nil, c.collapse, ""},
		{"problems_by_seed", c.BySeed != nil, c.crossed, ""},
	}
	form := -1
	for k, f := range forms {
		if f.given && form >= 0 {
			return VerdictCase{}, at.field(f.name).errorf("a case has one comparison; this one has %s already", forms[form].name)
		}
		if f.given {
			form = k
		}
	}
	if form < 0 {
		return VerdictCase{}, at.errorf("nothing to compare: give arms, grid, collapse or problems_by_seed")
	}
	for _, option := range []struct {
		name  string
		given bool
	}{
		{"problems", c.Problems != 0}, {"weight", c.Weight != nil}, {"margin", c.Margin != nil},
		{"reference", c.Reference != nil}, {"stopped", c.Stopped != nil}, {"looks", c.Looks != nil},
	} {
		if option.given && !slices.Contains(strings.Fields(forms[form].options), option.name) {
			return VerdictCase{}, at.field(option.name).errorf("it has no effect on a case of %s", forms[form].name)
		}
	}
	return forms[form].compute(at)
}

// options are those of the case with their defaults.
func (c verdictFields) options() VerdictOptions {
	o := VerdictOptions{Problems: c.Problems, Weight: stats.OrderedWeight, Margin: defaultMargin, Stopped: c.Stopped}
	if c.Weight != nil {
		o.Weight = *c.Weight
	}
	if c.Margin != nil {
		o.Margin = *c.Margin
	}
	return o
}

func (c verdictFields) pairs(at path) (VerdictCase, error) {
	o := c.options()
	for _, a := range c.Arms {
		o.Arms = append(o.Arms, VerdictArm{a.name, a.value})
	}
	if c.Reference != nil {
		if o.Reference = *c.Reference; o.Reference == "" {
			return VerdictCase{}, at.field("reference").errorf("an arm without a name")
		}
	}
	if c.Looks != nil {
		o.Looks = []int{}
	}
	for k, n := range c.Looks {
		if n != math.Trunc(n) || math.Abs(n) > maxSeeds {
			return VerdictCase{}, at.field("looks").index(k).errorf("%s; it must be a whole number up to %d",
				orNull(n), maxSeeds)
		}
		o.Looks = append(o.Looks, int(n))
	}
	r, err := o.family(at)
	return VerdictCase{Pairs: r.Pairs, Weight: &r.Weight}, err
}

func (c verdictFields) contrasts(at path) (VerdictCase, error) {
	o := c.options()
	if err := checkWeight(at, o.Weight, o.Margin); err != nil {
		return VerdictCase{}, err
	}
	cells := []struct {
		name   string
		values values
	}{{"x00", c.Grid.X00}, {"x01", c.Grid.X01}, {"x10", c.Grid.X10}, {"x11", c.Grid.X11}}
	var x [4][]float64
	for i, cell := range cells {
		field := at.field("grid").field(cell.name)
		if cell.values == nil {
			return VerdictCase{}, field.errorf("missing")
		}
		if n, want := len(cell.values), len(cells[0].values); n != want {
			return VerdictCase{}, field.errorf("%s; x00 has %d (null is a seed that is missing)",
				textutil.Count(n, "value"), want)
		}
		var err error
		if x[i], err = shares(field, cell.values, o.Problems); err != nil {
			return VerdictCase{}, err
		}
	}
	out := VerdictCase{Weight: &o.Weight}
	var tests []*VerdictTest
	for k, d := range stats.Contrasts(x[0], x[1], x[2], x[3]) {
		test := newVerdictTest(d, o.Problems, o.Margin)
		if test.N == 0 {
			return VerdictCase{}, at.field("grid").errorf("no seed that all four cells have")
		}
		out.Contrasts = append(out.Contrasts, VerdictContrast{[]string{"first", "second", "interaction"}[k], test})
	}
	for k := range out.Contrasts {
		tests = append(tests, &out.Contrasts[k].VerdictTest)
	}
	adjust(tests, o.Weight)
	return out, nil
}

// orNull formats a number of a file.
func orNull(x float64) string {
	if math.IsNaN(x) {
		return "null"
	}
	return short(x)
}

func (c verdictFields) collapse(at path) (out VerdictCase, err error) {
	at = at.field("collapse")
	if len(c.Collapse) != 4 {
		return out, at.errorf("%s; it must be [x, n, y, m]: x of n seeds collapsed, and y of m",
			textutil.Count(len(c.Collapse), "number"))
	}
	var k [4]int
	for i, v := range c.Collapse {
		least, most := 1.0, float64(maxCollapsed)
		if i%2 == 0 {
			least, most = 0, c.Collapse[i+1]
		}
		if v != math.Trunc(v) || v < least || v > most {
			if math.IsNaN(most) {
				most = maxCollapsed
			}
			return out, at.index(i).errorf("%s; it must be a whole number from %v to %v", orNull(v), least, most)
		}
		k[i] = int(v)
	}
	p, fisher := stats.Collapse(k[0], k[1], k[2], k[3])
	out = VerdictCase{P: &p, FisherP: &fisher, name: fmt.Sprintf("%d of %d, %d of %d collapsed", k[0], k[1], k[2], k[3])}
	for i := 0; i < 4; i += 2 {
		lo, hi := stats.ClopperPearson(k[i], k[i+1], stats.Alpha)
		out.Intervals = append(out.Intervals, [2]float64{lo, hi})
	}
	return out, nil
}

func (c verdictFields) crossed(at path) (out VerdictCase, err error) {
	at = at.field("problems_by_seed")
	if len(c.BySeed) != 2 {
		return out, at.errorf("%s; it must have two", textutil.Count(len(c.BySeed), "arm"))
	}
	var x [2][][]float64
	var means [2][]float64
	first := c.BySeed[0]
	for i, arm := range c.BySeed {
		field := at.field(arm.name)
		switch {
		case len(arm.value) < 2:
			return out, field.errorf("%s; at least 2 are compared", textutil.Count(len(arm.value), "seed"))
		case len(arm.value) != len(first.value):
			return out, field.errorf("%d seeds; %s has %d", len(arm.value), textutil.Printable(first.name, 43), len(first.value))
		}
		for s, row := range arm.value {
			switch {
			case len(row) < 2:
				return out, field.index(s).errorf("%s; at least 2 are compared", textutil.Count(len(row), "problem"))
			case len(row) != len(first.value[0]):
				return out, field.index(s).errorf("%d problems; the first seed has %d", len(row), len(first.value[0]))
			}
			right := make([]float64, len(row))
			for p := range row {
				right[p] = float64(row[p] - '0')
			}
			x[i] = append(x[i], right)
			means[i] = append(means[i], float64(strings.Count(row, "1"))/float64(len(row)))
		}
	}
	problems := len(first.value[0])
	v := stats.CrossedVariance(x[0], x[1], resolution(problems))
	bySeeds := stats.StudentT(stats.Differences(means[0], means[1]), resolution(problems))
	both := bySeeds.With(v.SE())
	return VerdictCase{
		Mean: &v.Mean, A: &v.A, B: &v.B, R: &v.R, V: &v.V, PSeeds: &bySeeds.P, P: &both.P,
		name: fmt.Sprintf("%s - %s, %d problems", armName(first.name), armName(c.BySeed[1].name), problems),
	}, nil
}

func verdictTable(cases []VerdictCase, _ []Check) caseTable {
	t := caseTable{
		columns: "rlr", rows: [][]string{{"case", "comparison", "mean", "p", "adjusted p", "95% interval", "X", "TOST"}},
	}
	row := func(i int, name string, x VerdictTest) {
		interval := "-"
		if x.Interval != nil {
			interval = "[" + cell(x.Interval[0]) + ", " + cell(x.Interval[1]) + "]"
		}
		t.rows = append(t.rows, []string{
			strconv.Itoa(i), name, cell(x.Mean), cell(x.P), cell(x.PAdjusted), interval, cell(x.Bound), cell(x.TOST),
		})
	}
	nan := math.NaN()
	for i, c := range cases {
		for _, p := range c.Pairs {
			name := armName(p.A) + " - " + armName(p.B)
			if p.PSequential != nil {
				name += ", planned looks p " + cell(*p.PSequential)
			}
			row(i, name, p.VerdictTest)
		}
		for _, x := range c.Contrasts {
			row(i, x.Contrast, x.VerdictTest)
		}
		if c.P != nil {
			x := VerdictTest{Mean: nan, P: *c.P, PAdjusted: nan, Bound: nan, TOST: nan}
			if c.Mean != nil {
				x.Mean = *c.Mean
			}
			row(i, c.name, x)
		}
	}
	t.notes = []string{"X: the arms differ by at most X (95%). --json has more, in all digits."}
	return t
}
