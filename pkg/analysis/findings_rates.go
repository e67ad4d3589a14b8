package analysis

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
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

// DifficultyKey is the key whose sweep is read as a ladder: what is the highest difficulty at which training converges?
const DifficultyKey = "data.difficulty"

// ConvergedReward is the final validation reward from which on a seed of a ladder counts as converged.
const ConvergedReward = 0.9

// Rung is a difficulty of a ladder with its arm.
type Rung struct {
	Arm, Difficulty int
	Converged, Of   int // seeds that end at ConvergedReward or more, of those with a result
}

// Ladder are the difficulties of a sweep over these alone, from the lowest to the highest; nil for other sweeps.
func (a *Analysis) Ladder() []Rung {
	m := &a.Sweep.Manifest
	if len(m.Axes) != 1 || m.Axes[0].Key != DifficultyKey || len(m.Arms) < 2 {
		return nil
	}
	var out []Rung
	for i := range a.Arms {
		point := a.Arms[i].Arm.Point
		if len(point) != 1 {
			return nil
		}
		difficulty, err := strconv.Atoi(point[0])
		if err != nil {
			return nil
		}
		rung := Rung{Arm: i, Difficulty: difficulty}
		for _, reward := range stats.Finite(a.Arms[i].Of(FinalMetric).Values) {
			rung.Of++
			if reward >= ConvergedReward {
				rung.Converged++
			}
		}
		out = append(out, rung)
	}
	slices.SortFunc(out, func(x, y Rung) int { return cmp.Compare(x.Difficulty, y.Difficulty) })
	return out
}

// ladder answers a sweep over difficulties: the highest one that converges in most seeds. Its arms have different
// problems, so none of them is the best.
func (a *Analysis) ladder() Finding {
	f := Finding{Kind: LadderTop, Metric: FinalMetric.Name}
	for _, r := range a.Ladder() {
		part := a.armFinding(RungConverged, r.Arm, FinalMetric)
		part.Count, part.Of, part.Values = r.Converged, r.Of, []string{strconv.Itoa(r.Difficulty)}
		if 2*r.Converged > r.Of {
			f.Values = part.Values
		}
		f.Parts = append(f.Parts, part)
	}
	return f
}

// NoiseLine are the arms of a sweep over the errors of the verifier (reward.noise) in which one kind of error grows.
type NoiseLine struct {
	Errors string    // "wrong verdicts" (of both kinds, equally often), "false positives" or "false negatives"
	Arms   []int     // by ascending rate; the first is the reference, without errors
	Rates  []float64 // of the arms
}

// Keys of the errors of the verifier.
const (
	falsePositiveKey = "reward.noise.false_positive"
	falseNegativeKey = "reward.noise.false_negative"
)

// NoiseLines are the lines from a reference without errors to arms that differ from it in rates of errors alone.
func (a *Analysis) NoiseLines() []NoiseLine {
	m := &a.Sweep.Manifest
	reference := slices.IndexFunc(a.Arms, func(r ArmResult) bool { return r.Arm.Name == m.Reference })
	if reference < 0 || !slices.Contains(m.Varied, falsePositiveKey) && !slices.Contains(m.Varied, falseNegativeKey) {
		return nil
	}
	lines := []NoiseLine{{Errors: "wrong verdicts"}, {Errors: "false positives"}, {Errors: "false negatives"}}
	for i := range a.Arms {
		p, q := a.noiseRates(i)
		others := slices.DeleteFunc(a.differing(pair{i, reference}), func(key string) bool {
			return key == falsePositiveKey || key == falseNegativeKey
		})
		kind := -1
		switch {
		case len(others) > 0:
		case i == reference && p+q != 0:
			return nil
		case p == q && p > 0:
			kind = 0
		case q == 0 && p > 0:
			kind = 1
		case p == 0 && q > 0:
			kind = 2
		}
		if kind >= 0 {
			lines[kind].Arms = append(lines[kind].Arms, i)
		}
	}
	rate := func(i int) float64 {
		p, q := a.noiseRates(i)
		return max(p, q)
	}
	lines = slices.DeleteFunc(lines, func(l NoiseLine) bool { return len(l.Arms) == 0 })
	for k := range lines {
		l := &lines[k]
		l.Arms = append(l.Arms, reference)
		slices.SortStableFunc(l.Arms, func(i, j int) int { return cmp.Compare(rate(i), rate(j)) })
		for _, i := range l.Arms {
			l.Rates = append(l.Rates, rate(i))
		}
	}
	return lines
}

// noiseRates are the rates of false positives and false negatives of an arm.
func (a *Analysis) noiseRates(arm int) (p, q float64) {
	c := a.ConfigOf(arm)
	p, _ = strconv.ParseFloat(c[falsePositiveKey], 64) // left out where it is 0
	q, _ = strconv.ParseFloat(c[falseNegativeKey], 64)
	return p, q
}

// noiseKnees say of each line from which rate on an arm is clearly worse than the reference, and what lower rates cost
// at most. In a line with an arm that can't be compared no rate is known to be the first.
func (a *Analysis) noiseKnees() (out []Finding) {
	for _, l := range a.NoiseLines() {
		f := Finding{Kind: NoiseHarmless, Arms: l.Arms[:1], Metric: FinalMetric.Name, Keys: []string{l.Errors}}
		known := true
		for k, arm := range l.Arms[1:] {
			c := a.Find(FinalMetric.Name, l.Arms[0], arm)
			if known = c != nil && c.N >= 2; !known {
				break
			}
			rate := textutil.Number(math.Round(1e4*l.Rates[k+1])/100) + "%"
			if c.Separable && c.Mean > 0 {
				f.Kind, f.Arms, f.Numbers = NoiseKnee, []int{arm, l.Arms[0]}, c.Summary()
				f.Values = append(f.Values, rate)
				break
			}
			cost := c.Mean + c.Bound - math.Abs(c.Mean) // its bound at 95%
			f.Values, f.Bound = []string{rate}, max(f.Bound, cost)
		}
		if known {
			out = append(out, f)
		}
	}
	return out
}
