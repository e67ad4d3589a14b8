package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/model"
)

// A completion ends with the first token after which its text has one of the texts, whatever the tokens'
// lengths: some have no text, as special tokens, and some several bytes.
func TestStopAtFirstToken(t *testing.T) {
	vocabulary := []string{"", "a", "b", "ab", "\n", "\n\n", "aab", "é"}
	decode := func(tokens []int) string {
		var b strings.Builder
		for _, id := range tokens {
			b.WriteString(vocabulary[id])
		}
		return b.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[abé\n]{1,5}`), 1, 3).Draw(t, "texts")
		tokens := rapid.SliceOfN(rapid.IntRange(0, len(vocabulary)-1), 1, 40).Draw(t, "tokens")
		stop := model.NewStop(texts, decode)
		for n := 1; n <= len(tokens); n++ {
			want, whole := false, decode(tokens[:n])
			for _, s := range texts {
				want = want || strings.Contains(whole, s)
			}
			if got := stop.At(tokens[:n]); got != want {
				t.Fatalf("texts %q: after %q %v, want %v", texts, whole, got, want)
			}
			if want {
				return
			}
		}
	})
}

func TestNoStop(t *testing.T) {
	if stop := model.NewStop(nil, nil); stop.At([]int{1, 2}) {
		t.Error("without texts a completion ends")
	}
}
