package task

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rng"
)

// DefaultSymbols are the letters of the tasks of words.
const DefaultSymbols = "abcdefghijklmnopqrstuvwxyz"

// CheckSymbols reports what is wrong with the letters or digits of words.
func CheckSymbols(s string) error {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return fmt.Errorf("symbols %q: want letters from a to z or A to Z, and digits", s)
		}
		if strings.IndexByte(s, c) < i {
			return fmt.Errorf("symbols %q: %q appears twice", s, c)
		}
	}
	if len(s) < 2 {
		return fmt.Errorf("symbols %q: want at least two", s)
	}
	return nil
}

// words are the questions "sort: d b a c": as many letters as the difficulty, which may repeat. The letters of a
// question, in whatever order, are its fact.
func words(name string, solve func(word []byte)) func(Options, int) questions {
	return func(o Options, length int) questions {
		base := uint64(len(o.Symbols))
		n := uint64(1)
		for range length {
			n = min(n, math.MaxInt64/base) * base
		}
		return questions{n, func(number uint64) (question, bool) {
			word := make([]byte, length)
			for i := range word {
				word[i] = o.Symbols[number%base]
				number /= base
			}
			letters := strings.Split(string(word), "")
			fact := slices.Clone(word)
			sorted(fact)
			solve(word)
			return question{text: name + ": " + strings.Join(letters, " "), answer: string(word), fact: string(fact)}, true
		}}
	}
}

func sorted(word []byte)   { slices.Sort(word) }
func reversed(word []byte) { slices.Reverse(word) }

// wrongWord swaps two letters of the answer, or repeats one where all are the same.
func wrongWord(p gsm8k.Problem, r *rng.Sequence) string {
	word := []byte(p.Gold)
	from := r.Intn(len(word))
	for i := range word {
		a, b := (from+i)%len(word), (from+i+1)%len(word)
		if word[a] != word[b] {
			word[a], word[b] = word[b], word[a]
			return replaceAnswer(p.Answer, string(word))
		}
	}
	return replaceAnswer(p.Answer, string(append(word, word[0])))
}

// guessWord has the letters in random order.
func guessWord(p gsm8k.Problem, r *rng.Sequence) string {
	word := []byte(p.Gold)
	rng.ShuffleSlice(r, word)
	return marker + " " + string(word)
}

// parities are the questions "parity: 0 1 1 0": is the number of ones even (0) or odd (1)? The work is the parity up to
// each bit, which is easy to continue, where the answer alone depends on all bits at once.
func parities(_ Options, length int) questions {
	return questions{1 << length, func(number uint64) (question, bool) {
		bits, sums, odd := make([]string, length), make([]byte, length), byte('0')
		for i := range length {
			bits[i] = fmt.Sprint(number >> i & 1)
			odd ^= byte(number >> i & 1)
			sums[i] = odd
		}
		return question{text: "parity: " + strings.Join(bits, " "), work: string(sums), answer: string(odd),
			fact: strings.Join(bits, "")}, true
	}}
}

// wrongBits has the work of a question with a slip in one bit, which the rest inherits.
func wrongBits(p gsm8k.Problem, r *rng.Sequence) string {
	work, _, _ := strings.Cut(p.Answer, "\n")
	bits := []byte(work)
	for i := r.Intn(len(bits)); i < len(bits); i++ {
		bits[i] ^= 1
	}
	return string(bits) + "\n" + marker + " " + string(bits[len(bits)-1])
}

func guessBit(_ gsm8k.Problem, r *rng.Sequence) string {
	return fmt.Sprintf("%s %d", marker, r.Intn(2))
}
