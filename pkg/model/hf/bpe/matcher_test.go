package bpe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// find is the longest token at the beginning of s, of equal ones the first; found one by one.
func find(tokens []addedToken, s string) (best addedToken) {
	for _, a := range tokens {
		if len(a.Content) > len(best.Content) && strings.HasPrefix(s, a.Content) {
			best = a
		}
	}
	return best
}

func TestMatcher(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, 1+draw.IntN(n))
		for i := range b {
			b[i] = "ab\xff"[draw.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		var tokens []addedToken
		for id := range 1 + draw.IntN(12) {
			tokens = append(tokens, addedToken{ID: int32(id), Content: word(4)})
		}
		m, s := newMatcher(tokens), word(40)
		var got, want []int32
		m.each(s, 0, 0, func(id int32) { got = append(got, id) }, func(from, to int) { got = append(got, -int32(to-from)) })
		text := int32(0)
		for i := 0; i <= len(s); i++ {
			a := find(tokens, s[i:])
			if text > 0 && (a.Content != "" || i == len(s)) {
				want, text = append(want, -text), 0
			}
			if a.Content != "" {
				want, i = append(want, a.ID), i+len(a.Content)-1
			} else {
				text++
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v in %q: %v, want %v", tokens, s, got, want)
		}
	}
}

// 200,000 tokens with a common beginning take a fraction of a second; a sort at each took minutes.
func TestManyAddedTokens(t *testing.T) {
	var tokens []addedToken
	for i := range 200_000 {
		tokens = append(tokens, addedToken{ID: int32(i), Content: fmt.Sprintf("<custom_token_%d>", i)})
	}
	start, found := time.Now(), 0
	m := newMatcher(tokens)
	m.each(strings.Repeat("a < b <custom_token_123456> <cust ", 10_000), 0, 0, func(id int32) {
		if id == 123456 {
			found++
		}
	}, func(int, int) {})
	if d := time.Since(start); found != 10_000 || d > 20*time.Second {
		t.Errorf("%d found in %v", found, d)
	}
}
