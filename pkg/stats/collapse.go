package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"grpo/pkg/elementary"
)

// Collapse compares two proportions of a few independent trials, x of n and y of m: how many
// seeds of each arm collapsed. fisher is the two-sided p value of Fisher's exact test. p is that
// of the exact unconditional test that orders the tables by it (Boschloo 1970):
//
//	p = max over q of Σ Bin(i; n, q)·Bin(j; m, q)  over the tables with fisher(i, j) <= fisher(x, y)
//
// It keeps its level whatever the common rate q is, and is less strict than Fisher's test with a
// handful of seeds. It panics if x is not in [0, n] or y not in [0, m], or if n or m is not positive.
func Collapse(x, n, y, m int) (p, fisher float64) {
	if n < 1 || m < 1 || x < 0 || x > n || y < 0 || y > m {
		panic(fmt.Sprintf("stats: Collapse of %d of %d and %d of %d", x, n, y, m))
	}
	fisher = fisherTwoSided(x, n, y, m)
	var tables [][2]int
	for i := range n + 1 {
		for j := range m + 1 {
			if fisherTwoSided(i, n, j, m) <= fisher*(1+1e-9) {
				tables = append(tables, [2]int{i, j})
			}
		}
	}
	at := func(q float64) float64 {
		first, second := binomial(n, q), binomial(m, q)
		sum := 0.0
		for _, t := range tables {
			sum += float64(first[t[0]] * second[t[1]])
		}
		return sum
	}
	const points = 1000
	best := 0.5
	most := at(best)
	for k := 1; k < points; k++ {
		q := float64(k) / points
		if sum := at(q); sum > most {
			best, most = q, sum
		}
	}
	// Around the best point the sum has one maximum: thirds close in on it.
	lo, hi := best-1./points, best+1./points
	for range 40 {
		left, right := lo+(hi-lo)/3, hi-(hi-lo)/3
		if at(left) < at(right) {
			lo = left
		} else {
			hi = right
		}
	}
	return min(1, max(most, at((lo+hi)/2))), fisher
}

// binomial has the probabilities of 0 to n successes.
func binomial(n int, q float64) []float64 {
	out := make([]float64, n+1)
	for i := range out {
		out[i] = distuv.Binomial{N: float64(n), P: q}.Prob(float64(i))
	}
	return out
}

// fisherTwoSided sums the probabilities of the tables with the same margins that are no likelier
// than the table x of n, y of m.
func fisherTwoSided(x, n, y, m int) float64 {
	all := x + y
	log := func(i int) float64 { return logChoose(n, i) + logChoose(m, all-i) - logChoose(n+m, all) }
	limit, sum := log(x)+1e-7, 0.0
	for i := max(0, all-m); i <= min(n, all); i++ {
		if l := log(i); l <= limit {
			sum += elementary.Exp(l)
		}
	}
	return min(1, sum)
}

func logChoose(n, k int) float64 {
	lgamma := func(v int) float64 { l, _ := math.Lgamma(float64(v + 1)); return l }
	return lgamma(n) - lgamma(k) - lgamma(n-k)
}

// ClopperPearson returns the exact interval of a proportion, k successes of n, at the level
// 1 - alpha. With k = 0 or k = n the interval has one free end, which gets all of alpha: 0 of 4
// leaves up to 1 - α^(1/4). Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
func ClopperPearson(k, n int, alpha float64) (lo, hi float64) {
	if n < 1 || k < 0 || k > n {
		panic(fmt.Sprintf("stats: ClopperPearson of %d of %d", k, n))
	}
	switch k {
	case 0:
		return 0, 1 - elementary.Pow(alpha, 1/float64(n))
	case n:
		return elementary.Pow(alpha, 1/float64(n)), 1
	}
	x, rest := float64(k), float64(n-k)
	return mathext.InvRegIncBeta(x, rest+1, alpha/2), mathext.InvRegIncBeta(x+1, rest, 1-float64(alpha/2))
}
