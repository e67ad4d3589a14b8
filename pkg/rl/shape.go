package rl

import (
	"fmt"
	"math"
)

// Shape is the shape of a matrix over tokens: B sequences of T tokens, in a
// flat slice in row-major order (token t of sequence b at b*T + t).
type Shape struct{ B, T int }

// Len returns B*T.
func (s Shape) Len() int { return s.B * s.T }

// String returns the shape as (B, T).
func (s Shape) String() string { return fmt.Sprintf("(%d, %d)", s.B, s.T) }

// check checks the sides of the shape, and that a mask and matrices fit it.
func (s Shape) check(mask []bool, xs ...[]float64) error {
	if s.B < 1 || s.T < 1 {
		return fmt.Errorf("shape %v: both sides must be at least 1", s)
	}
	for i, x := range xs {
		if err := s.want(fmt.Sprintf("matrix %d", i+1), len(x)); err != nil {
			return err
		}
	}
	return s.want("mask", len(mask))
}

// want checks the length of a slice over tokens.
func (s Shape) want(name string, n int) error {
	if n != s.Len() {
		return fmt.Errorf("%s has %d values, shape %v needs %d", name, n, s, s.Len())
	}
	return nil
}

// Totals counts an optimizer batch; the weights of an [Aggregation] divide by it.
// Micro-batches of one update share the totals of the whole.
type Totals struct {
	Sequences int // all of them, also those without a token
	NonEmpty  int // those with at least one token
	Tokens    int // tokens where the mask is true
	// Kept counts the tokens that a policy mask keeps; without one it equals
	// Tokens. Only the entropy bonus divides by it.
	Kept int
}

// Count returns the totals of a mask of the given shape; policyMask is
// [Batch].PolicyMask, or nil. It panics if a mask is shorter than the shape.
func Count(s Shape, mask, policyMask []bool) Totals {
	t := Totals{Sequences: s.B}
	for b := range s.B {
		if n := countTrue(mask[b*s.T : (b+1)*s.T]); n > 0 {
			t.NonEmpty++
			t.Tokens += n
		}
	}
	t.Kept = t.Tokens
	for i, in := range mask[:s.Len()] {
		if in && policyMask != nil && !policyMask[i] {
			t.Kept--
		}
	}
	return t
}

// Times returns the totals of k batches of this size.
func (t Totals) Times(k int) Totals {
	return Totals{k * t.Sequences, k * t.NonEmpty, k * t.Tokens, k * t.Kept}
}

// covers reports whether a batch with totals o can be part of t.
func (t Totals) covers(o Totals) bool {
	return t.Sequences >= o.Sequences && t.NonEmpty >= o.NonEmpty && t.Tokens >= o.Tokens && t.Kept >= o.Kept
}

func countTrue(mask []bool) int {
	n := 0
	for _, m := range mask {
		if m {
			n++
		}
	}
	return n
}

// AllDims asks [MaskedMean] and [MaskedNormalize] to reduce over every
// dimension (dim=None in the assignment).
const AllDims = math.MinInt

// MaskedMean averages x over dimension dim where the mask is true:
//
//	y = sum(x * mask, dim) / sum(mask, dim)
//
// x and mask are flat, row-major, of the given shape; a negative dim counts from
// the end (-1 is the last), [AllDims] reduces everything to one value. The
// result has the shape without dim. A slice without a true mask gives NaN, as 0/0
// does in the assignment: this function is strict, and the training path ([Loss])
// guards where it divides.
//
// Source: CS336 assignment 5 (2025), masked_mean.
func MaskedMean(x []float64, mask []bool, shape []int, dim int) ([]float64, error) {
	sum, n, err := maskedSum(x, mask, shape, dim)
	if err != nil {
		return nil, fmt.Errorf("masked mean: %w", err)
	}
	for i := range sum {
		sum[i] /= float64(n[i]) // 0/0 is NaN, as documented
	}
	return sum, nil
}

// MaskedNormalize sums x over dimension dim where the mask is true and divides
// by a constant:
//
//	y = sum(x * mask, dim) / z
//
// Shapes are those of [MaskedMean]; a slice with no true mask gives 0. z must
// not be 0.
//
// Source: CS336 assignment 5 (2025), masked_normalize.
func MaskedNormalize(x []float64, mask []bool, shape []int, dim int, z float64) ([]float64, error) {
	if z == 0 || math.IsNaN(z) {
		return nil, fmt.Errorf("masked normalize: the constant is %v; it must be a number other than 0", z)
	}
	sum, _, err := maskedSum(x, mask, shape, dim)
	if err != nil {
		return nil, fmt.Errorf("masked normalize: %w", err)
	}
	for i := range sum {
		sum[i] /= z
	}
	return sum, nil
}

// maskedSum returns the sums and the counts over dim. With the shape seen as
// (outer, n, inner), element (o, i, k) is at (o*n + i)*inner + k.
func maskedSum(x []float64, mask []bool, shape []int, dim int) (sum []float64, count []int, err error) {
	size := 1
	for _, s := range shape {
		if s < 0 {
			return nil, nil, fmt.Errorf("shape %v has a negative side", shape)
		}
		size *= s
	}
	if len(x) != size || len(mask) != size {
		return nil, nil, fmt.Errorf("shape %v needs %d values; x has %d and the mask %d",
			shape, size, len(x), len(mask))
	}
	outer, n, inner := 1, size, 1
	if dim != AllDims {
		d := dim
		if d < 0 {
			d += len(shape)
		}
		if d < 0 || d >= len(shape) {
			return nil, nil, fmt.Errorf("dimension %d is outside shape %v", dim, shape)
		}
		n = shape[d]
		for _, s := range shape[:d] {
			outer *= s
		}
		for _, s := range shape[d+1:] {
			inner *= s
		}
	}
	sum = make([]float64, outer*inner)
	count = make([]int, outer*inner)
	for o := range outer {
		for i := range n {
			for k := range inner {
				at := (o*n+i)*inner + k
				if mask[at] {
					sum[o*inner+k] += x[at]
					count[o*inner+k]++
				}
			}
		}
	}
	return sum, count, nil
}
