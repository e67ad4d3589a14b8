package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// Limits of one family: its work grows with the square of the pairs.
const (
	maxArms  = 50
	maxSeeds = 10_000 // of an arm
	maxLooks = 20
)

// VerdictOptions are the inputs of [Verdict].
type VerdictOptions struct {
	Arms      []VerdictArm // in the order of the pairs
	Problems  int          // number of problems of which the values count right answers; 0 = shares
	Weight    float64      // the largest difference's own share of the level, see [stats.Ordered]
	Margin    float64      // of equivalence, as a share
	Reference string       // compare every other arm with it; empty = all pairs
	Stopped   []string     // arms without a final value
	Looks     []int        // numbers of seeds at which the comparisons were planned; nil = one look
}

// VerdictArm is an arm with a value for each seed; NaN is a seed that it lacks.
type VerdictArm struct {
	Name   string    `json:"arm"`
	Values []float64 `json:"values"`
}

// DefaultVerdict is a sweep over the learning rate of SmolLM2-135M: right answers to 128 problems with four seeds.
func DefaultVerdict() VerdictOptions {
	return VerdictOptions{
		Arms: []VerdictArm{
			{"1e-5", []float64{114, 108, 110, 117}}, {"3e-5", []float64{103, 111, 116, 109}},
			{"5e-5", []float64{100, 73, 98, 94}}, {"1e-4", []float64{15, 32, 47, 81}},
		},
		Problems: 128, Weight: stats.OrderedWeight, Margin: defaultMargin,
	}
}

const defaultMargin = 0.02

// VerdictTest is what the differences of a comparison say, seed by seed: n, the mean, its t test and
// interval, the bound of [stats.Estimate.Bound] and the p value of [stats.Estimate.TOST]. P and what
// follows from it are NaN with fewer than two seeds in common, but the comparison counts in its family. A
// stopped one has p 1 and the mean square -1.
type VerdictTest struct {
	N          int       `json:"n"`
	Mean       float64   `json:"mean"`
	P          float64   `json:"p"`
	MeanSquare float64   `json:"mean_square"`
	PAdjusted  float64   `json:"p_adjusted"`
	Interval   []float64 `json:"interval"`
	Bound      float64   `json:"bound"`
	TOST       float64   `json:"tost_p"`
}

// VerdictPair compares arm A with arm B: A minus B.
type VerdictPair struct {
	A string `json:"a"`
	B string `json:"b"`
	VerdictTest
	PSequential *float64 `json:"p_sequential,omitempty"` // over the planned looks
}

// p is the p value that decides: over the planned looks where there are any.
func (p VerdictPair) p() float64 {
	if p.PSequential != nil {
		return *p.PSequential
	}
	return p.PAdjusted
}

// VerdictStep takes a pair out of the test; see [stats.OrderedStep].
type VerdictStep struct {
	A         string  `json:"a"`
	B         string  `json:"b"`
	Left      int     `json:"left"`  // pairs before the step
	Share     float64 `json:"share"` // of the level
	P         float64 `json:"p"`
	PAdjusted float64 `json:"p_adjusted"`
}

// VerdictResult is the result of [Verdict].
type VerdictResult struct {
	Arms   []VerdictArm  `json:"arms"`   // values as shares
	Weight float64       `json:"weight"` // 0 if the pairs do not have the same seeds
	Margin float64       `json:"margin"`
	Pairs  []VerdictPair `json:"pairs"`
	Steps  []VerdictStep `json:"steps"`
	Holm   []float64     `json:"p_holm"` // of the pairs, with the weight 0
	Looks  []stats.Look  `json:"looks"`

	options VerdictOptions
}

// Verdict compares arms seed by seed and adjusts for the number of comparisons.
func Verdict(o VerdictOptions) (r VerdictResult, err error) {
	defer named("verdict", &err)
	if r, err = o.family(""); err != nil {
		return r, err
	}
	p, q := ofFamily(r.tests())
	steps := stats.OrderedSteps(p, q, r.Weight)
	for k, s := range steps {
		pair := r.Pairs[s.Index]
		r.Steps = append(r.Steps, VerdictStep{pair.A, pair.B, len(steps) - k, s.Share, p[s.Index], s.Adjusted})
	}
	r.Holm = stats.Holm(p)
	return r, nil
}

func (r VerdictResult) tests() []*VerdictTest {
	tests := make([]*VerdictTest, len(r.Pairs))
	for j := range r.Pairs {
		tests[j] = &r.Pairs[j].VerdictTest
	}
	return tests
}

// family compares the arms. Errors name a field below at.
func (o VerdictOptions) family(at path) (r VerdictResult, err error) {
	r = VerdictResult{Weight: o.Weight, Margin: o.Margin, options: o}
	if err := o.check(at); err != nil {
		return r, err
	}
	if r.Arms, err = o.shares(at.field("arms")); err != nil {
		return r, err
	}
	var pairs [][2]int
	for i, a := range r.Arms {
		for k, b := range r.Arms {
			if o.Reference == "" && i < k || o.Reference == b.Name && i != k {
				pairs = append(pairs, [2]int{i, k})
				r.Pairs = append(r.Pairs, VerdictPair{A: a.Name, B: b.Name})
			}
		}
	}
	if o.Reference != "" && len(pairs) == 0 {
		return r, at.field("reference").errorf("%s", unknownArm(o.Reference, r.Arms))
	}
	var seeds []int // that the first pair has
	for j, pair := range pairs {
		a, b := r.Arms[pair[0]], r.Arms[pair[1]]
		if slices.Contains(o.Stopped, a.Name) || slices.Contains(o.Stopped, b.Name) {
			r.Pairs[j].VerdictTest = stoppedTest()
			continue
		}
		d := stats.Differences(a.Values, b.Values)
		test := newVerdictTest(d, o.Problems, o.Margin)
		if r.Pairs[j].VerdictTest = test; test.N == 0 {
			return r, at.field("arms").field(b.Name).errorf("no seed in common with %s (%s)",
				textutil.Printable(a.Name, 43), `list an arm without final values in "stopped"`)
		}
		if has := stats.FiniteAt(d); test.N > 1 && seeds == nil {
			seeds = has
		} else if test.N > 1 && !slices.Equal(seeds, has) {
			r.Weight = 0
		}
	}
	adjust(r.tests(), r.Weight)
	if o.Looks == nil {
		return r, nil
	}
	r.Looks = stats.LooksAt(o.Looks)
	values := make([][]float64, len(r.Arms))
	for i, a := range r.Arms {
		values[i] = a.Values
	}
	sequential := stats.Sequential(values, pairs, o.Reference == "", r.Looks, o.Weight, resolution(o.Problems))
	for j := range r.Pairs {
		r.Pairs[j].PSequential = &sequential[j]
	}
	return r, nil
}

// check returns an error about the options that are not arms.
func (o VerdictOptions) check(at path) error {
	if err := checkWeight(at, o.Weight, o.Margin); err != nil {
		return err
	}
	if o.Problems < 0 {
		return at.field("problems").errorf("%d; it must be at least 0", o.Problems)
	}
	looks := at.field("looks")
	switch {
	case o.Looks == nil:
		return nil
	case len(o.Looks) == 0:
		return looks.errorf("no looks; leave it out, or give numbers of seeds such as [4, 8, 16]")
	case len(o.Looks) > maxLooks:
		return looks.errorf("more than %d looks", maxLooks)
	}
	before := 1
	for k, n := range o.Looks {
		if n <= before {
			return looks.index(k).errorf("%d; looks are numbers of seeds that increase, from 2", n)
		}
		before = n
	}
	return nil
}

func checkWeight(at path, weight, margin float64) error {
	switch {
	case !(weight >= 0 && weight <= 1):
		return at.field("weight").errorf("%v; it must be from 0 to 1", weight)
	case !(margin > 0) || math.IsInf(margin, 1):
		return at.field("margin").errorf("%v; it must be above 0", margin)
	}
	return nil
}

// shares are the arms with their values as shares. A stopped arm has none, and comes last if it is only
// in the list of stopped ones.
func (o VerdictOptions) shares(at path) (arms []VerdictArm, err error) {
	seen := map[string]bool{}
	for _, a := range o.Arms {
		if seen[a.Name] {
			return nil, at.errorf("two arms with the name %q", textutil.Cut(a.Name, 43))
		}
		seen[a.Name] = true
		if slices.Contains(o.Stopped, a.Name) {
			a.Values = nil
		} else if a.Values, err = shares(at.field(a.Name), a.Values, o.Problems); err != nil {
			return nil, err
		}
		arms = append(arms, a)
	}
	for _, name := range o.Stopped {
		if !seen[name] {
			seen[name], arms = true, append(arms, VerdictArm{Name: name})
		}
	}
	switch {
	case seen[""]:
		return nil, at.errorf("an arm without a name")
	case len(arms) < 2:
		return nil, at.errorf("%s; a comparison needs two", textutil.Count(len(arms), "arm"))
	case len(arms) > maxArms:
		return nil, at.errorf("%d arms; at most %d are compared", len(arms), maxArms)
	}
	return arms, nil
}

// shares divides counts by the number of problems; without problems the values are shares already.
func shares(at path, values []float64, problems int) ([]float64, error) {
	if len(values) == 0 {
		return nil, at.errorf(`no values (list an arm without final values in "stopped")`)
	}
	if len(values) > maxSeeds {
		return nil, at.errorf("%d seeds; at most %d are compared", len(values), maxSeeds)
	}
	out := slices.Clone(values)
	for i, v := range values {
		switch {
		case math.IsNaN(v):
		case math.Abs(v) > 1e100:
			return nil, at.index(i).errorf("%v; it must be from -1e100 to 1e100", v)
		case problems == 0:
		case v < 0 || v > float64(problems):
			return nil, at.index(i).errorf("%v; a count of right answers is from 0 to %d (problems)", v, problems)
		case v != math.Trunc(v):
			return nil, at.index(i).errorf("%v; a count of right answers is a whole number (shares go without problems)", v)
		default:
			out[i] = v / float64(problems)
		}
	}
	return out, nil
}

func unknownArm(name string, arms []VerdictArm) string {
	var known []string
	for _, a := range arms {
		known = append(known, textutil.Printable(a.Name, 43))
	}
	return fmt.Sprintf("unknown arm %q%s", textutil.Cut(name, 43), hint(name, listOf(asText[string])(known)))
}

// resolution is the unit of shares: one of the problems.
func resolution(problems int) float64 {
	if problems == 0 {
		return 0
	}
	return 1 / float64(problems)
}

// newVerdictTest is the test of differences; adjust completes it.
func newVerdictTest(d []float64, problems int, margin float64) VerdictTest {
	e := stats.StudentT(d, resolution(problems))
	t := VerdictTest{
		N: e.N, Mean: e.Mean, P: e.P, MeanSquare: stats.MeanSquare(d),
		Bound: e.Bound(stats.Alpha), TOST: e.TOST(margin),
	}
	if e.N > 1 {
		t.Interval = []float64{e.Lo, e.Hi}
	}
	return t
}

// stoppedTest counts in its family, and cannot be separated.
func stoppedTest() VerdictTest {
	return VerdictTest{P: 1, MeanSquare: -1, Mean: math.NaN(), Bound: math.NaN(), TOST: math.NaN()}
}

// ofFamily has the p values and mean squares of a family. A comparison without a p value stays in it like a
// stopped one.
func ofFamily(tests []*VerdictTest) (p, q []float64) {
	for _, t := range tests {
		if math.IsNaN(t.P) {
			t = &VerdictTest{P: 1, MeanSquare: -1}
		}
		p, q = append(p, t.P), append(q, t.MeanSquare)
	}
	return p, q
}

// adjust sets the adjusted p values of a family.
func adjust(tests []*VerdictTest, weight float64) {
	p, q := ofFamily(tests)
	for j, v := range stats.Ordered(p, q, weight) {
		if tests[j].PAdjusted = v; math.IsNaN(tests[j].P) {
			tests[j].PAdjusted = math.NaN()
		}
	}
}
