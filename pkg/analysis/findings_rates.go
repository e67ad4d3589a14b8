package analysis

import (
	"cmp"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// RateKey is the key whose sweep is read as a curve from too slow to too fast.
const RateKey = "train.learning_rate"

// risingGain: a reward still rises if it gained this much over the last quarter, and
// more than the seeds explain.
const risingGain = 0.01

// RateAxis is the only axis of a learning-rate sweep; nil for other sweeps.
func (a *Analysis) RateAxis() *sweepdir.Axis {
	m := &a.Sweep.Manifest
	if len(m.Axes) != 1 || m.Axes[0].Key != RateKey || len(m.Arms) < 2 || len(PointsOver(m, RateKey)) > 1 {
		return nil
	}
	for _, arm := range m.Arms {
		if len(arm.Point) != 1 {
			return nil
		}
		if _, err := strconv.ParseFloat(arm.Point[0], 64); err != nil {
			return nil
		}
	}
	return &m.Axes[0]
}

// rateOf is the learning rate of an arm of a sweep that has a RateAxis.
func (a *Analysis) rateOf(arm int) float64 {
	rate, _ := strconv.ParseFloat(a.Arms[arm].Arm.Point[0], 64)
	return rate
}

// rateKind describes how a learning rate did. A collapse is more than being worse, and a
// rate below the best that is worse and still rises is slow.
func (a *Analysis) rateKind(arm int, rising bool) Kind {
	var c *Comparison
	if a.Best >= 0 && arm != a.Best {
		c = a.Find(FinalMetric.Name, a.Best, arm)
	}
	_, worse := a.clearlyWorse(arm)
	worse = worse && c != nil
	switch {
	case a.Arms[arm].collapsed():
		return RateCollapsed
	case arm == a.Best:
		return RateBest
	case worse && rising && a.rateOf(arm) < a.rateOf(a.Best):
		return RateSlow
	case worse:
		return RateWorse
	case c != nil:
		return RateTied
	}
	return RateUncompared
}

// rates are the findings on the arms with a result, from the slowest rate to the
// fastest.
func (a *Analysis) rates() []Finding {
	var out []Finding
	for i := range a.Arms {
		r := &a.Arms[i]
		if r.Of(FinalMetric).N == 0 {
			continue
		}
		gain := r.Of(LateGainMetric)
		rising := gain.N > 1 && gain.Lo > 0 && gain.Mean >= risingGain
		f := a.armFinding(a.rateKind(i, rising), i, FinalMetric)
		f.Values = []string{textutil.Number(a.rateOf(i))}
		if rising {
			f.Parts = []Finding{a.armFinding(StillRising, i, LateGainMetric)}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(f, g Finding) int {
		return cmp.Compare(a.rateOf(f.Arms[0]), a.rateOf(g.Arms[0]))
	})
	return out
}

// bestRate answers a learning-rate sweep.
func (a *Analysis) bestRate() Finding {
	if a.Best < 0 {
		return a.noBest(RateKey)
	}
	f := a.armFinding(BestRate, a.Best, FinalMetric)
	f.Values = []string{textutil.Number(a.rateOf(a.Best))}
	f.Parts = append(a.raceParts(), slices.DeleteFunc(a.rates(), func(g Finding) bool { return g.Arms[0] == a.Best })...)
	return f
}

// rateFindings are a finding for each rate, and whether the best one is at the edge.
func (a *Analysis) rateFindings() []Finding {
	if a.RateAxis() == nil {
		return nil
	}
	out := a.rates()
	n := len(out)
	at := slices.IndexFunc(out, func(f Finding) bool { return f.Arms[0] == a.Best })
	edge := func(kind Kind) {
		out = append(out, Finding{Kind: kind, Arms: []int{a.Best}, Values: out[at].Values})
	}
	// A rate that halving stopped was tried.
	stopped := func(beyond func(rate float64) bool) bool {
		for i, r := range a.Arms {
			if r.Stopped > 0 && beyond(a.rateOf(i)) {
				return true
			}
		}
		return false
	}
	tied := func(f Finding) bool { return f.Arms[0] != a.Best && f.Numbers.Mean == out[at].Numbers.Mean }
	switch {
	case at < 0 || n < 2 || slices.ContainsFunc(out, tied): // another rate has the same mean
	case at == n-1 && !stopped(func(rate float64) bool { return rate > a.rateOf(a.Best) }):
		edge(BestAtLargest)
	case at == 0 && !stopped(func(rate float64) bool { return rate < a.rateOf(a.Best) }):
		edge(BestAtSmallest)
	}
	return out
}

// tunedFindings name the best point of each tuned arm, with its other points.
func (a *Analysis) tunedFindings() []Finding {
	var out []Finding
	for _, t := range a.tunedArms() {
		if t.best < 0 || a.RateAxis() != nil {
			continue
		}
		f := a.armFinding(TunedBest, t.best, FinalMetric)
		for _, k := range t.points {
			if k != t.best && a.Arms[k].Of(FinalMetric).N > 0 {
				f.Arms = append(f.Arms, k)
			}
		}
		out = append(out, f)
	}
	return out
}
