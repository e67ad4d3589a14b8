package gsm8k

import (
	"slices"
	"testing"

	"grpo/pkg/rng"
)

func newSequence(seed uint64) *rng.Sequence {
	return rng.New(seed, rng.Problems).Sequence(9, 9, 9)
}

func TestIntnIsUniform(t *testing.T) {
	r, counts := newSequence(1), make([]int, 7)
	for range 7000 {
		counts[intn(r, 7)]++
	}
	for i, n := range counts {
		if n < 870 || n > 1130 { // 1000 within four standard deviations
			t.Errorf("%d comes %d times of 7000", i, n)
		}
	}
}

func TestShuffleIsUniform(t *testing.T) {
	r, counts := newSequence(2), map[[3]int]int{}
	for range 6000 {
		s := []int{0, 1, 2}
		shuffle(r, s)
		counts[[3]int(s)]++
	}
	if len(counts) != 6 {
		t.Fatalf("%d orders of three, want 6", len(counts))
	}
	for order, n := range counts {
		if n < 880 || n > 1120 {
			t.Errorf("order %v comes %d times of 6000", order, n)
		}
	}
}

func TestNextByWeight(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []float64
		want    []int
	}{
		{"equal", []float64{1, 1, 1}, []int{0, 1, 2, 0, 1, 2}},
		{"two to one", []float64{2, 1}, []int{0, 0, 1, 0, 0, 1}},
		{"zero is left out", []float64{0, 1, 0}, []int{1, 1, 1}},
		{"none", []float64{0, 0}, []int{-1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts := make([]int, len(c.weights))
			var got []int
			for range c.want {
				i := nextByWeight(counts, c.weights)
				got = append(got, i)
				if i >= 0 {
					counts[i]++
				}
			}
			slices.Sort(got[:min(3, len(got))]) // the order within a round is not the point
			slices.Sort(got[min(3, len(got)):])
			if !slices.Equal(got, c.want) {
				t.Errorf("order %v, want %v", got, c.want)
			}
		})
	}
}
