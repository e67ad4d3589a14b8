package analysis

import (
	"cmp"
	"math"
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Kinds of comparisons.
const (
	// KindPair is one arm against another.
	KindPair = "pair"
	// KindInteraction is a difference of differences in a grid of two keys with
	// two values each: A and B are not arms, but name the two differences.
	KindInteraction = "interaction"
)

// Comparison is the paired difference A - B of one metric over the seeds that both
// arms have. The planned comparison fixes the order of A and B, and every sentence,
// table and figure keeps it: a signed difference is always A - B.
type Comparison struct {
	Kind   string    `json:"kind"`
	A      string    `json:"a"` // arm names
	B      string    `json:"b"`
	Metric string    `json:"metric"` // "final", "completion_length", ...: its JSON name
	Diffs  []float64 `json:"differences"`
	N      int       `json:"n"`
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"`
	Lo     float64   `json:"lo"`
	Hi     float64   `json:"hi"`
	P      float64   `json:"p"` // two-sided
	// PHolm is P after Holm's adjustment over its family: for the final reward, the
	// planned comparisons, or all pairs of arms where the data chose the arm that the
	// others are compared with; all comparisons of all other metrics together are the
	// second family; the interaction is a family of its own.
	PHolm float64 `json:"p_adjusted"`
	// Separable: the difference differs from 0 at the 5% level after the adjustment.
	Separable bool `json:"separable"`
	// SeedsNeeded estimates the seeds that would separate a difference of this size
	// with a power of 80%; 1001 means more than 1000. It is 0 where the difference is
	// separable already, where nothing can be estimated, and for metrics other than
	// the final reward.
	SeedsNeeded int `json:"seeds_needed"`

	// Text is the sentence of package report; empty in an analysis.
	Text string `json:"text"`

	Resolution float64 // the unit in which the metric is counted
	Family     int     // size of the family over which P was adjusted
	ArmA, ArmB int     // indexes of the arms; -1 for an interaction
	Reversed   bool    // the order of A and B is not that of the plan
}

// newComparison is the comparison of paired differences before any adjustment.
func newComparison(diffs []float64, resolution float64) Comparison {
	e := stats.StudentT(diffs, resolution)
	return Comparison{
		Diffs: diffs, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi,
		P: e.P, PHolm: e.P, Resolution: resolution,
	}
}

// targetPower is the power of [Comparison.SeedsNeeded].
const targetPower = 0.8

// adjust sets the adjusted p value and what follows from it.
func (c *Comparison) adjust(p float64) {
	c.PHolm = p
	c.Separable = p <= stats.Alpha
	sd := max(c.SD, c.Resolution)
	if c.Separable || c.N < 2 || c.Mean == 0 || c.Metric != FinalMetric.Name || !(sd > 0) {
		return
	}
	alpha := stats.Alpha
	if c.P > 0 && p > c.P {
		alpha *= c.P / p // the level that the adjustment leaves for this comparison
	}
	c.SeedsNeeded = cmp.Or(stats.PairsForPower(math.Abs(c.Mean)/sd, alpha, targetPower), stats.MaxPairs+1)
}

// swapped is the comparison B - A.
func (c Comparison) swapped() Comparison {
	c.Reversed = !c.Reversed
	c.A, c.B, c.ArmA, c.ArmB = c.B, c.A, c.ArmB, c.ArmA
	c.Mean, c.Lo, c.Hi = -c.Mean, -c.Hi, -c.Lo
	c.Diffs = slices.Clone(c.Diffs)
	for i := range c.Diffs {
		c.Diffs[i] = -c.Diffs[i]
	}
	return c
}

// Find returns the comparison of two arms in a metric as x - y; nil where it is not
// among those shown.
func (a *Analysis) Find(metric string, x, y int) *Comparison {
	for _, c := range a.Comparisons {
		if c.Kind != KindPair || c.Metric != metric {
			continue
		}
		switch {
		case c.ArmA == x && c.ArmB == y:
			return &c
		case c.ArmA == y && c.ArmB == x:
			c = c.swapped()
			return &c
		}
	}
	return nil
}

// compareArms fills in the comparisons: the final reward of every pair that is
// shown, the interaction of a grid, then the other metrics.
func (a *Analysis) compareArms() {
	p := a.plan()
	a.Comparisons = append(a.Comparisons, a.compareFamily(p, FinalMetric)...)
	if p.grid != nil {
		a.Comparisons = append(a.Comparisons, a.interaction(p.grid))
	}
	var others []*Metric
	for _, m := range Metrics {
		if m.compared && m != FinalMetric && (m != EntropyMetric || a.TrainingTemperatures() == nil) {
			others = append(others, m)
		}
	}
	a.Comparisons = append(a.Comparisons, a.compareFamily(p, others...)...)
}

// compareFamily compares the metrics of a plan's pairs and adjusts over all of its
// family.
func (a *Analysis) compareFamily(p plan, metrics ...*Metric) []Comparison {
	pairs := slices.Clone(p.shown)
	for _, q := range p.family {
		if !slices.Contains(pairs, q) && !slices.Contains(pairs, pair{q.b, q.a}) {
			pairs = append(pairs, q)
		}
	}
	var all, out []Comparison
	var ps []float64
	for _, m := range metrics {
		for _, q := range pairs {
			c := a.comparePair(m, q)
			all, ps = append(all, c), append(ps, c.P)
			if a.Arms[q.a].Stopped+a.Arms[q.b].Stopped > 0 {
				ps[len(ps)-1] = 1
			}
		}
	}
	family := len(stats.Finite(ps))
	for i, adjusted := range stats.Holm(ps) {
		c := all[i]
		if slices.Contains(p.shown, pair{c.ArmA, c.ArmB}) {
			c.Family = family
			c.adjust(adjusted)
			out = append(out, c)
		}
	}
	return out
}

func (a *Analysis) comparePair(m *Metric, q pair) Comparison {
	x, y := &a.Arms[q.a], &a.Arms[q.b]
	diffs := stats.Differences(x.Of(m).Values, y.Of(m).Values)
	c := newComparison(diffs, max(m.resolution(x), m.resolution(y)))
	if least, most := m.scale.bounds(x.Problems); stats.IsFinite(least) && stats.IsFinite(most) && c.N > 1 {
		c.Lo, c.Hi = max(c.Lo, least-most), min(c.Hi, most-least)
	}
	c.Kind, c.Metric = KindPair, m.Name
	c.A, c.B, c.ArmA, c.ArmB = x.Arm.Name, y.Arm.Name, q.a, q.b
	return c
}

// identical reports two arms whose finished runs, seed by seed, ended with the same
// weights and the same evaluations.
func (a *Analysis) identical(x, y int) bool {
	pairs := 0
	for i, run := range a.Arms[x].Runs {
		r, s := run.Run, a.Arms[y].Runs[i].Run
		if r == nil || s == nil || r.Result == nil || s.Result == nil {
			continue
		}
		weights := r.Result.WeightsSHA256
		if weights == "" || weights != s.Result.WeightsSHA256 || rundir.CompareEvals(r.Evals, s.Evals) != nil {
			return false
		}
		pairs++
	}
	return pairs > 0
}
