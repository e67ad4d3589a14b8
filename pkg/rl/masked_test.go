package rl

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMaskedByHand(t *testing.T) {
	x := []float64{1, nan, 3, 4, 5, nan} // shape (2, 3)
	mask := []bool{true, false, true, true, true, false}
	for _, c := range []struct {
		name      string
		dim       int
		mean, sum []float64
	}{
		{"rows", 1, []float64{2, 4.5}, []float64{4, 9}},
		{"last", -1, []float64{2, 4.5}, []float64{4, 9}},
		{"columns", 0, []float64{2.5, 5, 3}, []float64{5, 5, 3}},
		{"first from the end", -2, []float64{2.5, 5, 3}, []float64{5, 5, 3}},
		{"all", AllDims, []float64{3.25}, []float64{13}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mean, err := MaskedMean(x, mask, []int{2, 3}, c.dim)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := MaskedNormalize(x, mask, []int{2, 3}, c.dim, 0.5)
			if err != nil {
				t.Fatal(err)
			}
			for i := range sum {
				sum[i] /= 2
			}
			if !slices.Equal(mean, c.mean) || !slices.Equal(sum, c.sum) {
				t.Errorf("means %v, want %v; sums %v, want %v", mean, c.mean, sum, c.sum)
			}
		})
	}
	empty, err := MaskedMean([]float64{1}, []bool{false}, []int{1, 1}, 1)
	if err != nil || !math.IsNaN(empty[0]) {
		t.Errorf("the mean of nothing is %v, want NaN", empty)
	}
	for _, c := range []struct {
		want string
		call func() error
	}{
		{"dimension 2 is outside shape [2 3]", func() error { _, err := MaskedMean(x, mask, []int{2, 3}, 2); return err }},
		{"dimension -3 is outside", func() error { _, err := MaskedMean(x, mask, []int{2, 3}, -3); return err }},
		{"needs 8 values; x has 6", func() error { _, err := MaskedMean(x, mask, []int{2, 4}, 0); return err }},
		{"negative side", func() error { _, err := MaskedMean(x, mask, []int{-2, -3}, 0); return err }},
		{"the constant is 0", func() error { _, err := MaskedNormalize(x, mask, []int{2, 3}, 0, 0); return err }},
	} {
		if err := c.call(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}
