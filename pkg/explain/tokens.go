package explain

import (
	"fmt"
	"slices"

	"grpo/pkg/rl"
)

// maxTokens bounds the width of a subject's matrices, the longest completion.
const maxTokens = 1 << 20

// named adds the subject to the error of its function.
func named(subject string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("explain %s: %w", subject, *err)
	}
}

// lengthMask is a mask (B, T) with the first length tokens of each row set. T is
// the longest length, or t if that is longer.
func lengthMask(lengths []int, t int) (rl.Shape, []bool, error) {
	if len(lengths) == 0 {
		return rl.Shape{}, nil, fmt.Errorf("no lengths (give one for each completion)")
	}
	for i, n := range lengths {
		if n < 1 || n > maxTokens {
			return rl.Shape{}, nil, fmt.Errorf("length %d of completion %d is outside 1..%d", n, i, maxTokens)
		}
		t = max(t, n)
	}
	if t > maxTokens || len(lengths) > maxTokens/t {
		return rl.Shape{}, nil, fmt.Errorf("%d completions of up to %d tokens are more than %d (give shorter lengths)",
			len(lengths), t, maxTokens)
	}
	s := rl.Shape{B: len(lengths), T: t}
	mask := make([]bool, s.Len())
	for b, n := range lengths {
		for i := range n {
			mask[b*t+i] = true
		}
	}
	return s, mask, nil
}

// rowLengths counts the tokens of each row of a mask.
func rowLengths(s rl.Shape, mask []bool) []int {
	out := make([]int, s.B)
	for i, in := range mask {
		if in {
			out[i/s.T]++
		}
	}
	return out
}

// maskRows is a mask as rows of 0 and 1.
func maskRows(s rl.Shape, mask []bool) [][]int {
	out := make([][]int, s.B)
	for i, in := range mask {
		bit := 0
		if in {
			bit = 1
		}
		out[i/s.T] = append(out[i/s.T], bit)
	}
	return out
}

// tokenWeights returns, for each row, the weight of its tokens under an aggregation
// (the same for all tokens of a row; 0 for a row without tokens) and the share of
// the row in all weights.
func tokenWeights(a rl.Aggregation, z float64, s rl.Shape, mask []bool) (
	token, share []float64, total float64, err error) {
	weights := make([]float64, s.Len())
	if _, err := rl.Aggregate(a, z, s, make([]float64, s.Len()), mask, rl.Totals{}, weights); err != nil {
		return nil, nil, 0, err
	}
	token, share = make([]float64, s.B), make([]float64, s.B)
	for i, in := range mask {
		if in {
			token[i/s.T] = weights[i]
		}
	}
	for b, n := range rowLengths(s, mask) {
		share[b] = float64(n) * token[b]
		total += share[b]
	}
	for b := range share {
		if total > 0 {
			share[b] /= total
		}
	}
	return token, share, total, computed("a weight under "+string(a), token, share, []float64{total})
}

// rows cuts a matrix (B, T) into its rows.
func rows(s rl.Shape, x []float64) [][]float64 {
	out := make([][]float64, s.B)
	for b := range out {
		out[b] = x[b*s.T : (b+1)*s.T]
	}
	return out
}

// finite returns an error if an input is NaN or infinite.
func finite(name string, xs ...float64) error {
	for _, x := range xs {
		if x-x != 0 {
			return fmt.Errorf("%s is %v; it must be a finite number", name, x)
		}
	}
	return nil
}

// computed returns an error if a result is NaN or infinite.
func computed(name string, lists ...[]float64) error {
	for _, x := range slices.Concat(lists...) {
		if x-x != 0 {
			return fmt.Errorf("%s is %v, out of the range of a 64-bit number (use less extreme inputs)", name, x)
		}
	}
	return nil
}
