package explain

import (
	"fmt"

	"grpo/pkg/rl"
)

// maxTokens bounds the matrices that a subject makes from lengths: they are as
// wide as the longest completion.
const maxTokens = 1 << 20

// lengthMask is a mask (B, T) with the first length tokens of each row set. T is
// the longest length, or t where that is longer.
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
		return rl.Shape{}, nil, fmt.Errorf("%d completions of up to %d tokens are more than %d tokens (give shorter lengths)", len(lengths), t, maxTokens)
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

// tokenWeight returns the weight of a token of each row under an aggregation,
// which is the same for all tokens of a row; 0 for a row without tokens.
func tokenWeight(a rl.Aggregation, z float64, s rl.Shape, mask []bool) ([]float64, error) {
	weights := make([]float64, s.Len())
	if _, err := rl.Aggregate(a, z, s, make([]float64, s.Len()), mask, rl.Totals{}, weights); err != nil {
		return nil, err
	}
	out := make([]float64, s.B)
	for i, in := range mask {
		if in {
			out[i/s.T] = weights[i]
		}
	}
	return out, nil
}

// rows cuts a matrix (B, T) into its rows.
func rows(s rl.Shape, x []float64) [][]float64 {
	out := make([][]float64, s.B)
	for b := range out {
		out[b] = x[b*s.T : (b+1)*s.T]
	}
	return out
}

// computed returns an error for a result that left the range of a number.
func computed(name string, xs ...float64) error {
	for _, x := range xs {
		if x-x != 0 {
			return fmt.Errorf("%s comes to %v, out of the range of a 64-bit number (use less extreme inputs)", name, x)
		}
	}
	return nil
}

// finite returns an error for a number that is NaN or infinite.
func finite(name string, xs ...float64) error {
	for _, x := range xs {
		if x-x != 0 {
			return fmt.Errorf("%s is %v; it must be a finite number", name, x)
		}
	}
	return nil
}
