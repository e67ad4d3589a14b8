package model

import (
	"math/rand"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPick: the first token at which the running sum exceeds u times the total. Probabilities are
// multiples of 2^-12, so every sum is exact and the order of addition can't matter.
func TestPick(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(rt, "tokens")
		probs := make([]float32, n)
		var total float64
		for i := range probs {
			if rapid.Bool().Draw(rt, "zero") {
				continue
			}
			probs[i] = float32(rapid.IntRange(0, 4096).Draw(rt, "p")) / 4096
			total += float64(probs[i])
		}
		if total == 0 {
			probs[n/2], total = 1, 1
		}
		u := float64(rapid.IntRange(0, 1<<20-1).Draw(rt, "u")) / (1 << 20)
		want, sum := -1, 0.0
		for i, p := range probs {
			if sum += float64(p); sum > u*total {
				want = i
				break
			}
		}
		if got, mass := NewChooser(n, nil).pick(probs, u); got != want || mass != total {
			rt.Fatalf("pick(%v) = %d, want %d of %v", u, got, want, probs)
		}
	})
	// Where rounding leaves nothing above the target, the last token that can
	// be drawn is drawn, whatever zeros follow.
	probs := make([]float32, 60)
	probs[3], probs[20] = 0.5, 0.5
	if got, _ := NewChooser(60, nil).pick(probs, 1); got != 20 {
		t.Errorf("pick(1) = %d, want 20", got)
	}
}

// TestTruncate compares top-k and top-p with their definition, a stable sort. In the large
// vocabulary every sum is exact.
func TestTruncate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
		n := rapid.SampledFrom([]int{1, 2, 7, 100, 200, sortedSum + 500}).Draw(rt, "tokens")
		probs := make([]float32, n)
		for i := range probs {
			if probs[i] = r.Float32(); n > sortedSum || r.Intn(2) == 0 { // with ties
				probs[i] = float32(r.Intn(64)*r.Intn(64)) / 4096
			}
		}
		opt := Sampling{TopP: float64(rapid.IntRange(1, 64).Draw(rt, "top_p")) / 64, TopK: rapid.IntRange(0, n).Draw(rt, "top_k")}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case probs[a] > probs[b]:
				return -1
			case probs[a] < probs[b]:
				return 1
			}
			return 0
		})
		keep := n
		if opt.TopK > 0 {
			keep = opt.TopK
		}
		total, sum := 0.0, 0.0
		for _, i := range order[:keep] {
			total += float64(probs[i])
		}
		want := make([]float32, n)
		for _, i := range order[:keep] {
			want[i] = probs[i]
			if sum += float64(probs[i]); sum >= opt.TopP*total {
				break
			}
		}
		NewChooser(n, nil).truncate(probs, opt)
		if !slices.Equal(probs, want) {
			rt.Fatalf("%+v keeps %v, want %v", opt, probs, want)
		}
	})
}
