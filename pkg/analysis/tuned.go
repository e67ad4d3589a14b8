package analysis

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/sweepdir"
)

// A sweep may ask about some keys and tune another: the manifest's BestOver.
// Arms that differ in nothing but that key are points of one tuned arm, and
// tuned arms are compared with each other at their best points. The same
// validation reward chooses the point and is then compared. That flatters every
// tuned arm alike, so that the difference of two that are the same stays as
// likely to be above 0 as below; the spread over seeds is that of the points that
// were chosen.

// tunedArm is an arm with the points among which it is tuned.
type tunedArm struct {
	Label  string
	Points []int // indexes of arms, in the manifest's order
	Best   int   // of points; -1 while none has a result
}

// TunedArms are the arms that are compared at their best points; nil in a sweep
// whose arms are compared as they are.
func (a *Analysis) TunedArms() []tunedArm {
	m := &a.Sweep.Manifest
	if m.BestOver == "" {
		return nil
	}
	var out []tunedArm
	for _, points := range PointsOver(m, m.BestOver) {
		t := tunedArm{Label: LabelWithout(m, points[0], m.BestOver), Points: points}
		among := func(eligible func(ArmResult) bool) int {
			rows := make([]ArmResult, len(points))
			for i, k := range points {
				rows[i] = a.Arms[k]
			}
			if i := bestArm(rows, eligible); i >= 0 {
				return points[i]
			}
			return -1
		}
		if t.Best = among(func(r ArmResult) bool { return r.Diverged == 0 }); t.Best < 0 {
			t.Best = among(func(ArmResult) bool { return true })
		}
		out = append(out, t)
	}
	return out
}

// PointsOver groups the arms that agree in all that they set but one key, in the
// manifest's order.
func PointsOver(m *sweepdir.Manifest, key string) [][]int {
	rest := func(arm sweepdir.Arm) string {
		return fmt.Sprintf("%q", slices.DeleteFunc(slices.Clone(arm.Set), func(o sweepdir.Override) bool { return o.Key == key }))
	}
	var out [][]int
	at := map[string]int{}
	for i, arm := range m.Arms {
		k, ok := at[rest(arm)]
		if !ok {
			k = len(out)
			at[rest(arm)] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

// labelBeside is the label of an arm without what an axis adds to it.
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

// tunedPlan compares the tuned arms with the one that the reference is a point
// of, or with the best.
func (a *Analysis) tunedPlan(arms []tunedArm) plan {
	var p plan
	anchor := -1
	for i, t := range arms {
		if slices.ContainsFunc(t.Points, func(k int) bool { return a.Arms[k].Arm.Name == a.Sweep.Manifest.Reference }) {
			anchor = i
		}
	}
	if anchor >= 0 {
		for i, t := range arms {
			if i != anchor && t.Best >= 0 && arms[anchor].Best >= 0 {
				p.Shown = append(p.Shown, Pair{t.Best, arms[anchor].Best})
			}
		}
		p.family = p.Shown
		return p
	}
	p.Chosen = true
	for i, t := range arms {
		if t.Best < 0 {
			continue
		}
		if anchor < 0 || slices.Contains(t.Points, a.Best) {
			anchor = i
		}
		for _, u := range arms[:i] {
			if u.Best >= 0 {
				p.family = append(p.family, Pair{t.Best, u.Best})
			}
		}
	}
	for i, t := range arms {
		if i != anchor && t.Best >= 0 {
			p.Shown = append(p.Shown, Pair{arms[anchor].Best, t.Best})
		}
	}
	return p
}

// TunedOver is the axis that is tuned; nil where none is.
func (a *Analysis) TunedOver() *sweepdir.Axis {
	m := &a.Sweep.Manifest
	for i := range m.Axes {
		if m.Axes[i].Key == m.BestOver {
			return &m.Axes[i]
		}
	}
	return nil
}
