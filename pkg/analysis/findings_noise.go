package analysis

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

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
			_, cost := c.Ends(stats.Alpha)
			f.Values, f.Bound = []string{rate}, max(f.Bound, cost)
		}
		if known {
			out = append(out, f)
		}
	}
	return out
}
