package explain

import (
	"fmt"
	"io"
	"math"

	"grpo/pkg/stats"
)

// PassKOptions are the inputs of [PassK].
type PassKOptions struct {
	N       int   // completions of a problem
	Correct int   // how many of them are right
	K       []int // each from 1 to N
}

// DefaultPassK is a problem that a policy rarely solves.
func DefaultPassK() PassKOptions { return PassKOptions{N: 16, Correct: 3, K: []int{1, 4, 16}} }

// PassKResult is the result of [PassK].
type PassKResult struct {
	N       int        `json:"n"`
	Correct int        `json:"correct"`
	P       float64    `json:"p"` // Correct / N
	K       []PassKRow `json:"estimates"`
}

// PassKRow are the two estimates of pass@k, and what they are on average if the true chance of a right completion
// is P: over the number of right completions, which is then binomial.
type PassKRow struct {
	K       int     `json:"k"`
	Wrong   float64 `json:"subsets_without_a_right_one"` // C(n-c, k)
	Subsets float64 `json:"subsets"`                     // C(n, k)
	PassAt  float64 `json:"pass_at_k"`                   // 1 - Wrong/Subsets
	PlugIn  float64 `json:"plug_in"`                     // 1 - (1-c/n)^k

	True         float64 `json:"true"` // 1 - (1-P)^k
	MeanPassAt   float64 `json:"mean_of_pass_at_k"`
	MeanPlugIn   float64 `json:"mean_of_plug_in"`
	PassAtBias   float64 `json:"bias_of_pass_at_k"`
	PlugInBias   float64 `json:"bias_of_plug_in"`
	PlugInAtHalf float64 `json:"bias_of_plug_in_with_half_the_completions"`
}

// PassK computes pass@k from one problem's completions, by the unbiased estimator [stats.PassAt] and by putting c/n into
// 1 - (1-p)^k, and the exact bias of both.
func PassK(o PassKOptions) (out PassKResult, err error) {
	defer named("passk", &err)
	switch {
	case o.N < 1 || o.N > stats.MaxChoose:
		return out, fmt.Errorf("%d completions; there must be from 1 to %d (--n)", o.N, stats.MaxChoose)
	case o.Correct < 0 || o.Correct > o.N:
		return out, fmt.Errorf("%d right completions; there must be from 0 to %d, the number of completions (--correct)",
			o.Correct, o.N)
	case len(o.K) == 0:
		return out, fmt.Errorf("there is no k (--k 1,4)")
	}
	out = PassKResult{N: o.N, Correct: o.Correct, P: float64(o.Correct) / float64(o.N)}
	for _, k := range o.K {
		if k < 1 || k > o.N {
			return out, fmt.Errorf("k = %d; it must be from 1 to %d, the number of completions (--k, --n)", k, o.N)
		}
		row := PassKRow{
			K: k, Wrong: stats.Choose(o.N-o.Correct, k), Subsets: stats.Choose(o.N, k),
			PassAt: stats.PassAt(o.N, o.Correct, k), PlugIn: plugIn(out.P, k), True: plugIn(out.P, k),
		}
		row.MeanPassAt = overBinomial(o.N, out.P, func(c int) float64 { return stats.PassAt(o.N, c, k) })
		mean := func(n int) float64 {
			return overBinomial(n, out.P, func(c int) float64 { return plugIn(float64(c)/float64(n), k) })
		}
		row.MeanPlugIn = mean(o.N)
		row.PassAtBias, row.PlugInBias = row.MeanPassAt-row.True, row.MeanPlugIn-row.True
		row.PlugInAtHalf = mean(max(1, o.N/2)) - row.True
		out.K = append(out.K, row)
	}
	return out, nil
}

// plugIn is the chance that one of k completions is right, each with probability p.
func plugIn(p float64, k int) float64 { return 1 - math.Pow(1-p, float64(k)) }

// overBinomial is the mean of f(c) over c ~ Binomial(n, p).
func overBinomial(n int, p float64, f func(c int) float64) float64 {
	sum := 0.0
	for c := range n + 1 {
		if p > 0 && p < 1 {
			log := float64(c)*math.Log(p) + float64(n-c)*math.Log1p(-p)
			sum += stats.Choose(n, c) * math.Exp(log) * f(c)
		} else if float64(c) == p*float64(n) {
			sum += f(c)
		}
	}
	return sum
}

// WriteText writes the tables and the conclusions.
func (r PassKResult) WriteText(w io.Writer) error {
	page := struct {
		PassKResult
		Worst PassKRow // of the largest bias
	}{PassKResult: r}
	for _, k := range r.K {
		if math.Abs(k.PlugInBias) > math.Abs(page.Worst.PlugInBias) {
			page.Worst = k
		}
	}
	return writePage(w, "passk", page)
}
