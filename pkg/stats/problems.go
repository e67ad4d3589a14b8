package stats

import (
	"fmt"
	"math"
)

// Crossed is the variance of a mean of paired differences d[s][i] over n seeds s and N problems i,
// where both seeds and problems are drawn by chance:
//
//	A = var over seeds of the row means / n
//	B = var over problems of the column means / N
//	R = Σ (d - row mean - column mean + mean)² / ((n-1)(N-1)) / (nN)
//	V = max(A, B, A + B - R)
//
// A alone is what a t test over seeds takes: it treats the problems as fixed. V is never less, so
// what the t test guarantees stays, and the claim is also about other problems of the same kind.
type Crossed struct{ Mean, A, B, R, V float64 }

// CrossedVariance computes [Crossed] of the differences a - b: a[s][i] and b[s][i] are the shares of
// the completions of problem i that were right with seed s. A is not less than resolution²/n, as in
// [StudentT]. It panics unless both have the same shape with at least two seeds and two problems.
func CrossedVariance(a, b [][]float64, resolution float64) Crossed {
	n := len(a)
	if n < 2 || len(b) != n || len(a[0]) < 2 {
		panic(fmt.Sprintf("stats: CrossedVariance of %d and %d seeds", n, len(b)))
	}
	problems := len(a[0])
	d := make([][]float64, n)
	rows, columns := make([]float64, n), make([]float64, problems)
	c := Crossed{}
	for s := range d {
		if len(a[s]) != problems || len(b[s]) != problems {
			panic(fmt.Sprintf("stats: CrossedVariance of %d and %d problems", len(a[s]), len(b[s])))
		}
		d[s] = make([]float64, problems)
		for i := range d[s] {
			v := a[s][i] - b[s][i]
			d[s][i] = v
			rows[s] += v / float64(problems)
			columns[i] += v / float64(n)
			c.Mean += v / float64(n*problems)
		}
	}
	for s := range d {
		c.A += (rows[s] - c.Mean) * (rows[s] - c.Mean) / float64((n-1)*n)
		for i, v := range d[s] {
			rest := v - rows[s] - columns[i] + c.Mean
			c.R += float64(rest * rest)
		}
	}
	for _, v := range columns {
		c.B += (v - c.Mean) * (v - c.Mean) / float64((problems-1)*problems)
	}
	c.R /= float64((n-1)*(problems-1)) * float64(n*problems)
	c.A = max(c.A, resolution*resolution/float64(n))
	c.V = max(c.A, c.B, c.A+c.B-c.R)
	return c
}

// SE is the standard error √V.
func (c Crossed) SE() float64 { return math.Sqrt(c.V) }
