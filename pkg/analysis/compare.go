package analysis

import (
	"math"
	"slices"

	"grpo/pkg/stats"
)

// Pair is arm a against arm b, by their indexes.
type Pair struct{ A, B int }

// plan says which arms are compared and over which pairs the p values are
// adjusted.
type plan struct {
	Shown []Pair
	// family holds shown. It is larger where the data chose the arm that the
	// others are compared with: any pair might then have been the one that is
	// shown, so that all of them count.
	family []Pair
	Chosen bool
	grid   *grid
}

func (a *Analysis) Plan() plan {
	if arms := a.TunedArms(); arms != nil {
		return a.tunedPlan(arms)
	}
	p := plan{grid: GridOf(&a.Sweep.Manifest)}
	ref := slices.IndexFunc(a.Arms, func(r ArmResult) bool { return r.Arm.Name == a.Sweep.Manifest.Reference })
	switch {
	case p.grid != nil:
		p.edges(ref)
	case ref >= 0:
		for i := range a.Arms {
			if i != ref {
				p.Shown = append(p.Shown, Pair{i, ref})
			}
		}
	default:
		p.againstBest(a)
		return p
	}
	p.family = p.Shown
	return p
}

// edges are the pairs of a grid that differ in one key, second value against
// first, or whatever it is against the reference. Arms that differ in both keys
// are not compared: their difference would belong to neither.
func (p *plan) edges(ref int) {
	g := p.grid.Arms
	for _, e := range []Pair{{g[1][0], g[0][0]}, {g[1][1], g[0][1]}, {g[0][1], g[0][0]}, {g[1][1], g[1][0]}} {
		if e.A == ref {
			e = Pair{e.B, e.A}
		}
		p.Shown = append(p.Shown, e)
	}
}

func (p *plan) againstBest(a *Analysis) {
	p.Chosen = true
	anchor := a.Best
	if anchor < 0 {
		anchor = bestArm(a.Arms, func(r ArmResult) bool { return !r.Arm.Control })
	}
	if anchor < 0 {
		anchor = 0
	}
	for i := range a.Arms {
		if i != anchor {
			p.Shown = append(p.Shown, Pair{anchor, i})
		}
		for j := range i {
			if !a.Arms[i].Arm.Control || !a.Arms[j].Arm.Control {
				p.family = append(p.family, Pair{i, j})
			}
		}
	}
}

// compareArms fills in the comparisons: the final reward of every pair that is
// shown, the interaction of a grid, then the other metrics.
func (a *Analysis) compareArms(facts []armFacts) {
	p := a.Plan()
	a.Comparisons = append(a.Comparisons, a.compareFamily(facts, p, []string{"final"})...)
	if p.grid != nil {
		a.Comparisons = append(a.Comparisons, a.interaction(facts, p.grid))
	}
	var others []string
	for _, s := range Metrics {
		if s.compared && s.Name != "final" && (s.Name != "entropy" || a.TrainingTemperatures() == nil) {
			others = append(others, s.Name)
		}
	}
	a.Comparisons = append(a.Comparisons, a.compareFamily(facts, p, others)...)
}

// compareFamily compares the metrics of a plan's pairs and adjusts over all of
// its family.
func (a *Analysis) compareFamily(facts []armFacts, p plan, metrics []string) []Comparison {
	var all []Comparison
	for _, metric := range metrics {
		pairs := slices.Clone(p.Shown)
		for _, q := range p.family {
			if !slices.Contains(pairs, q) && !slices.Contains(pairs, Pair{q.B, q.A}) {
				pairs = append(pairs, q)
			}
		}
		for _, q := range pairs {
			all = append(all, a.comparePair(facts, metric, q))
		}
	}
	ps := make([]float64, len(all))
	family := 0
	for i, c := range all {
		ps[i] = c.P
		if stats.IsFinite(c.P) {
			family++
		}
	}
	var out []Comparison
	for i, adjusted := range stats.Holm(ps) {
		c := all[i]
		if !slices.Contains(p.Shown, Pair{c.ArmA, c.ArmB}) {
			continue
		}
		c.Family = family
		c.adjust(adjusted)
		out = append(out, c)
	}
	return out
}

func (a *Analysis) comparePair(facts []armFacts, metric string, q Pair) Comparison {
	spec := MetricOf(metric)
	x, y := a.Arms[q.A].Of(spec), a.Arms[q.B].Of(spec)
	c := newComparison(stats.Differences(x.Values, y.Values), max(spec.resolution(&facts[q.A]), spec.resolution(&facts[q.B])))
	if least, most := spec.bounds(&facts[q.A]); stats.IsFinite(least) && stats.IsFinite(most) && c.N > 1 {
		c.Lo, c.Hi = max(c.Lo, least-most), min(c.Hi, most-least)
	}
	c.Kind, c.Metric = KindPair, metric
	c.A, c.B, c.ArmA, c.ArmB = a.Arms[q.A].Arm.Name, a.Arms[q.B].Arm.Name, q.A, q.B
	return c
}

// Find returns the comparison of two arms in a metric, turned so that it reads
// a - b; nil where it is not among those shown.
func (a *Analysis) Find(metric string, x, y int) *Comparison {
	for _, c := range a.Comparisons {
		if c.Kind != KindPair || c.Metric != metric {
			continue
		}
		switch {
		case c.ArmA == x && c.ArmB == y:
			return &c
		case c.ArmA == y && c.ArmB == x:
			t := c.Swapped()
			return &t
		}
	}
	return nil
}

// turned is the comparison B - A.
func (c Comparison) Swapped() Comparison {
	c.Reversed = !c.Reversed
	c.A, c.B, c.ArmA, c.ArmB = c.B, c.A, c.ArmB, c.ArmA
	c.Mean, c.Lo, c.Hi = -c.Mean, -c.Hi, -c.Lo
	c.Diffs = slices.Clone(c.Diffs)
	for i := range c.Diffs {
		c.Diffs[i] = -c.Diffs[i]
	}
	return c
}

// newComparison is the comparison of paired differences before any adjustment.
func newComparison(diffs []float64, resolution float64) Comparison {
	e := stats.StudentT(diffs, resolution)
	return Comparison{
		Diffs: diffs, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi,
		P: e.P, PHolm: e.P, Resolution: resolution,
	}
}

// targetPower is the power of [Comparison.SeedsNeeded].
const targetPower = 0.8

// adjust sets the adjusted p value and what follows from it.
func (c *Comparison) adjust(p float64) {
	c.PHolm = p
	c.Separable = p <= stats.Alpha
	c.SeedsNeeded = 0
	if c.Separable || c.N < 2 || c.Mean == 0 || c.Metric != "final" {
		return
	}
	sd := max(c.SD, c.Resolution)
	if !(sd > 0) {
		return
	}
	alpha := stats.Alpha
	if c.P > 0 && p > c.P {
		alpha *= c.P / p // the level that the adjustment leaves for this comparison
	}
	if c.SeedsNeeded = stats.PairsForPower(math.Abs(c.Mean)/sd, alpha, targetPower); c.SeedsNeeded == 0 {
		c.SeedsNeeded = stats.MaxPairs + 1
	}
}
