package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/kernel"
)

// lastState hands each completion the last state of its prompt: y[i] =
// states[start[i]]. Completions of a group read the same row; their gradients
// add up there.
func (b *builder) lastState(name string, states, start, promptActive, active *G.Node, rowCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	capStates, width := states.Shape()[0], states.Shape()[1]
	f, err := b.ops.LastState(capStates, width, rowCap)
	return b.fuse(name, f, err, tensor.Shape{rowCap, width}, input{states, matrixT, true},
		input{start, indexT, false}, input{promptActive, indexT, false}, input{active, indexT, false})
}

// lastState is the CPU's.
type lastState struct {
	pool             *kernel.Pool
	capStates, width int
	y, dx            *buffer
}

func (c cpu) LastState(capStates, width, rowCap int) (Op, error) {
	return &lastState{pool: c.pool, capStates: capStates, width: width, y: newBuffer(rowCap, width)}, nil
}

func (l *lastState) Forward(vals []G.Value) (G.Value, error) {
	x, n, width := floats(vals[0]), ints(vals[3])[0], l.width
	for i, at := range ints(vals[1])[:n] {
		copy(l.y.data[i*width:(i+1)*width], x[at*width:(at+1)*width])
	}
	return l.y.t, nil
}

func (l *lastState) AllocateGrads() ([]*tensor.Dense, error) {
	l.dx = newBuffer(l.capStates, l.width)
	return []*tensor.Dense{l.dx.t, nil, nil, nil}, nil
}

func (l *lastState) Backward(vals []G.Value) error {
	first, rows, _ := sizes(ints(vals[2]))
	clear(l.dx.data[:(first+rows)*l.width])
	n := ints(vals[3])[0]
	l.pool.ScatterAdd(ints(vals[1])[:n], l.width, floats(vals[5]), l.width, first+rows, l.dx.data, l.width)
	return nil
}
