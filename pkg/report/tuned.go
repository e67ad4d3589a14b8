package report

import (
	"fmt"
	"strings"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// pointOf is the value of an arm on an axis.
func (a *Report) pointOf(arm int, axis *sweepdir.Axis) string {
	for i := range a.Sweep.Manifest.Axes {
		if p := a.Arms[arm].Arm.Point; &a.Sweep.Manifest.Axes[i] == axis && i < len(p) {
			return p[i]
		}
	}
	return analysis.Absent
}

// tunedLines tell for each tuned arm which of its points is best, and how the
// others ended.
func (a *Report) tunedLines() []string {
	axis := a.TunedOver()
	if axis == nil {
		return nil
	}
	var out []string
	for _, t := range a.TunedArms() {
		if t.Best < 0 {
			continue
		}
		best := a.Arms[t.Best]
		line := fmt.Sprintf("%s has its highest mean at %s %s: %s", t.Label, axis.Label, a.pointOf(t.Best, axis), analysis.Reward(best.Of(analysis.FinalMetric)))
		if best.Diverged > 0 {
			line += fmt.Sprintf(", although it diverged in %s there as everywhere", a.Divergence(best))
		}
		var others []string
		for _, k := range t.Points {
			r := a.Arms[k]
			if k == t.Best || r.Of(analysis.FinalMetric).N == 0 {
				continue
			}
			text := fmt.Sprintf("%s %s", a.pointOf(k, axis), analysis.Percent(r.Of(analysis.FinalMetric).Mean))
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
	axis := a.TunedOver()
	if axis == nil {
		return ""
	}
	return fmt.Sprintf("Each arm is compared at its own best %s of %s, chosen by the final validation reward that is compared: the rewards flatter, every arm's alike. The test rewards chose nothing.",
		axis.Label, analysis.Listed(axis.Values))
}

// compared is what an arm of a comparison is called: a tuned one with its point.
func (a *Report) compared(arm int) string {
	if axis := a.TunedOver(); axis != nil {
		return fmt.Sprintf("%s (%s %s)", analysis.LabelWithout(&a.Sweep.Manifest, arm, axis.Key), axis.Label, a.pointOf(arm, axis))
	}
	return a.Arms[arm].Name()
}
