package model

// TokenMatrix is what an objective sees of a pass: one row for each completion
// of the batch, in the batch's order, one column for each token, row-major.
// Where Mask is false no token stands, and the numbers mean nothing.
type TokenMatrix struct {
	B, T     int
	LogProbs []float64 // B·T, of the targets at the graph's temperature
	Entropy  []float64 // B·T, nats
	Mask     []bool    // B·T

	// The objective's answer: its derivative with respect to each log-probability
	// and each entropy. They come zeroed, and are nil in a [Scorer]'s matrix.
	DLogProbs []float64
	DEntropy  []float64
}

// Objective computes a scalar loss from log-probabilities and writes its
// gradient into the matrix. It is where pkg/rl meets the graph.
type Objective func(m *TokenMatrix) (loss float64, err error)

// read unpacks the head's output, (2, states), into the batch's order.
func (m *TokenMatrix) read(p *packed, x []float32) {
	m.B, m.T = len(p.completion.order), p.width
	n := m.B * m.T
	m.LogProbs, m.Entropy, m.Mask = zeroed(m.LogProbs, n), zeroed(m.Entropy, n), zeroed(m.Mask, n)
	capRows := len(x) / 2
	p.each(func(row, rank int, places []int) {
		i := row * m.T
		for _, at := range places {
			m.LogProbs[i], m.Entropy[i], m.Mask[i] = float64(x[at+rank]), float64(x[capRows+at+rank]), true
			i++
		}
	})
}

// ValueMatrix is what a critic says of a batch, in the form of a [TokenMatrix].
type ValueMatrix struct {
	B, T int
	// Values holds V(s), B·T, of the state s that the token is sampled from: the
	// prompt and the completion's earlier tokens. So column 0 is the value of the
	// prompt alone, and no value stands behind the last token.
	Values []float64
	Mask   []bool // B·T

	// The objective's answer: its derivative with respect to each value. It comes
	// zeroed, and is nil in the matrix that [Critic.Values] returns.
	DValues []float64
}

// ValueObjective computes a scalar loss from values and writes its gradient
// into the matrix.
type ValueObjective func(m *ValueMatrix) (loss float64, err error)

// read unpacks the value head's output, (1, states), into the batch's order.
func (m *ValueMatrix) read(p *packed, x []float32) {
	m.B, m.T = len(p.completion.order), p.width
	n := m.B * m.T
	m.Values, m.Mask = zeroed(m.Values, n), zeroed(m.Mask, n)
	p.each(func(row, rank int, places []int) {
		for t, at := range places {
			m.Values[row*m.T+t], m.Mask[row*m.T+t] = float64(x[at+rank]), true
		}
	})
}

// zeroed returns n zeros, in s's memory where it is large enough.
func zeroed[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	s = s[:n]
	clear(s)
	return s
}
