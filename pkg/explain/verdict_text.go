package explain

import (
	"io"
	"math"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/stats"
)

// outcomes are the conclusions about the pairs: which arm is higher, the same within the margin (by [stats.Holm]
// over the tests of equivalence), or open.
func (r VerdictResult) outcomes() []string {
	tost := make([]float64, len(r.Pairs))
	for j, pair := range r.Pairs {
		if tost[j] = pair.TOST; math.IsNaN(pair.TOST) {
			tost[j] = 1
		}
	}
	same := stats.Holm(tost)
	out := make([]string, len(r.Pairs))
	for j, pair := range r.Pairs {
		switch {
		case pair.MeanSquare < 0:
			out[j] = "stopped"
		case pair.N < 2:
			out[j] = "one seed"
		case pair.p() <= stats.Alpha && pair.Mean > 0:
			out[j] = armName(pair.A) + " is higher"
		case pair.p() <= stats.Alpha:
			out[j] = armName(pair.B) + " is higher"
		case same[j] <= stats.Alpha:
			out[j] = "the same within " + short(r.Margin)
		default:
			out[j] = "open"
		}
	}
	return out
}

// armName is the name of an arm in a table.
func armName(name string) string { return textutil.Printable(name, 24) }

// cell formats a number of a table; a missing one is "-".
func cell(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "-"
	case a > 0 && a < 1e-4, a >= 1e7:
		return digits(x, 3)
	}
	return num(x)
}

// WriteText writes the tables and the conclusions.
func (r VerdictResult) WriteText(w io.Writer) error {
	page := struct {
		VerdictResult
		Problems                    int
		Reference                   string
		Values                      []string // of the arms
		Means                       []float64
		Outcomes                    []string
		Separated, ByHolm, ByItself int
		Largest                     VerdictPair // with the largest mean square
		Uneven                      bool
		Unbeaten                    []string
	}{
		VerdictResult: r, Problems: r.options.Problems, Reference: r.options.Reference,
		Outcomes: r.outcomes(), Largest: r.Pairs[0],
		Uneven: r.Weight != r.options.Weight,
	}
	for _, a := range r.Arms {
		page.Means = append(page.Means, stats.Mean(a.Values))
		page.Values = append(page.Values, strings.Join(listOf(cell)(a.Values), " "))
		if len(a.Values) > 0 && !slices.ContainsFunc(r.Pairs, func(p VerdictPair) bool {
			return p.p() <= stats.Alpha && (p.Mean > 0 && p.B == a.Name || p.Mean < 0 && p.A == a.Name)
		}) {
			page.Unbeaten = append(page.Unbeaten, armName(a.Name))
		}
	}
	for j, pair := range r.Pairs {
		if pair.MeanSquare > page.Largest.MeanSquare {
			page.Largest = pair
		}
		page.Separated += below(pair.p())
		page.ByHolm += below(r.Holm[j])
		page.ByItself += below(pair.P)
	}
	return writePage(w, "verdict", page)
}

// below is 1 if p is at most the level.
func below(p float64) int {
	if p <= stats.Alpha {
		return 1
	}
	return 0
}
