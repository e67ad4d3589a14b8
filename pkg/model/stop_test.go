package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/model"
)

// A completion ends with the first token after its minimum with which one of the texts is complete, whatever the
// tokens' lengths: some have no text, as special tokens, and some several bytes.
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
		opt := model.Sampling{Stop: model.NewStop(texts, decode), MinTokens: rapid.IntRange(0, 5).Draw(t, "at least")}
		for n := 1; n <= len(tokens); n++ {
			want, whole, before := false, decode(tokens[:n]), len(decode(tokens[:n-1]))
			for _, s := range texts {
				for at := range len(whole) - len(s) + 1 {
					want = want || n > opt.MinTokens && whole[at:at+len(s)] == s && at+len(s) > before
				}
			}
			if got := opt.Ends(tokens[:n], nil); got != want {
				t.Fatalf("texts %q, at least %d tokens: after %q %v, want %v", texts, opt.MinTokens, whole, got, want)
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
