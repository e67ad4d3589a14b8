package rng

import "testing"

func TestIntnIsUniform(t *testing.T) {
	q, counts := New(1, Problems).Sequence(9, 9, 9), make([]int, 7)
	for range 7000 {
		counts[q.Intn(7)]++
	}
	for i, n := range counts {
		if n < 870 || n > 1130 { // 1000 within four standard deviations
			t.Errorf("%d comes %d times of 7000", i, n)
		}
	}
}

func TestShuffleIsUniform(t *testing.T) {
	q, counts := New(2, Problems).Sequence(9, 9, 9), map[[3]int]int{}
	for range 6000 {
		s := []int{0, 1, 2}
		ShuffleSlice(q, s)
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
