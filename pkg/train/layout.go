package train

import (
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// Numbers about the N completions of a rollout have one of three layouts:
//
//	(N)     one number for each completion; group g has those of [g*G, (g+1)*G)
//	ragged  N rows; row i has one number for each token of completion i
//	(B,T)   row-major matrix of B chosen completions, padded with zeros to T
//	        tokens; the number of completion b and token t is at b*T+t
//
// A rollout keeps (N) and ragged, which don't depend on how it is cut into
// batches. pkg/rl and pkg/model take (B,T). What a network stores time-major
// stays inside it.

// ragged has one number for each token of each completion of a rollout.
type ragged [][]float64

// newRagged returns zeros for the completions.
func newRagged(completions []model.Completion) ragged {
	n := 0
	for _, c := range completions {
		n += len(c.Tokens)
	}
	data := make([]float64, n)
	r := make(ragged, len(completions))
	for i, c := range completions {
		r[i], data = data[:len(c.Tokens):len(c.Tokens)], data[len(c.Tokens):]
	}
	return r
}

// fromMatrix copies the rows of a matrix (N,T) and drops the padding.
func fromMatrix(completions []model.Completion, width int, data []float64) ragged {
	r := newRagged(completions)
	for i := range r {
		copy(r[i], data[i*width:])
	}
	return r
}

// matrix returns the given rows as (len(rows), width), in the memory of into
// where that is large enough. A nil receiver gives nil.
func (r ragged) matrix(rows []int, width int, into []float64) []float64 {
	if r == nil {
		return nil
	}
	into = zeros(len(rows)*width, into)
	for k, i := range rows {
		copy(into[k*width:(k+1)*width], r[i])
	}
	return into
}

// oldLogProbs returns the log-probabilities of sampling time of the given
// completions as (len(rows), width), in the memory of into where that is large
// enough.
func (r *rollout) oldLogProbs(rows []int, width int, into []float64) []float64 {
	into = zeros(len(rows)*width, into)
	for k, i := range rows {
		for t, lp := range r.completions[i].LogProbs {
			into[k*width+t] = float64(lp)
		}
	}
	return into
}

// zeros returns n zeros, in the memory of into where that is large enough.
func zeros(n int, into []float64) []float64 {
	if cap(into) < n {
		return make([]float64, n)
	}
	into = into[:n]
	clear(into)
	return into
}

// whole is a rollout as one matrix (N,T), T the length of its longest completion.
type whole struct {
	shape rl.Shape
	mask  []bool // (N,T)
	rows  []int  // 0 to N-1
}

func (r *rollout) whole() whole {
	w := whole{shape: rl.Shape{B: len(r.completions)}, rows: span(0, len(r.completions))}
	for _, c := range r.completions {
		w.shape.T = max(w.shape.T, len(c.Tokens))
	}
	w.mask = make([]bool, w.shape.Len())
	for i, c := range r.completions {
		for t := range c.Tokens {
			w.mask[i*w.shape.T+t] = true
		}
	}
	return w
}

// matrix returns r as (N,T).
func (w whole) matrix(r ragged) []float64 { return r.matrix(w.rows, w.shape.T, nil) }

// old returns the log-probabilities of sampling time as (N,T).
func (w whole) old(r *rollout) []float64 { return r.oldLogProbs(w.rows, w.shape.T, nil) }

// batch returns the given completions as the network reads them. Neighbors of
// one group share their prompt.
func (r *rollout) batch(rows []int) *model.Batch {
	b := &model.Batch{}
	last := -1
	for _, i := range rows {
		if g := i / r.groupSize; g != last {
			b.Prompts = append(b.Prompts, r.prompts[g])
			last = g
		}
		b.Rows = append(b.Rows, model.Row{Prompt: len(b.Prompts) - 1, Tokens: r.completions[i].Tokens})
	}
	return b
}

// span lists the completions lo to hi-1.
func span(lo, hi int) []int {
	rows := make([]int, 0, hi-lo)
	for i := lo; i < hi; i++ {
		rows = append(rows, i)
	}
	return rows
}
