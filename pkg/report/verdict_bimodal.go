package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/stats"
)

const (
	// learnedBy: a seed learned if its reward rose by more than this many standard
	// errors of a difference of two shares of the problems.
	learnedBy = 2.0
	// bimodalGap is the least distance between seeds that learned and seeds that did not.
	bimodalGap = 0.1
)

// bimodal splits an arm's seeds into those that learned and those that did not, by
// their places, and says whether a gap lies between them. The mean of such an arm
// stands where no seed is, and an interval by Student's t presumes seeds of one kind.
func bimodal(r *analysis.ArmResult) (learned, stayed []int, ok bool) {
	if r.Problems == 0 {
		return nil, nil, false
	}
	low, high := math.Inf(1), math.Inf(-1) // of those that learned, and of those that did not
	for i, rise := range stats.Differences(r.Of(analysis.FinalMetric).Values, r.Of(analysis.InitialMetric).Values) {
		if math.IsNaN(rise) {
			continue
		}
		p, q := r.Of(analysis.InitialMetric).Values[i], r.Of(analysis.FinalMetric).Values[i]
		if rise > learnedBy*math.Sqrt((p*(1-p)+q*(1-q))/float64(r.Problems)) {
			learned, low = append(learned, i), min(low, q)
		} else {
			stayed, high = append(stayed, i), max(high, q)
		}
	}
	return learned, stayed, len(learned) > 0 && len(stayed) > 0 && low-high >= bimodalGap
}

// bimodalLines name the arms that are bimodal across seeds, with what became of their seeds.
func (a *Report) bimodalLines() []string {
	var out []string
	for i := range a.Arms {
		r := &a.Arms[i]
		learned, stayed, ok := bimodal(r)
		if !ok {
			continue
		}
		ends := func(places []int) string {
			var values []float64
			for _, at := range places {
				values = append(values, r.Of(analysis.FinalMetric).Values[at])
			}
			lo, hi := analysis.Percent(slices.Min(values)), analysis.Percent(slices.Max(values))
			if lo == hi {
				return lo
			}
			return lo + " to " + hi
		}
		var who []string
		for _, at := range stayed {
			who = append(who, fmt.Sprint(a.Sweep.Manifest.Seeds[at]))
		}
		seeds := "seed"
		if len(who) > 1 {
			seeds = "seeds"
		}
		out = append(out, fmt.Sprintf("%s is bimodal across seeds: %d of %d seeds did not learn (%s %s, at %s; before training %s), the others end at %s. Its mean and interval describe neither kind of seed.",
			r.Name(), len(stayed), len(stayed)+len(learned), seeds, strings.Join(who, ", "), ends(stayed), analysis.Percent(r.Of(analysis.InitialMetric).Mean), ends(learned)))
	}
	return out
}
