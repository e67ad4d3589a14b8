package stats

import "math"

// Differences returns a[i] - b[i] for each index that both have, NaN where either
// value is not finite. [StudentT] of the differences is the paired t test of a
// against b.
func Differences(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
		if !IsFinite(out[i]) {
			out[i] = math.NaN()
		}
	}
	return out
}
