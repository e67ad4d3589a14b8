package gsm8k

import (
	"math"
	"math/bits"

	"grpo/pkg/elementary"
)

// SoftOverlong is the soft overlong punishment of DAPO (Yu et al., "DAPO: an
// open-source LLM reinforcement learning system at scale", 2025, equation 13; TRL's
// get_soft_overlong_punishment). With n tokens, limit L and cache C:
//
//	0                  n <= L - C
//	(L - C - n) / C    L - C < n <= L
//	-1                 L < n
//
// With a cache of 0 it is a step at L.
func SoftOverlong(length, maxLen, cache int) float64 {
	switch {
	case length <= maxLen-cache:
		return 0
	case length <= maxLen:
		return float64(maxLen-cache-length) / float64(cache)
	}
	return -1
}

// CosineRange has the values of [CosineScaled], named as in open-r1.
type CosineRange struct {
	MinValueWrong, MaxValueWrong     float64
	MinValueCorrect, MaxValueCorrect float64
}

// CosineScaled is the cosine length scaling of Yeo et al. ("Demystifying long
// chain-of-thought reasoning in LLMs", 2025) in open-r1's form: a right answer
// falls from MaxValueCorrect at length 0 to MinValueCorrect at maxLen, a wrong one
// rises from MinValueWrong to MaxValueWrong:
//
//	from + (to - from) (1 - cos(pi n/L)) / 2
//
// Lengths are tokens, as in the paper; open-r1 counts characters. Beyond maxLen
// the value is constant, whereas open-r1's cosine rises again.
func CosineScaled(length, maxLen int, correct bool, c CosineRange) float64 {
	from, to := c.MinValueWrong, c.MaxValueWrong
	if correct {
		from, to = c.MaxValueCorrect, c.MinValueCorrect
	}
	progress := min(max(float64(length)/float64(maxLen), 0), 1)
	return to + float64(0.5*(from-to)*(1+elementary.Cos(math.Pi*progress)))
}

// RepetitionPenalty is TRL's repetition penalty (get_repetition_penalty_reward; Yeo et al., 2025,
// appendix C.2): the share of n-grams of token ids that repeat another one, times maxPenalty,
//
//	(1 - different n-grams / n-grams) maxPenalty
//
// and 0 for fewer than n tokens. It is NaN if n < 1. The cost is O(len(ids) log n).
func RepetitionPenalty(ids []int, n int, maxPenalty float64) float64 {
	if n < 1 {
		return math.NaN()
	}
	total := len(ids) - n + 1
	if total < 1 {
		return 0
	}
	repeated := total - distinctNGrams(ids, n)
	if repeated == 0 {
		return 0 // not -0
	}
	return float64(repeated) / float64(total) * maxPenalty
}

// distinctNGrams counts the different windows of n ids, 1 <= n <= len(ids).
//
// It names windows by small integers, the same for equal ones. A window of width
// 2w is named by the names of its two halves, one of width w+1 by the names of its
// first w ids and of the last id, following the binary digits of n.
func distinctNGrams(ids []int, n int) int {
	single, distinct := joinWindows(ids, make([]int, len(ids)), 0)
	names, width := single, 1
	for b := bits.Len(uint(n)) - 2; b >= 0; b-- {
		names, distinct = joinWindows(names, names, width)
		if width *= 2; n>>b&1 == 1 {
			names, distinct = joinWindows(names, single, width)
			width++
		}
	}
	return distinct
}

// joinWindows names the windows that consist of left[i] and right[i+offset], and
// counts the names.
func joinWindows(left, right []int, offset int) (names []int, distinct int) {
	seen := map[[2]int]int{}
	for i := 0; i < len(left) && i+offset < len(right); i++ {
		pair := [2]int{left[i], right[i+offset]}
		name, ok := seen[pair]
		if !ok {
			name = len(seen)
			seen[pair] = name
		}
		names = append(names, name)
	}
	return names, len(seen)
}
