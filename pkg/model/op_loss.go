package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// TokenMatrix is what an objective sees of a pass: one row for each completion
// of the batch, in the batch's order, one column for each token, row-major.
// Where Mask is false no token stands, and the numbers mean nothing.
type TokenMatrix struct {
	B, T     int
	LogProbs []float64 // B·T, of the targets at the graph's temperature
	Entropy  []float64 // B·T, nats
	Mask     []bool    // B·T

	// The objective's answer: its derivative with respect to each log-probability
	// and each entropy. They come zeroed.
	DLogProbs []float64
	DEntropy  []float64
}

// Objective computes a scalar loss from log-probabilities and writes its
// gradient into the matrix. It is where pkg/rl meets the graph.
type Objective func(m *TokenMatrix) (loss float64, err error)

func (m *TokenMatrix) resize(b, t int) {
	m.B, m.T = b, t
	fit := func(s []float64) []float64 {
		if cap(s) < b*t {
			return make([]float64, b*t)
		}
		s = s[:b*t]
		clear(s)
		return s
	}
	m.LogProbs, m.Entropy = fit(m.LogProbs), fit(m.Entropy)
	m.DLogProbs, m.DEntropy = fit(m.DLogProbs), fit(m.DEntropy)
	if cap(m.Mask) < b*t {
		m.Mask = make([]bool, b*t)
	}
	m.Mask = m.Mask[:b*t]
	clear(m.Mask)
}

// policyLoss applies the objective of the pass to the log-probabilities and
// keeps the gradient for the way back.
func (b *builder) policyLoss(logp *G.Node, l *Learner) *G.Node {
	if b.err != nil {
		return nil
	}
	capRows := logp.Shape()[1]
	d := newBuffer(2, capRows)
	value := G.NewF32(0)
	op := &fusedOp{
		name: "policyLoss", in: []hm.Type{matrixT}, out: scalarT, wrt: []bool{true},
		run: func(vals []G.Value) (G.Value, error) {
			x := floats(vals[0])
			m := &l.tokens
			m.resize(len(l.packed.completion.order), l.packed.width)
			l.packed.each(func(at, row, col int) {
				i := row*m.T + col
				m.LogProbs[i], m.Entropy[i], m.Mask[i] = float64(x[at]), float64(x[capRows+at]), true
			})
			loss, err := l.objective(m)
			if err != nil {
				return nil, err
			}
			l.loss = loss
			l.packed.each(func(at, row, col int) {
				i := row*m.T + col
				d.data[at], d.data[capRows+at] = float32(m.DLogProbs[i]), float32(m.DEntropy[i])
			})
			*value = G.F32(float32(loss))
			return value, nil
		},
	}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
		n, err := G.ApplyOp(&fusedOp{
			name: "policyLossGrad", in: []hm.Type{matrixT, scalarT, scalarT}, out: matrixT, shape: d.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				// The graph's cost is the loss itself, so the gradient that
				// comes in is 1; a graph that scales its cost would bring another.
				if s := vals[2].Data().(float32); s != 1 {
					for i := range d.data {
						d.data[i] *= s
					}
				}
				return d.t, nil
			},
		}, ins[0], output, grad)
		return G.Nodes{n}, err
	}
	return b.apply(op, logp)
}
