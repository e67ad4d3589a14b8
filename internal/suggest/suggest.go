// Package suggest finds the known word that a user probably meant.
package suggest

import (
	"fmt"
	"strings"
)

// Distance is the number of insertions, deletions, substitutions and swaps of
// neighbours that turn a into b (optimal string alignment).
func Distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before []int
	prev := make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row := make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(t)]
}

// Nearest returns the candidate closest to word, ignoring case, or "" if none is close enough. Ties
// go to the first candidate.
func Nearest(word string, candidates []string) string {
	word = strings.ToLower(word)
	if len(word) > 100 {
		return "" // no name is that long
	}
	best, bestDistance := "", 1+len(word)/3
	for _, c := range candidates {
		if d := Distance(word, strings.ToLower(c)); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = c, d
		}
	}
	return best
}

// DidYouMean returns the end of the message about an unknown word, or "".
func DidYouMean(word string, candidates []string) string {
	if s := Nearest(word, candidates); s != "" {
		return fmt.Sprintf(" (did you mean %q?)", s)
	}
	return ""
}
