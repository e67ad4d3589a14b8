package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/sweepdir"
)

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
