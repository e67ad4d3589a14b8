package gsm8k

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSoftOverlongNeverRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 500).Draw(t, "limit")
		cache := rapid.IntRange(0, limit).Draw(t, "cache")
		n := rapid.IntRange(0, 2*limit).Draw(t, "n")
		a, b := SoftOverlong(n, limit, cache), SoftOverlong(n+1, limit, cache)
		if b > a || a < -1 || a > 0 || (a < 0) != (n > limit-cache) {
			t.Fatalf("length %d: %v, length %d: %v", n, a, n+1, b)
		}
	})
}

func TestCosineScaled(t *testing.T) {
	c := CosineRange{MinValueWrong: -1, MaxValueWrong: -0.5, MinValueCorrect: 0.5, MaxValueCorrect: 1}
	quarter := 0.25 * (1 - math.Sqrt2/2)
	for _, k := range []struct {
		name    string
		length  int
		correct bool
		want    float64
	}{
		{"right at 0", 0, true, 1},
		{"right at a quarter", 16, true, 1 - quarter},
		{"right half-way", 32, true, 0.75},
		{"right at the limit", 64, true, 0.5},
		{"wrong at 0", 0, false, -1},
		{"wrong at a quarter", 16, false, -1 + quarter},
		{"wrong half-way", 32, false, -0.75},
		{"wrong at the limit", 64, false, -0.5},
	} {
		t.Run(k.name, func(t *testing.T) {
			if got := CosineScaled(k.length, 64, k.correct, c); math.Abs(got-k.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, k.want)
			}
		})
	}
}

// The straightforward count: a set of the windows as text.
func distinctNaive(ids []int, n int) int {
	set := map[string]bool{}
	for i := 0; i+n <= len(ids); i++ {
		set[fmt.Sprint(ids[i:i+n])] = true
	}
	return len(set)
}

func TestDistinctNGrams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.IntRange(-1, rapid.IntRange(0, 3).Draw(t, "alphabet")), 1, 40).Draw(t, "ids")
		n := rapid.IntRange(1, len(ids)).Draw(t, "n")
		if got, want := distinctNGrams(ids, n), distinctNaive(ids, n); got != want {
			t.Fatalf("%d different %d-grams in %v, want %d", got, n, ids, want)
		}
	})
}

func TestRepetitionPenalty(t *testing.T) {
	for _, c := range []struct {
		name    string
		ids     []int
		n       int
		penalty float64
		want    float64
	}{
		{"no token", nil, 1, -1, 0},
		{"too few tokens", []int{1, 2}, 3, -1, 0},
		{"all equal", []int{5, 5, 5, 5, 5}, 2, -1, -0.75},
		{"no penalty", []int{5, 5, 5}, 1, 0, 0},
		{"width five", []int{1, 2, 3, 4, 5, 1, 2, 3, 4, 5}, 5, -1, -1. / 6},
		{"no width", []int{1}, 0, -1, math.NaN()},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := RepetitionPenalty(c.ids, c.n, c.penalty)
			if math.IsNaN(got) != math.IsNaN(c.want) || math.Abs(got-c.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	// The cost must not be the product of the window's width and the length.
	long := make([]int, 1<<17)
	if got, want := RepetitionPenalty(long, 1<<16, -1), -1+1/float64(1<<16+1); math.Abs(got-want) > 1e-12 {
		t.Errorf("wide window: got %v, want %v", got, want)
	}
}
