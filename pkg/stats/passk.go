package stats

import (
	"fmt"
	"math"
	"slices"
)

// MaxChoose is the largest number of completions of which all numbers of subsets are a float64.
const MaxChoose = 1000

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
	return MajorityAtEach(n, votes, right, []int{k})[0]
}

// MajorityAtEach is [MajorityAt] for each of ks; they share the counting.
func MajorityAtEach(n int, votes []int, right int, ks []int) []float64 {
	silent := n
	for _, v := range votes {
		silent -= v
	}
	for _, k := range ks {
		if k < 1 || k > n || n > MaxChoose || silent < 0 || right >= len(votes) {
			panic(fmt.Sprintf("stats: MajorityAt of %v among %d, k = %d", votes, n, k))
		}
	}
	accuracy := make([]float64, len(ks))
	if right < 0 || len(ks) == 0 {
		return accuracy
	}
	var others [][]float64 // for each other answer, its row of binomial coefficients
	for j, v := range votes {
		if j != right && v > 0 {
			others = append(others, chooseRow(v))
		}
	}
	nobody, mine, most := chooseRow(silent), chooseRow(votes[right]), slices.Max(ks)
	for m := 1; m <= min(most, votes[right]); m++ {
		ways := waysBelow(m, most-m, nobody, others)
		for i, k := range ks {
			for t := range ways {
				if m <= k {
					accuracy[i] += mine[m] * ways[t][k-m] / float64(t+1)
				}
			}
		}
	}
	for i, k := range ks {
		accuracy[i] /= Choose(n, k)
	}
	return accuracy
}

// waysBelow counts the draws of completions that do not have the right answer, when that has m votes: ways[t][d] are
// those of d completions, d <= most, in which no answer has more than m votes and t answers have m.
func waysBelow(m, most int, nobody []float64, others [][]float64) (ways [][]float64) {
	ties := 0
	for _, row := range others {
		if len(row) > m {
			ties++
		}
	}
	ways = make([][]float64, min(ties, most/m)+1)
	for t := range ways {
		ways[t] = make([]float64, most+1)
	}
	reach := copy(ways[0], nobody) - 1 // the largest d of the answers so far
	for _, row := range others {
		reach = min(most, reach+len(row)-1)
		for t := len(ways) - 1; t >= 0; t-- { // in place: an answer is drawn once
			for d := reach; d >= 0; d-- {
				sum := 0.0
				for x, c := range row[:min(d+1, len(row), m)] {
					sum += float64(c * ways[t][d-x])
				}
				if t > 0 && len(row) > m && d >= m {
					sum += float64(row[m] * ways[t-1][d-m])
				}
				ways[t][d] = sum
			}
		}
	}
	return ways
}

// chooseRow lists C(n, k) for k from 0 to n.
func chooseRow(n int) []float64 {
	row := make([]float64, n+1)
	row[0] = 1
	for k := 1; k <= n; k++ {
		row[k] = row[k-1] * float64(n-k+1) / float64(k)
	}
	return row
}

// OverProblems is the mean of the estimates of a share, one for each problem of an evaluation, with its 95% interval
// by Student's t, cut to [0, 1]. Estimates that are all equal show no spread, and then the interval is that of [Wilson]
// for as many problems, the widest that shares with this mean can have.
func OverProblems(x []float64) (mean, lo, hi float64) {
	if len(x) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	equal := !slices.ContainsFunc(x, func(v float64) bool { return v != x[0] })
	if equal {
		mean = min(1, max(0, x[0]))
		lo, hi = Wilson(mean*float64(len(x)), len(x), Level)
	} else {
		e := StudentT(x, 0).Clip(0, 1)
		mean, lo, hi = min(1, max(0, e.Mean)), e.Lo, e.Hi
	}
	return mean, min(lo, mean), max(hi, mean)
}

// Choose is C(n, k), exact to rounding.
func Choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	c := 1.0
	for i := 1; i <= min(k, n-k); i++ {
		c = c * float64(n-min(k, n-k)+i) / float64(i)
	}
	return math.Round(c)
}
