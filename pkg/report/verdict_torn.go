package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/stats"
)

const (
	// learnedBy: a seed learned where its reward rose by more than so many standard
	// errors of a difference of two shares of the problems.
	learnedBy = 2.0
	// tornGap: so far lie the seeds that did not learn below those that did.
	tornGap = 0.1
)

// torn splits an arm's seeds into those that learned and those that did not, by
// their places, and says whether a gap lies between them. The mean of such an arm
// stands where no seed is, and an interval by Student's t presumes seeds of one kind.
func torn(r *ArmRow) (learned, stayed []int, ok bool) {
	if r.Problems == 0 {
		return nil, nil, false
	}
	low, high := math.Inf(1), math.Inf(-1) // of those that learned, and of those that did not
	for i, rise := range stats.Differences(r.of(finalMetric).Values, r.of(initialMetric).Values) {
		if math.IsNaN(rise) {
			continue
		}
		p, q := r.of(initialMetric).Values[i], r.of(finalMetric).Values[i]
		if rise > learnedBy*math.Sqrt((p*(1-p)+q*(1-q))/float64(r.Problems)) {
			learned, low = append(learned, i), min(low, q)
		} else {
			stayed, high = append(stayed, i), max(high, q)
		}
	}
	return learned, stayed, len(learned) > 0 && len(stayed) > 0 && low-high >= tornGap
}

// tornLines name the arms that are torn, with what became of their seeds.
func (a *Analysis) tornLines() []string {
	var out []string
	for i := range a.Arms {
		r := &a.Arms[i]
		learned, stayed, ok := torn(r)
		if !ok {
			continue
		}
		ends := func(places []int) string {
			var values []float64
			for _, at := range places {
				values = append(values, r.of(finalMetric).Values[at])
			}
			lo, hi := percent(slices.Min(values)), percent(slices.Max(values))
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
		out = append(out, fmt.Sprintf("%s is torn: %d of %d seeds did not learn (%s %s, at %s; before training %s), the others end at %s. Its mean and interval describe neither kind of seed.",
			r.Name(), len(stayed), len(stayed)+len(learned), seeds, strings.Join(who, ", "), ends(stayed), percent(r.of(initialMetric).Mean), ends(learned)))
	}
	return out
}
