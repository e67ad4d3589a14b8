package train

import (
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// ragged holds a number for each token of each completion of a rollout. Rows
// are as long as their completions, so that they can be cut into micro-batches
// of any width.
type ragged [][]float64

// newRagged returns zeros in the form of the completions.
func newRagged(completions []model.Completion) ragged {
	r := make(ragged, len(completions))
	for i, c := range completions {
		r[i] = make([]float64, len(c.Tokens))
	}
	return r
}

// fromMatrix cuts the rows out of a matrix of the shape (len(completions), width).
func fromMatrix(completions []model.Completion, width int, data []float64) ragged {
	r := newRagged(completions)
	for i := range r {
		copy(r[i], data[i*width:])
	}
	return r
}

// matrix lays the given rows out as (len(rows), width), padded with zeros. A
// nil receiver gives nil.
func (r ragged) matrix(rows []int, width int, into []float64) []float64 {
	if r == nil {
		return nil
	}
	n := len(rows) * width
	if cap(into) < n {
		into = make([]float64, n)
	}
	into = into[:n]
	clear(into)
	for k, i := range rows {
		copy(into[k*width:(k+1)*width], r[i])
	}
	return into
}

// whole is the layout of a rollout as one matrix for the functions of pkg/rl.
type whole struct {
	shape rl.Shape
	mask  []bool
	rows  []int
}

func newWhole(completions []model.Completion) whole {
	w := whole{shape: rl.Shape{B: len(completions)}, rows: span(0, len(completions))}
	for _, c := range completions {
		w.shape.T = max(w.shape.T, len(c.Tokens))
	}
	w.mask = make([]bool, w.shape.Len())
	for i, c := range completions {
		for t := range c.Tokens {
			w.mask[i*w.shape.T+t] = true
		}
	}
	return w
}

func (w whole) matrix(r ragged) []float64 { return r.matrix(w.rows, w.shape.T, nil) }

// sampledLogProbs are the old policy's, of sampling time.
func sampledLogProbs(completions []model.Completion) ragged {
	out := newRagged(completions)
	for i, c := range completions {
		for t, lp := range c.LogProbs {
			out[i][t] = float64(lp)
		}
	}
	return out
}

// span lists the completions lo to hi-1.
func span(lo, hi int) []int {
	rows := make([]int, 0, hi-lo)
	for i := lo; i < hi; i++ {
		rows = append(rows, i)
	}
	return rows
}
