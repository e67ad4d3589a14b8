package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Kinds of comparisons.
const (
	// KindPair is one arm against another.
	KindPair = "pair"
	// KindInteraction is a difference of differences in a grid of two keys with
	// two values each: A and B are not arms, but name the two differences.
	KindInteraction = "interaction"
)

// Comparison is the paired difference A - B of one metric over the seeds that both
// arms have. The planned comparison fixes the order of A and B, and every sentence,
// table and figure keeps it: a signed difference is always A - B.
type Comparison struct {
	Kind   string    `json:"kind"`
	A      string    `json:"a"` // arm names
	B      string    `json:"b"`
	Metric string    `json:"metric"` // "final", "completion_length", ...: its JSON name
	Diffs  []float64 `json:"differences"`
	N      int       `json:"n"`
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"`
	Lo     float64   `json:"lo"`
	Hi     float64   `json:"hi"`
	P      float64   `json:"p"` // two-sided
	// PHolm is P after Holm's adjustment over its family: for the final reward, the
	// planned comparisons, or all pairs of arms where the data chose the arm that the
	// others are compared with; all comparisons of all other metrics together are the
	// second family; the interaction is a family of its own.
	PHolm float64 `json:"p_adjusted"`
	// Separable: the difference differs from 0 at the 5% level after the adjustment.
	Separable bool `json:"separable"`
	// SeedsNeeded estimates the seeds that would separate a difference of this size
	// with a power of 80%; 1001 means more than 1000. It is 0 where the difference is
	// separable already, where nothing can be estimated, and for metrics other than
	// the final reward.
	SeedsNeeded int `json:"seeds_needed"`

	// Text is the sentence of package report; empty in an analysis.
	Text string `json:"text"`

	Resolution float64 // the unit in which the metric is counted
	Family     int     // size of the family over which P was adjusted
	ArmA, ArmB int     // indexes of the arms; -1 for an interaction
	Reversed   bool    // the order of A and B is not that of the plan
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
	sd := max(c.SD, c.Resolution)
	if c.Separable || c.N < 2 || c.Mean == 0 || c.Metric != FinalMetric.Name || !(sd > 0) {
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

// swapped is the comparison B - A.
func (c Comparison) swapped() Comparison {
	c.Reversed = !c.Reversed
	c.A, c.B, c.ArmA, c.ArmB = c.B, c.A, c.ArmB, c.ArmA
	c.Mean, c.Lo, c.Hi = -c.Mean, -c.Hi, -c.Lo
	c.Diffs = slices.Clone(c.Diffs)
	for i := range c.Diffs {
		c.Diffs[i] = -c.Diffs[i]
	}
	return c
}

// Find returns the comparison of two arms in a metric as x - y; nil where it is not
// among those shown.
func (a *Analysis) Find(metric string, x, y int) *Comparison {
	for _, c := range a.Comparisons {
		if c.Kind != KindPair || c.Metric != metric {
			continue
		}
		switch {
		case c.ArmA == x && c.ArmB == y:
			return &c
		case c.ArmA == y && c.ArmB == x:
			c = c.swapped()
			return &c
		}
	}
	return nil
}

// pair is arm a against arm b, by their indexes.
type pair struct{ a, b int }

// plan says which arms are compared and over which pairs the p values are adjusted.
type plan struct {
	shown []pair
	// family holds shown. It is larger where the data chose the arm that the others
	// are compared with: any pair might have been shown, so all of them count.
	family []pair
	chosen bool
	grid   *grid
}

func (a *Analysis) plan() plan {
	m := &a.Sweep.Manifest
	if m.BestOver != "" {
		return a.tunedPlan()
	}
	p := plan{grid: gridOf(m)}
	ref := slices.IndexFunc(a.Arms, func(r ArmResult) bool { return r.Arm.Name == m.Reference })
	switch {
	case p.grid != nil:
		// The pairs that differ in one key, second value minus first, or the other arm
		// minus the reference. Arms that differ in both keys are not compared: their
		// difference would belong to neither key.
		g := p.grid.Arms
		p.shown = []pair{{g[1][0], g[0][0]}, {g[1][1], g[0][1]}, {g[0][1], g[0][0]}, {g[1][1], g[1][0]}}
		for i, q := range p.shown {
			if q.a == ref {
				p.shown[i] = pair{q.b, q.a}
			}
		}
	case ref >= 0:
		for i := range a.Arms {
			if i != ref {
				p.shown = append(p.shown, pair{i, ref})
			}
		}
	default:
		a.againstBest(&p)
		return p
	}
	p.family = p.shown
	return p
}

func (a *Analysis) againstBest(p *plan) {
	p.chosen = true
	anchor := a.Best
	if anchor < 0 {
		anchor = max(0, bestArm(a.Arms, func(r ArmResult) bool { return !r.Arm.Control }))
	}
	for i := range a.Arms {
		if i != anchor {
			p.shown = append(p.shown, pair{anchor, i})
		}
		for j := range i {
			if !a.Arms[i].Arm.Control || !a.Arms[j].Arm.Control {
				p.family = append(p.family, pair{i, j})
			}
		}
	}
}

// compareArms fills in the comparisons: the final reward of every pair that is
// shown, the interaction of a grid, then the other metrics.
func (a *Analysis) compareArms() {
	p := a.plan()
	a.Comparisons = append(a.Comparisons, a.compareFamily(p, FinalMetric)...)
	if p.grid != nil {
		a.Comparisons = append(a.Comparisons, a.interaction(p.grid))
	}
	var others []*Metric
	for _, m := range Metrics {
		if m.compared && m != FinalMetric && (m != EntropyMetric || a.TrainingTemperatures() == nil) {
			others = append(others, m)
		}
	}
	a.Comparisons = append(a.Comparisons, a.compareFamily(p, others...)...)
}

// compareFamily compares the metrics of a plan's pairs and adjusts over all of its
// family.
func (a *Analysis) compareFamily(p plan, metrics ...*Metric) []Comparison {
	pairs := slices.Clone(p.shown)
	for _, q := range p.family {
		if !slices.Contains(pairs, q) && !slices.Contains(pairs, pair{q.b, q.a}) {
			pairs = append(pairs, q)
		}
	}
	var all, out []Comparison
	var ps []float64
	for _, m := range metrics {
		for _, q := range pairs {
			c := a.comparePair(m, q)
			all, ps = append(all, c), append(ps, c.P)
		}
	}
	family := len(stats.Finite(ps))
	for i, adjusted := range stats.Holm(ps) {
		c := all[i]
		if slices.Contains(p.shown, pair{c.ArmA, c.ArmB}) {
			c.Family = family
			c.adjust(adjusted)
			out = append(out, c)
		}
	}
	return out
}

func (a *Analysis) comparePair(m *Metric, q pair) Comparison {
	x, y := &a.Arms[q.a], &a.Arms[q.b]
	diffs := stats.Differences(x.Of(m).Values, y.Of(m).Values)
	c := newComparison(diffs, max(m.resolution(x), m.resolution(y)))
	if least, most := m.bounds(x); stats.IsFinite(least) && stats.IsFinite(most) && c.N > 1 {
		c.Lo, c.Hi = max(c.Lo, least-most), min(c.Hi, most-least)
	}
	c.Kind, c.Metric = KindPair, m.Name
	c.A, c.B, c.ArmA, c.ArmB = x.Arm.Name, y.Arm.Name, q.a, q.b
	return c
}

// identical reports two arms whose finished runs, seed by seed, ended with the same
// weights and the same evaluations.
func (a *Analysis) identical(x, y int) bool {
	pairs := 0
	for i, run := range a.Arms[x].Runs {
		r, s := run.Run, a.Arms[y].Runs[i].Run
		if r == nil || s == nil || r.Result == nil || s.Result == nil {
			continue
		}
		weights := r.Result.WeightsSHA256
		if weights == "" || weights != s.Result.WeightsSHA256 || rundir.CompareEvals(r.Evals, s.Evals) != nil {
			return false
		}
		pairs++
	}
	return pairs > 0
}

// A factor is a key of a grid with its two values.
type factor struct {
	Label  string
	Values [2]string
}

// grid is a sweep of two keys with two values each: Arms[i][j] has value i of the
// first factor and value j of the second.
type grid struct {
	Factors [2]factor
	Arms    [2][2]int
}

// gridOf finds the grid in a manifest: two axes with two values each, or four arms
// that set the same two keys to all combinations of two values. nil where there is
// none.
func gridOf(m *sweepdir.Manifest) *grid {
	if m.BestOver != "" || len(m.Arms) != 4 {
		return nil
	}
	var labels, keys []string
	for _, axis := range m.Axes {
		labels = append(labels, cmp.Or(axis.Label, axis.Key))
	}
	if len(m.Axes) == 0 {
		for _, o := range m.Arms[0].Set {
			labels, keys = append(labels, lastPart(o.Key)), append(keys, o.Key)
		}
	}
	if len(labels) != 2 {
		return nil
	}
	g := &grid{Factors: [2]factor{{Label: labels[0]}, {Label: labels[1]}}}
	var values [2][]string
	taken := map[[2]int]bool{}
	for i, arm := range m.Arms {
		point := arm.Point
		if keys != nil {
			point = valuesOf(arm.Set, keys)
		}
		if len(point) != 2 {
			return nil
		}
		var at [2]int
		for k, value := range point {
			if at[k] = slices.Index(values[k], value); at[k] < 0 {
				at[k] = len(values[k])
				values[k] = append(values[k], value)
			}
		}
		if at[0] > 1 || at[1] > 1 || taken[at] {
			return nil
		}
		taken[at] = true
		g.Arms[at[0]][at[1]] = i
	}
	for k := range g.Factors {
		g.Factors[k].Values = [2]string(values[k])
	}
	return g
}

// valuesOf are the values of the keys; nil unless just these are set.
func valuesOf(set []sweepdir.Override, keys []string) []string {
	var out []string
	for _, key := range keys {
		i := slices.IndexFunc(set, func(o sweepdir.Override) bool { return o.Key == key })
		if i < 0 || len(set) != len(keys) {
			return nil
		}
		out = append(out, set[i].Value)
	}
	return out
}

// lastPart is "loss_type" of "algorithm.loss_type".
func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// effect is the difference in the final reward, seed by seed, between the second
// and the first value of the first key, at value j of the second key.
func (a *Analysis) effect(g *grid, j int) []float64 {
	second, first := &a.Arms[g.Arms[1][j]], &a.Arms[g.Arms[0][j]]
	return stats.Differences(second.Of(FinalMetric).Values, first.Of(FinalMetric).Values)
}

// interaction is the effect of the first key of a grid at the first value of the
// second key, minus the same at its second value, seed by seed.
func (a *Analysis) interaction(g *grid) Comparison {
	resolution := 0.0
	for i := range a.Arms {
		resolution = max(resolution, FinalMetric.resolution(&a.Arms[i]))
	}
	x, y := g.Factors[0], g.Factors[1]
	c := newComparison(stats.Differences(a.effect(g, 0), a.effect(g, 1)), resolution)
	effect := func(value string) string {
		return fmt.Sprintf("%s: %s - %s, at %s %s", x.Label, x.Values[1], x.Values[0], y.Label, value)
	}
	c.Kind, c.Metric, c.ArmA, c.ArmB, c.Family = KindInteraction, FinalMetric.Name, -1, -1, 1
	c.A, c.B = effect(y.Values[0]), effect(y.Values[1])
	c.adjust(c.P)
	return c
}

// A sweep may ask about some keys and tune another: the manifest's BestOver.
// Arms that differ in nothing but that key are points of one tuned arm, and
// tuned arms are compared with each other at their best points. The same
// validation reward chooses the point and is then compared. That flatters every
// tuned arm alike, so that the difference of two equal arms stays as likely to be
// above 0 as below; the spread over seeds is that of the points that were chosen.

// tunedArm is an arm with the points among which it is tuned.
type tunedArm struct {
	points []int // indexes of arms, in the manifest's order
	best   int   // of points; -1 while none has a result
}

// tunedArms are the arms that are compared at their best points; nil in a sweep
// whose arms are compared as they are.
func (a *Analysis) tunedArms() []tunedArm {
	if a.Sweep.Manifest.BestOver == "" {
		return nil
	}
	var out []tunedArm
	for _, points := range PointsOver(&a.Sweep.Manifest, a.Sweep.Manifest.BestOver) {
		var rows []ArmResult
		for _, k := range points {
			rows = append(rows, a.Arms[k])
		}
		best := bestArm(rows, func(r ArmResult) bool { return r.Diverged == 0 })
		if best < 0 {
			best = bestArm(rows, func(ArmResult) bool { return true })
		}
		if best >= 0 {
			best = points[best]
		}
		out = append(out, tunedArm{points, best})
	}
	return out
}

// tunedPlan compares the tuned arms with the one that the reference is a point
// of, or with the best.
func (a *Analysis) tunedPlan() plan {
	var p plan
	anchor, chosen := -1, -1
	isReference := func(k int) bool { return a.Arms[k].Arm.Name == a.Sweep.Manifest.Reference }
	var best []int // points of the tuned arms with a result
	for _, t := range a.tunedArms() {
		if slices.ContainsFunc(t.points, isReference) {
			if anchor = t.best; anchor < 0 {
				return p // nothing to compare with
			}
		}
		if t.best < 0 {
			continue
		}
		if chosen < 0 || slices.Contains(t.points, a.Best) {
			chosen = t.best
		}
		best = append(best, t.best)
	}
	if anchor >= 0 {
		for _, k := range best {
			if k != anchor {
				p.shown = append(p.shown, pair{k, anchor})
			}
		}
		p.family = p.shown
		return p
	}
	p.chosen = true
	for i, k := range best {
		if k != chosen {
			p.shown = append(p.shown, pair{chosen, k})
		}
		for _, other := range best[:i] {
			p.family = append(p.family, pair{k, other})
		}
	}
	return p
}

// TunedOver is the axis that is tuned; nil where none is.
func (a *Analysis) TunedOver() *sweepdir.Axis {
	m := &a.Sweep.Manifest
	i := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == m.BestOver })
	if i < 0 {
		return nil
	}
	return &m.Axes[i]
}

// PointsOver groups the arms that agree in all that they set but one key, in the
// manifest's order.
func PointsOver(m *sweepdir.Manifest, key string) [][]int {
	var out [][]int
	at := map[string]int{}
	for i, arm := range m.Arms {
		isKey := func(o sweepdir.Override) bool { return o.Key == key }
		rest := fmt.Sprintf("%q", slices.DeleteFunc(slices.Clone(arm.Set), isKey))
		k, ok := at[rest]
		if !ok {
			k = len(out)
			at[rest] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

// LabelWithout is the label of an arm without what an axis adds to it.
func LabelWithout(m *sweepdir.Manifest, arm int, key string) string {
	label := ArmResult{Arm: m.Arms[arm]}.Name()
	k := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key })
	if k < 0 || k >= len(m.Arms[arm].Point) {
		return label
	}
	axis, value := m.Axes[k], m.Arms[arm].Point[k]
	for _, part := range []string{axis.Label + " " + value, axis.Short + "=" + value} {
		for _, with := range []string{", " + part, part + ", ", "," + part, part + ","} {
			if strings.HasSuffix(label, with) || strings.HasPrefix(label, with) {
				return strings.Replace(label, with, "", 1)
			}
		}
	}
	return label
}
