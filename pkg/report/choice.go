package report

import (
	"fmt"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
)

// BestValue is the value on an axis (by its full key) of the best arm, which a
// later sweep may take over, and in words why it is that one. It is an error when
// there is no best arm, or when seeds of it are missing: a mean over other seeds
// than those of the other arms is no ground for a choice. Test problems have no
// say.
func (a *Report) BestValue(key string) (value, why string, err error) {
	m := &a.Sweep.Manifest
	k := -1
	for i, x := range m.Axes {
		if x.Key == key {
			k = i
		}
	}
	switch {
	case k < 0:
		return "", "", fmt.Errorf("%s is no axis of sweep %s", key, m.Name)
	case a.Finished() == 0:
		return "", "", fmt.Errorf("none of %s has its result", textutil.Count(a.Runs(), "run"))
	case a.Best < 0:
		return "", "", fmt.Errorf("no value of %s is left: each diverged in at least one seed", m.Axes[k].Label)
	}
	best := a.Arms[a.Best]
	if best.Of(analysis.FinalMetric).N < len(best.Runs) {
		return "", "", fmt.Errorf("the best so far, %s, lacks %d of %s", best.Name(), len(best.Runs)-best.Of(analysis.FinalMetric).N, textutil.Count(len(best.Runs), "seed"))
	}
	why = fmt.Sprintf("the best mean final validation reward of part %s, %s, %s", m.Name, analysis.Reward(best.Of(analysis.FinalMetric)), textutil.Count(best.Of(analysis.FinalMetric).N, "seed"))
	var diverged, short []string
	for _, r := range a.Arms {
		switch {
		case r.Diverged > 0:
			diverged = append(diverged, r.Arm.Point[k])
		case r.Of(analysis.FinalMetric).N < len(r.Runs):
			short = append(short, r.Arm.Point[k])
		}
	}
	if len(diverged) > 0 {
		why += "; " + analysis.Listed(diverged) + " diverged and could not be chosen"
	}
	if len(short) > 0 {
		why += "; seeds of " + analysis.Listed(short) + " were missing then"
	}
	return best.Arm.Point[k], why, nil
}
