package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
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
	label  string
	points []int // indexes of arms, in the manifest's order
	best   int   // of points; -1 while none has a result
}

// tunedArms are the arms that are compared at their best points; nil in a sweep
// whose arms are compared as they are.
func (a *Analysis) tunedArms() []tunedArm {
	m := &a.Sweep.Manifest
	if m.BestOver == "" {
		return nil
	}
	var out []tunedArm
	for _, points := range pointsOver(m, m.BestOver) {
		t := tunedArm{label: labelBeside(m, points[0], m.BestOver), points: points}
		among := func(eligible func(ArmRow) bool) int {
			rows := make([]ArmRow, len(points))
			for i, k := range points {
				rows[i] = a.Arms[k]
			}
			if i := bestArm(rows, eligible); i >= 0 {
				return points[i]
			}
			return -1
		}
		if t.best = among(func(r ArmRow) bool { return r.Diverged == 0 }); t.best < 0 {
			t.best = among(func(ArmRow) bool { return true })
		}
		out = append(out, t)
	}
	return out
}

// pointsOver groups the arms that agree in all that they set but one key, in the
// manifest's order.
func pointsOver(m *sweepdir.Manifest, key string) [][]int {
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
func labelBeside(m *sweepdir.Manifest, arm int, key string) string {
	label := ArmRow{Arm: m.Arms[arm]}.Name()
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
		if slices.ContainsFunc(t.points, func(k int) bool { return a.Arms[k].Arm.Name == a.Sweep.Manifest.Reference }) {
			anchor = i
		}
	}
	if anchor >= 0 {
		for i, t := range arms {
			if i != anchor && t.best >= 0 && arms[anchor].best >= 0 {
				p.shown = append(p.shown, pair{t.best, arms[anchor].best})
			}
		}
		p.family = p.shown
		return p
	}
	p.chosen = true
	for i, t := range arms {
		if t.best < 0 {
			continue
		}
		if anchor < 0 || slices.Contains(t.points, a.Best) {
			anchor = i
		}
		for _, u := range arms[:i] {
			if u.best >= 0 {
				p.family = append(p.family, pair{t.best, u.best})
			}
		}
	}
	for i, t := range arms {
		if i != anchor && t.best >= 0 {
			p.shown = append(p.shown, pair{arms[anchor].best, t.best})
		}
	}
	return p
}

// tunedOver is the axis that is tuned; nil where none is.
func (a *Analysis) tunedOver() *sweepdir.Axis {
	m := &a.Sweep.Manifest
	for i := range m.Axes {
		if m.Axes[i].Key == m.BestOver {
			return &m.Axes[i]
		}
	}
	return nil
}

// pointOf is the value of an arm on an axis.
func (a *Report) pointOf(arm int, axis *sweepdir.Axis) string {
	for i := range a.Sweep.Manifest.Axes {
		if p := a.Arms[arm].Arm.Point; &a.Sweep.Manifest.Axes[i] == axis && i < len(p) {
			return p[i]
		}
	}
	return absent
}

// tunedLines tell for each tuned arm which of its points is best, and how the
// others ended.
func (a *Report) tunedLines() []string {
	axis := a.tunedOver()
	if axis == nil {
		return nil
	}
	var out []string
	for _, t := range a.tunedArms() {
		if t.best < 0 {
			continue
		}
		best := a.Arms[t.best]
		line := fmt.Sprintf("%s has its highest mean at %s %s: %s", t.label, axis.Label, a.pointOf(t.best, axis), reward(best.of(finalMetric)))
		if best.Diverged > 0 {
			line += fmt.Sprintf(", although it diverged in %s there as everywhere", a.divergence(best))
		}
		var others []string
		for _, k := range t.points {
			r := a.Arms[k]
			if k == t.best || r.of(finalMetric).N == 0 {
				continue
			}
			text := fmt.Sprintf("%s %s", a.pointOf(k, axis), percent(r.of(finalMetric).Mean))
			if r.Diverged > 0 {
				text += fmt.Sprintf(" (diverged in %d of %s)", r.Diverged, textutil.Count(len(r.Runs), "seed"))
			}
			others = append(others, text)
		}
		if len(others) > 0 {
			line += "; at " + strings.Join(others, ", at ")
		}
		out = append(out, line+".")
	}
	return out
}

// tunedCaveat says what tuning does to the numbers.
func (a *Report) tunedCaveat() string {
	axis := a.tunedOver()
	if axis == nil {
		return ""
	}
	return fmt.Sprintf("Each arm is compared at its own best %s of %s, chosen by the final validation reward that is compared: the rewards flatter, every arm's alike. The test rewards chose nothing.",
		axis.Label, listed(axis.Values))
}

// compared is what an arm of a comparison is called: a tuned one with its point.
func (a *Report) compared(arm int) string {
	if axis := a.tunedOver(); axis != nil {
		return fmt.Sprintf("%s (%s %s)", labelBeside(&a.Sweep.Manifest, arm, axis.Key), axis.Label, a.pointOf(arm, axis))
	}
	return a.Arms[arm].Name()
}
