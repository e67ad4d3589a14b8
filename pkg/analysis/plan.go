package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/yamldoc"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// pair is arm a against arm b, by their indexes.
type pair struct{ a, b int }

// plan states which arms are compared and over which pairs the p values are adjusted.
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
	}
	if !p.chosen {
		p.family = p.shown
	}
	// The arms that halving stopped are not compared, but they stay in the family: which arms those
	// are depends on the results.
	p.shown = slices.DeleteFunc(slices.Clone(p.shown), func(q pair) bool { return a.isStopped(q.a) || a.isStopped(q.b) })
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
		for j := range a.Arms[i+1:] {
			if j += i + 1; !a.Arms[i].Arm.Control || !a.Arms[j].Arm.Control {
				p.family = append(p.family, pair{i, j})
			}
		}
	}
}

// A factor is a key of a grid with its two values, also as readers see them.
type factor struct {
	Label         string
	Values, Shown [2]string
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
	for i := range m.Arms {
		if m.StoppedAt(i) > 0 {
			return nil
		}
	}
	if m.BestOver != "" || len(m.Arms) != 4 {
		return nil
	}
	var labels, keys []string
	for _, axis := range m.Axes {
		labels = append(labels, cmp.Or(axis.Label, axis.Key))
	}
	if len(m.Axes) == 0 {
		for _, o := range m.Arms[0].Set {
			labels, keys = append(labels, yamldoc.LastPart(o.Key)), append(keys, o.Key)
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
		f := &g.Factors[k]
		f.Values, f.Shown = [2]string(values[k]), [2]string(values[k])
		for i, value := range f.Values {
			if keys == nil {
				f.Shown[i] = m.Axes[k].Shown(value)
			}
		}
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

// contrasts compare the arms of a grid as three questions with equal variance, one family: the
// effect of each key, and whether the effect of the first depends on the second.
func (a *Analysis) contrasts(g *grid) []Comparison {
	var finals, tests [2][2][]float64
	for i := range 2 {
		for j := range 2 {
			r := &a.Arms[g.Arms[i][j]]
			finals[i][j], tests[i][j] = r.Of(FinalMetric).Values, r.Of(TestMetric).Values
		}
	}
	x, y, arms := g.Factors[0], g.Factors[1], g.Arms
	// The halves of the grid whose means are compared, in the order of stats.Contrasts.
	halves := []contrast{
		{[]int{arms[1][0], arms[1][1]}, []int{arms[0][0], arms[0][1]}},
		{[]int{arms[0][1], arms[1][1]}, []int{arms[0][0], arms[1][0]}},
		{[]int{arms[0][0], arms[1][1]}, []int{arms[0][1], arms[1][0]}},
	}
	onTest := stats.Contrasts(tests[0][0], tests[0][1], tests[1][0], tests[1][1])
	var all []Comparison
	for k, diffs := range stats.Contrasts(finals[0][0], finals[0][1], finals[1][0], finals[1][1]) {
		c := newComparison(diffs, a.resolution(FinalMetric, halves[k]))
		c.Metric, c.ArmA, c.ArmB, c.contrast = FinalMetric.Name, -1, -1, halves[k]
		a.judge(&c)
		c.Test = a.testDifference(a.OfClaimed(onTest[k]), halves[k])
		switch k {
		case 0, 1:
			f := g.Factors[k]
			c.Kind, c.A, c.B = KindEffect, f.Label+" "+f.Shown[1], f.Label+" "+f.Shown[0]
		default:
			effect := func(value string) string {
				return fmt.Sprintf("half of the effect of %s, at %s %s", x.Label, y.Label, value)
			}
			c.Kind, c.A, c.B = KindInteraction, effect(y.Shown[1]), effect(y.Shown[0])
		}
		all = append(all, c)
	}
	a.adjustFamily(all)
	return all
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
	m := &a.Sweep.Manifest
	chosen := func(arm int) bool { return m.ChosenOn() > 0 && m.Looks[0].Taken != nil && m.GoesOn(arm, 1) }
	var out []tunedArm
	for _, points := range PointsOver(&a.Sweep.Manifest, a.Sweep.Manifest.BestOver) {
		var rows []ArmResult
		for _, k := range points {
			rows = append(rows, a.Arms[k])
		}
		if k := slices.IndexFunc(points, chosen); k >= 0 {
			out = append(out, tunedArm{points, points[k]})
			continue
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
		for _, other := range best[i+1:] {
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
	label := cmp.Or(m.LabelOf(arm), m.Arms[arm].Name)
	k := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key })
	if k < 0 || k >= len(m.Arms[arm].Point) {
		return label
	}
	axis, value := m.Axes[k], m.Arms[arm].Point[k]
	for _, part := range []string{axis.Label + " " + axis.Shown(value), axis.Short + "=" + value} {
		for _, with := range []string{", " + part, part + ", ", "," + part, part + ","} {
			if strings.HasSuffix(label, with) || strings.HasPrefix(label, with) {
				return strings.Replace(label, with, "", 1)
			}
		}
	}
	return label
}
