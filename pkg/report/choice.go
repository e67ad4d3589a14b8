package report

import (
	"fmt"

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
	case a.finished() == 0:
		return "", "", fmt.Errorf("none of %s has its result", textutil.Count(a.runs(), "run"))
	case a.Best < 0:
		return "", "", fmt.Errorf("no value of %s is left: each diverged in at least one seed", m.Axes[k].Label)
	}
	best := a.Arms[a.Best]
	if best.of(finalMetric).N < len(best.Runs) {
		return "", "", fmt.Errorf("the best so far, %s, lacks %d of %s", best.Name(), len(best.Runs)-best.of(finalMetric).N, textutil.Count(len(best.Runs), "seed"))
	}
	why = fmt.Sprintf("the best mean final validation reward of part %s, %s, %s", m.Name, reward(best.of(finalMetric)), textutil.Count(best.of(finalMetric).N, "seed"))
	var diverged, short []string
	for _, r := range a.Arms {
		switch {
		case r.Diverged > 0:
			diverged = append(diverged, r.Arm.Point[k])
		case r.of(finalMetric).N < len(r.Runs):
			short = append(short, r.Arm.Point[k])
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
