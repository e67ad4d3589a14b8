package rl

import (
	"fmt"
	"math"
)

// AllDims asks [MaskedMean] and [MaskedNormalize] to reduce over every
// dimension (dim=None in the assignment).
const AllDims = math.MinInt

// MaskedMean averages x over dimension dim where the mask is true:
//
//	y = sum(x * mask, dim) / sum(mask, dim)
//
// x and mask are flat, row-major, of the given shape; a negative dim counts from
// the end (-1 is the last), [AllDims] reduces everything to one value. The
// result has the shape without dim. A slice in which the mask is nowhere true
// gives NaN, as 0/0 does in the assignment: this function is strict, and the
// training path ([Loss]) guards where it divides.
//
// Source: CS336 assignment 5 (2025), masked_mean.
func MaskedMean(x []float64, mask []bool, shape []int, dim int) ([]float64, error) {
	sum, n, err := maskedSum(x, mask, shape, dim)
	if err != nil {
		return nil, fmt.Errorf("masked mean: %w", err)
	}
	for i := range sum {
		sum[i] /= float64(n[i]) // 0/0 is NaN, on purpose
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
		return nil, nil, fmt.Errorf("shape %v needs %d values; x has %d and the mask %d", shape, size, len(x), len(mask))
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
