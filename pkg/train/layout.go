package train

import (
	"grpo/pkg/model"
	"grpo/pkg/rl"
)

// Numbers about the N completions of a rollout have one of two layouts:
//
//	(N)    one number for each completion; group g has those of [g*G, (g+1)*G)
//	(N,T)  row-major matrix, T the longest completion: the number of completion i
//	       and token t is at i*T+t; past the end of a completion it is 0
//
// A micro-batch of B completions is a matrix (B,T) with its own T. pkg/rl and pkg/model take such
// matrices. Time-major layouts are internal to a network.

// layOut sets the rollout's shape and mask.
func (r *rollout) layOut() {
	r.shape = rl.Shape{B: len(r.completions)}
	for _, c := range r.completions {
		r.shape.T = max(r.shape.T, len(c.Tokens))
		r.tokens += len(c.Tokens)
	}
	r.mask = make([]bool, r.shape.Len())
	for i, c := range r.completions {
		for t := range c.Tokens {
			r.mask[i*r.shape.T+t] = true
		}
	}
}

// take returns the given rows of x, (N,T), as (len(rows), width), in the memory
// of into if that is large enough.
func take[E any](r *rollout, x []E, rows []int, width int, into []E) []E {
	into = into[:0]
	for _, i := range rows {
		into = append(into, x[i*r.shape.T:i*r.shape.T+width]...)
	}
	return into
}

// oldLogProbs returns the log-probabilities at sampling time of the given
// completions as (len(rows), width), in the memory of into if that is large enough.
func (r *rollout) oldLogProbs(rows []int, width int, into []float64) []float64 {
	into = into[:0]
	for _, i := range rows {
		for _, lp := range r.completions[i].LogProbs {
			into = append(into, float64(lp))
		}
		for range width - len(r.completions[i].LogProbs) {
			into = append(into, 0)
		}
	}
	return into
}

// old returns the log-probabilities at sampling time as (N,T).
func (r *rollout) old() []float64 { return r.oldLogProbs(span(0, r.shape.B), r.shape.T, nil) }

// onLastTokens returns (N,T) with the numbers of x, (N), on the completions' last tokens and 0
// elsewhere.
func (r *rollout) onLastTokens(x []float64) []float64 {
	out := make([]float64, r.shape.Len())
	for i, c := range r.completions {
		out[i*r.shape.T+len(c.Tokens)-1] = x[i]
	}
	return out
}

// batch returns the given completions as input of the network. Adjacent completions of one group
// share their prompt.
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
