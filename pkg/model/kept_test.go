package model

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A set of kept tokens, few or many, holds what it was made of, and restricts logits to it.
func TestKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		vocab := rapid.SampledFrom([]int{1, 7, 64, 65, 400}).Draw(rt, "vocabulary")
		in := make([]bool, vocab)
		n := 0
		for range rapid.IntRange(1, 2*vocab).Draw(rt, "draws") {
			if id := rapid.IntRange(0, vocab-1).Draw(rt, "id"); !in[id] {
				in[id], n = true, n+1
			}
		}
		k := newKept(vocab, n, func(id int) bool { return in[id] })
		logits := make([]float32, vocab+rapid.IntRange(0, 200).Draw(rt, "padding"))
		k.Restrict(logits)
		if slices.ContainsFunc(logits[vocab:], func(x float32) bool { return !math.IsInf(float64(x), -1) }) {
			rt.Fatalf("padding after %d tokens is not restricted", vocab)
		}
		for id := range in {
			if k.Has(id) != in[id] || math.IsInf(float64(logits[id]), -1) == in[id] {
				rt.Fatalf("token %d of %d: in %v, has %v, logit %v", id, vocab, in[id], k.Has(id), logits[id])
			}
		}
		if few := k.ids != nil; few != (n <= vocab/32) || float64(8+64+4*len(k.ids)+8*len(k.bits)) > KeptBytes(vocab) {
			rt.Fatalf("%d of %d tokens take %d ids and %d words", n, vocab, len(k.ids), len(k.bits))
		}
	})
}

// Without an end token whose probability leaves none to the others, the likeliest of the others is chosen.
func TestChooserBelowMinimum(t *testing.T) {
	logits := []float32{-250, 3, -151, -150, 0}
	for _, opt := range []Sampling{
		{Greedy: true, TopP: 1, MinTokens: 2}, {Temperature: 1, TopP: 1, MinTokens: 2}, {Temperature: 1, TopP: 0.7, TopK: 3, MinTokens: 2},
	} {
		count := make([]int, len(logits))
		w := NewChooser(len(logits), []int{1, 4})
		for i := range 1000 {
			id := w.Choose([]float32{0, 0.95, 0, 0, 0.05}, logits, opt, 1, (float64(i)+0.5)/1000)
			count[id]++
			if opt.cutsAt(1) && (w.Mass() > 1e-20 || !w.Kept([]float32{0, 0, 0, 1, 0}, opt, 1, id).Has(3)) {
				t.Errorf("%+v: mass %g", opt, w.Mass())
			}
		}
		want := 731 // of 1 / (1 + 1/e)
		if opt.Greedy || opt.TopP < 1 {
			want = 1000
		}
		if count[3] != want || count[2] != 1000-want {
			t.Errorf("%+v: %v", opt, count)
		}
		if w.Choose([]float32{0, 0.95, 0, 0, 0.05}, logits, opt, 2, 0.5) != 1 {
			t.Errorf("%+v: after the minimum the end token is not the likeliest", opt)
		}
	}
}

// The kept tokens are those with a probability after the cut, and the mass is theirs before it.
func TestChooserKeeps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(3, 100).Draw(rt, "tokens")
		probs, total := make([]float32, n), float32(0)
		for i := range probs {
			probs[i] = float32(rapid.IntRange(1, 64).Draw(rt, "p"))
			total += probs[i]
		}
		for i := range probs {
			probs[i] /= total
		}
		opt := Sampling{TopP: float64(rapid.IntRange(1, 64).Draw(rt, "top_p")) / 64, TopK: rapid.IntRange(0, n).Draw(rt, "top_k"),
			MinTokens: rapid.IntRange(0, 2).Draw(rt, "min")}
		place, end := rapid.IntRange(0, 2).Draw(rt, "place"), []int{1}
		before, w := slices.Clone(probs), NewChooser(n, end)
		id := w.Choose(probs, nil, opt, place, rapid.Float64Range(0, 0.999).Draw(rt, "u"))
		k := w.Kept(probs, opt, place, id)
		if whole := opt.TopP == 1 && opt.TopK == 0 && place >= opt.MinTokens; (k == nil) != whole || !k.Has(id) {
			rt.Fatalf("%+v at %d keeps %+v and picked %d", opt, place, k, id)
		}
		var mass float64
		for i, p := range probs {
			if k.Has(i) != (p > 0) || place < opt.MinTokens && k.Has(1) {
				rt.Fatalf("%+v at %d: token %d with %v left: kept %v", opt, place, i, p, k.Has(i))
			}
			if k.Has(i) {
				mass += float64(before[i])
			}
		}
		if math.Abs(w.Mass()-mass) > 1e-6 {
			rt.Fatalf("mass %v, want %v", w.Mass(), mass)
		}
	})
}
