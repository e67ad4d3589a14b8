package analysis

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Kinds of comparisons.
const (
	// KindPair is one arm against another.
	KindPair = "pair"
	// The contrasts of a grid of two keys with two values each: the effect of a key, as the mean over
	// both values of the other key, and half of the difference between its effects at these. A and B
	// are not arms, but name the two means that are compared.
	KindEffect      = "effect"
	KindInteraction = "interaction"
)

// Comparison is the paired difference A - B of one metric over the seeds that both
// arms have. The planned comparison fixes the order of A and B, and every sentence,
// table and figure keeps it: a signed difference is always A - B.
type Comparison struct {
	Kind   string `json:"kind"`
	A      string `json:"a"` // arm names
	B      string `json:"b"`
	Metric string `json:"metric"` // "final", "completion_length", ...: its JSON name
	// Diffs are those of the seeds that claims are made from, in the order of the manifest; NaN for other seeds.
	Diffs []float64 `json:"differences"`
	N     int       `json:"n"`
	Mean  float64   `json:"mean"`
	SD    float64   `json:"sd"`
	Lo    float64   `json:"lo"`
	Hi    float64   `json:"hi"`
	P     float64   `json:"p"` // two-sided
	// Crossed: both seeds and problems count as drawn by chance ([stats.Crossed]) in Lo, Hi, P and what follows
	// from them, and in Test. PSeeds is then P over the seeds alone. Of the final reward, where all runs recorded
	// right or wrong of each problem.
	Crossed bool    `json:"crossed,omitempty"`
	PSeeds  float64 `json:"p_seeds,omitempty"`
	// MeanSquare of the differences orders the comparisons of a family ([stats.Ordered]).
	MeanSquare float64 `json:"mean_square"`
	// PAdjusted is P after the adjustment over its family: for the final reward, the planned
	// comparisons, or all pairs of arms where the data chose the arm that the others are compared
	// with, by [stats.Ordered]; all comparisons of all other metrics together are the second
	// family, by [stats.Holm].
	PAdjusted float64 `json:"p_adjusted"`
	// Separable: the difference differs from 0 at the 5% level after the adjustment.
	Separable bool `json:"separable"`
	// Bound: the true difference has at most this size, with 95% confidence ([stats.Estimate.Bound]).
	Bound float64 `json:"bound"`
	// PSame is the p value of the true difference being as large as the margin ([stats.Estimate.TOST]),
	// adjusted by Holm over the family, and Same whether it is at most 5%. Of the final reward only.
	PSame float64 `json:"tost_p"`
	Same  bool    `json:"same_within"`
	// Test is the same difference on the test problems of the same runs; nil without them.
	Test *Summary `json:"test,omitempty"`
	// Aside marks a pair of the family that does not have the arm with which the others are compared.
	Aside bool `json:"aside,omitempty"`

	// Text is the sentence of package report; empty in an analysis.
	Text string `json:"text"`

	// Level is that of the last planned look at the comparison, with which Lo, Hi and Bound are computed; 0 =
	// [stats.Alpha].
	Level float64 `json:"level,omitempty"`

	Resolution float64 // the unit in which the metric is counted
	Family     int     // size of the family over which P was adjusted
	ArmA, ArmB int     // indexes of the arms; -1 for a contrast
	Reversed   bool    // the order of A and B is not that of the plan
	Ordered    bool    // P was adjusted by the ordered test

	all      []float64 // the differences of all seeds
	estimate stats.Estimate
	contrast contrast // of the final reward
}

// newComparison is the comparison of paired differences before any adjustment.
func newComparison(diffs []float64, resolution float64) Comparison {
	c := Comparison{Diffs: diffs, MeanSquare: stats.MeanSquare(diffs), Resolution: resolution, PSame: math.NaN()}
	c.use(stats.StudentT(diffs, resolution))
	return c
}

// use sets what follows from an estimate of the mean difference.
func (c *Comparison) use(e stats.Estimate) {
	c.estimate = e
	c.N, c.Mean, c.SD, c.Lo, c.Hi, c.P, c.PAdjusted = e.N, e.Mean, e.SD, e.Lo, e.Hi, e.P, e.P
	c.Bound = e.Bound(stats.Alpha)
}

// Ends are bounds of the true difference, each by itself with the confidence 1 - alpha: it is at least
// lo, and it is at most hi. NaN for fewer than two seeds.
func (c *Comparison) Ends(alpha float64) (lo, hi float64) { return c.estimate.Interval(2 * alpha) }

// targetPower is the power of [Comparison.Visible] and [Comparison.SeedsFor].
const targetPower = 0.8

// level is that of the test of this comparison by itself.
func (c *Comparison) level() float64 { return cmp.Or(c.Level, stats.Alpha) }

// Visible is the true difference that this number of seeds detects with a power of 80% by itself, if the spread is
// what it is here; NaN for fewer than two seeds.
func (c *Comparison) Visible() float64 {
	spread := max(c.SD, c.Resolution)
	if c.Crossed {
		spread = c.estimate.SE * math.Sqrt(float64(c.N))
	}
	return spread * stats.EffectForPower(c.N, c.level(), targetPower)
}

// SeedsFor is the number of seeds that detect a true difference of that size with a power of 80%
// by itself: if the spread is what it is here, and if it is at its upper 80% bound. 0 means
// more than [stats.MaxPairs], or that nothing can be said.
func (c *Comparison) SeedsFor(difference float64) (likely, most int) {
	sd := max(c.SD, c.Resolution)
	if c.N < 2 || !(sd > 0) {
		return 0, 0
	}
	wide := sd * stats.SDBound(c.N, targetPower)
	return c.pairsFor(difference, sd, c.level()), c.pairsFor(difference, wide, c.level())
}

// pairsFor is [stats.PairsForPower] for a spread of the differences over seeds. What the problems add to the
// variance of the mean stays, however many the seeds.
func (c *Comparison) pairsFor(difference, sd, alpha float64) int {
	own := max(c.SD, c.Resolution)
	problems := float64(c.estimate.SE*c.estimate.SE) - own*own/float64(c.N)
	if !c.Crossed || !(problems > 0) {
		return stats.PairsForPower(difference/sd, alpha, targetPower)
	}
	n := 2 + sort.Search(stats.MaxPairs-1, func(i int) bool {
		spread := math.Sqrt(float64(sd*sd) + float64(float64(i+2)*problems))
		return difference >= spread*stats.EffectForPower(i+2, alpha, targetPower)
	})
	if n > stats.MaxPairs {
		return 0
	}
	return n
}

// swapped is the comparison B - A.
func (c Comparison) swapped() Comparison {
	c.Reversed = !c.Reversed
	c.A, c.B, c.ArmA, c.ArmB = c.B, c.A, c.ArmB, c.ArmA
	c.Mean, c.Lo, c.Hi = -c.Mean, -c.Hi, -c.Lo
	c.estimate.Mean, c.estimate.Lo, c.estimate.Hi = c.Mean, c.Lo, c.Hi
	c.Diffs, c.all = negated(c.Diffs), negated(c.all)
	if c.Test != nil {
		t := *c.Test
		t.Values, t.Mean, t.Lo, t.Hi = negated(t.Values), -t.Mean, -t.Hi, -t.Lo
		c.Test = &t
	}
	return c
}

func negated(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = -v
	}
	return out
}

// Find returns the comparison of two arms in a metric as x - y; nil where it is not
// among those shown.
func (a *Analysis) Find(metric string, x, y int) *Comparison {
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		switch {
		case c.Kind != KindPair || c.Metric != metric:
		case c.ArmA == x && c.ArmB == y:
			return c
		case c.ArmA == y && c.ArmB == x:
			swapped := c.swapped()
			return &swapped
		}
	}
	return nil
}

// compareArms fills in the comparisons: the final reward of every pair, or the contrasts of a grid,
// then the other metrics.
func (a *Analysis) compareArms() {
	p := a.plan()
	if p.grid != nil {
		a.Comparisons = append(a.Comparisons, a.contrasts(p.grid)...)
	} else {
		a.Comparisons = append(a.Comparisons, a.compareFamily(p, FinalMetric)...)
	}
	var others []*Metric
	for _, m := range Metrics {
		if m.compared && m != FinalMetric && (m != EntropyMetric || a.TrainingTemperatures() == nil) &&
			(m != ScoreMetric || a.HasScore()) {
			others = append(others, m)
		}
	}
	a.Comparisons = append(a.Comparisons, slices.DeleteFunc(a.compareFamily(p, others...), func(c Comparison) bool {
		return c.Aside
	})...)
}

// HasScore reports whether evaluations have the mean of a reward function (eval.reward).
func (a *Analysis) HasScore() bool {
	return slices.ContainsFunc(a.Arms, func(r ArmResult) bool {
		return stats.IsFinite(r.Of(ScoreMetric).Mean) || stats.IsFinite(r.Of(InitialScoreMetric).Mean)
	})
}

// compareFamily compares the metrics of a plan's pairs and adjusts over all of its family. The pairs
// that the plan shows come first.
func (a *Analysis) compareFamily(p plan, metrics ...*Metric) []Comparison {
	var all []Comparison
	for _, m := range metrics {
		for _, q := range p.family {
			c := a.comparePair(m, q)
			if shown := slices.Contains(p.shown, pair{q.b, q.a}); shown {
				c = c.swapped()
				c.Reversed = false
			} else if !slices.Contains(p.shown, q) {
				c.Aside = true
			}
			all = append(all, c)
		}
	}
	a.adjustFamily(all)
	all = slices.DeleteFunc(all, func(c Comparison) bool { return a.isStopped(c.ArmA) || a.isStopped(c.ArmB) })
	// In the order of the plan's shown pairs, then the others.
	place := func(c Comparison) int {
		i := slices.Index(p.shown, pair{c.ArmA, c.ArmB})
		if i < 0 {
			i = len(p.shown)
		}
		return slices.IndexFunc(metrics, func(m *Metric) bool { return m.Name == c.Metric })*(len(p.shown)+1) + i
	}
	slices.SortStableFunc(all, func(c, d Comparison) int { return cmp.Compare(place(c), place(d)) })
	return all
}

// adjustFamily adjusts the p values of comparisons, in the order of the plan. A comparison with an arm
// that was stopped, or that has fewer than two seeds yet, counts with p = 1: which arms these are may depend
// on the results.
func (a *Analysis) adjustFamily(all []Comparison) {
	looks := len(a.Sweep.Manifest.Looks) > 0
	if looks && len(all) > 0 && all[0].Metric == FinalMetric.Name {
		a.adjustLooks(all)
		return
	}
	from, to := a.claimed()
	p, q, same := make([]float64, len(all)), make([]float64, len(all)), make([]float64, len(all))
	ordered := true
	for i := range all {
		c := &all[i]
		p[i], q[i], same[i] = c.P, c.MeanSquare, c.estimate.TOST(a.Margin)
		if c.N == 0 && c.Metric != FinalMetric.Name { // no arm may have the metric
			continue
		}
		if c.N < 2 || c.ArmA >= 0 && (a.isStopped(c.ArmA) || a.isStopped(c.ArmB)) {
			p[i], q[i], same[i] = 1, -1, 1
			continue
		}
		if looks { // the looks share the level
			p[i] = min(1, p[i]*stats.Alpha/c.Level)
			if !a.isTested() {
				p[i] = 1
			}
		}
		ordered = ordered && c.Metric == FinalMetric.Name
	}
	ordered = ordered && sameSeeds(all, from, to)
	adjusted := stats.Holm(p)
	if ordered {
		adjusted = stats.Ordered(p, q, stats.OrderedWeight)
	}
	pSame, family := stats.Holm(same), len(stats.Finite(p))
	for i := range all {
		c := &all[i]
		c.Family, c.Ordered = family, ordered
		if c.N < 2 {
			continue
		}
		c.PAdjusted, c.Separable = adjusted[i], adjusted[i] <= stats.Alpha
		if c.Metric == FinalMetric.Name {
			c.PSame, c.Same = pSame[i], pSame[i] <= stats.Alpha
		}
	}
}

// sameSeeds reports whether all comparisons that have two seeds have the same ones, of the seeds from place
// from to before to: the ordered test needs that.
func sameSeeds(all []Comparison, from, to int) bool {
	var first *Comparison
	for i := range all {
		c := &all[i]
		if c.N < 2 {
			continue
		}
		first = cmp.Or(first, c)
		for s := from; s < to; s++ {
			if stats.IsFinite(c.Diffs[s]) != stats.IsFinite(first.Diffs[s]) {
				return false
			}
		}
	}
	return true
}

// isStopped: halving has stopped the arm.
func (a *Analysis) isStopped(arm int) bool { return a.Arms[arm].StoppedAt > 0 }

func (a *Analysis) comparePair(m *Metric, q pair) Comparison {
	x, y := &a.Arms[q.a], &a.Arms[q.b]
	diffs := stats.Differences(x.Of(m).Values, y.Of(m).Values)
	c := newComparison(diffs, max(m.resolution(x), m.resolution(y)))
	if m == FinalMetric {
		c.contrast = contrast{[]int{q.a}, []int{q.b}}
	}
	c.Kind, c.Metric = KindPair, m.Name
	c.A, c.B, c.ArmA, c.ArmB = x.Arm.Name, y.Arm.Name, q.a, q.b
	a.judge(&c)
	if least, most := m.scale.bounds(x.Completions(m)); stats.IsFinite(least) && stats.IsFinite(most) && c.N > 1 {
		c.Lo, c.Hi, c.Bound = max(c.Lo, least-most), min(c.Hi, most-least), min(c.Bound, most-least)
	}
	if m == FinalMetric {
		onTest := stats.Differences(x.Of(TestMetric).Values, y.Of(TestMetric).Values)
		c.Test = a.testDifference(a.OfClaimed(onTest), c.contrast)
	}
	return c
}

// testDifference is the difference on the test problems; nil without any.
func (a *Analysis) testDifference(diffs []float64, q contrast) *Summary {
	if len(stats.Finite(diffs)) == 0 {
		return nil
	}
	resolution := a.resolution(TestMetric, q)
	e, _ := a.crossed(diffs, 0, q, resolution, lastTest)
	return summaryOf(diffs, e.Clip(-1, 1))
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
