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

func TestEntropy(t *testing.T) {
	for _, c := range []struct {
		name   string
		logits []float64
		want   float64
	}{
		{"uniform", []float64{3, 3, 3, 3}, math.Log(4)},
		{"certain", []float64{0, math.Inf(-1)}, 0},
		{"huge logits", []float64{1e300, 1e300}, math.Log(2)},
		{"very small logits", []float64{-1e300, -1e300}, math.Log(2)},
		{"1/4 and 3/4", []float64{0, math.Log(3)}, math.Log(4) - 0.75*math.Log(3)},
	} {
		if got := Entropy(c.logits); !closeTo(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got, err := Entropies([]float64{5, -5}, 1); err != nil || got[0] != 0 || got[1] != 0 {
		t.Errorf("a vocabulary of one: %v, %v", got, err)
	}
	if _, err := Entropies(make([]float64, 5), 2); err == nil {
		t.Error("5 logits in rows of 2: want an error")
	}
}
