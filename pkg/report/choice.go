package report

import (
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

// BestValue is the value on an axis (by its full key) of the best arm, which a later
// sweep may take over, and why it is that one. It is an error when there is no best
// arm, or when seeds of it are missing: means over different seeds are no ground for a
// choice. Test problems have no say.
func (a *Report) BestValue(key string) (value, why string, err error) {
	m := &a.Sweep.Manifest
	k := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key })
	switch {
	case k < 0:
		return "", "", fmt.Errorf("%s is not an axis of sweep %s", key, m.Name)
	case a.Finished() == 0:
		return "", "", fmt.Errorf("no results yet (0 of %s finished)", textutil.Count(a.Runs(), "run"))
	case a.Best < 0:
		return "", "", fmt.Errorf("no value of %s is left: each diverged in at least one seed", m.Axes[k].Label)
	}
	best := a.Arms[a.Best]
	final := best.Of(analysis.FinalMetric)
	if lacks := len(best.Runs) - final.N; lacks > 0 {
		return "", "", fmt.Errorf("the best so far, %s, lacks %d of %s",
			best.Name(), lacks, textutil.Count(len(best.Runs), "seed"))
	}
	why = fmt.Sprintf("the best mean final validation reward of part %s, %s, %s",
		m.Name, analysis.Reward(final), textutil.Count(final.N, "seed"))
	var diverged, short []string
	for _, r := range a.Arms {
		switch {
		case r.Diverged > 0:
			diverged = append(diverged, m.Axes[k].Shown(r.Arm.Point[k]))
		case r.Of(analysis.FinalMetric).N < len(r.Runs):
			short = append(short, m.Axes[k].Shown(r.Arm.Point[k]))
		}
	}
	if len(diverged) > 0 {
		why += "; " + listed(diverged) + " diverged and could not be chosen"
	}
	if len(short) > 0 {
		why += "; seeds of " + listed(short) + " were missing then"
	}
	return best.Arm.Point[k], why, nil
}
