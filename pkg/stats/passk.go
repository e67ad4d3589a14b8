package stats

import (
	"fmt"
	"math"
)

// PassAt is the unbiased estimate of pass@k, the chance that at least one of k completions of a problem is right,
// from n completions of which c are right (Chen et al. 2021, arXiv:2107.03374):
//
//	pass@k = 1 - C(n-c, k) / C(n, k)
//
// It is the share of the subsets of k completions that have a right one. 1 - (1 - c/n)^k, the chance with
// replacement, is biased downwards for 1 < k. It panics unless 0 <= c <= n and 1 <= k <= n.
func PassAt(n, c, k int) float64 {
	if c < 0 || c > n || k < 1 || k > n {
		panic(fmt.Sprintf("stats: PassAt of %d right among %d, k = %d", c, n, k))
	}
	none := 1.0 // C(n-c, k) / C(n, k) as a product of c factors
	for i := n - c + 1; i <= n; i++ {
		none *= max(0, 1-float64(k)/float64(i))
	}
	return 1 - none
}

// MajorityAt is the expected accuracy of the most frequent answer among k of n completions of a problem, over all
// subsets of k completions. votes[j] is the number of completions with answer j; right is the index of the right
// answer, or -1 if nobody gave it. The n - sum(votes) other completions have no answer and do not vote. Answers
// that are equally frequent share: the accuracy of a tie of t answers with the right one among them is 1/t.
//
// It is exact: for each number m of votes for the right answer, the ways to draw k - m others, none of which has more
// than m votes, are counted by the number of ties. It panics unless 1 <= k <= n, sum(votes) <= n and n <= 1000, from
// where numbers of subsets exceed a float64.
func MajorityAt(n int, votes []int, right, k int) float64 {
	silent := n
	for _, v := range votes {
		silent -= v
	}
	if k < 1 || k > n || n > 1000 || silent < 0 || right >= len(votes) {
		panic(fmt.Sprintf("stats: MajorityAt of %v among %d, k = %d", votes, n, k))
	}
	if right < 0 {
		return 0
	}
	accuracy := 0.0
	for m := 1; m <= min(k, votes[right]); m++ {
		// ways[t][d] counts the draws of d completions that do not have the right answer, with t ties.
		most := k - m
		ways := make([][]float64, most/m+1)
		for t := range ways {
			ways[t] = make([]float64, most+1)
		}
		for d := 0; d <= min(most, silent); d++ {
			ways[0][d] = choose(silent, d)
		}
		for j, v := range votes {
			if j == right || v == 0 {
				continue
			}
			for t := len(ways) - 1; t >= 0; t-- { // in place: an answer is drawn once
				for d := most; d >= 0; d-- {
					sum := 0.0
					for x := 0; x <= min(d, v, m-1); x++ {
						sum += choose(v, x) * ways[t][d-x]
					}
					if t > 0 && v >= m && d >= m {
						sum += choose(v, m) * ways[t-1][d-m]
					}
					ways[t][d] = sum
				}
			}
		}
		for t := range ways {
			accuracy += choose(votes[right], m) * ways[t][most] / float64(t+1)
		}
	}
	return accuracy / choose(n, k)
}

// choose is C(n, k), exact to rounding.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	c := 1.0
	for i := 1; i <= min(k, n-k); i++ {
		c = c * float64(n-min(k, n-k)+i) / float64(i)
	}
	return math.Round(c)
}
