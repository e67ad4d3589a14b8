package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
)

// embedColumns is the width of a task of the embedding's gradient: each task
// adds all rows of its columns in order, so that the sums do not depend on the
// number of threads.
const embedColumns = 32

// embed looks rows of a table up: y[i] = table[ids[i]]. The table is the
// embedding already multiplied by the first layer's input weights (V rows
// instead of one for each token), which gives the same products for a fraction
// of the work.
func (b *builder) embed(name string, table, ids, active *G.Node, inCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	vocab, width := table.Shape()[0], table.Shape()[1]
	y := newBuffer(inCap, width)
	types := []hm.Type{matrixT, indexT, indexT}
	op := &fusedOp{
		name: name, in: types, out: matrixT, shape: y.t.Shape(), wrt: []bool{true, false, false},
		run: func(vals []G.Value) (G.Value, error) {
			_, rows, _ := sizes(ints(vals[2]))
			tab := floats(vals[0])
			for i, id := range ints(vals[1])[:rows] {
				copy(y.data[i*width:(i+1)*width], tab[id*width:(id+1)*width])
			}
			return y.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		d := newBuffer(vocab, width)
		var ids []int
		var dy []float32
		task := func(task, _ int) {
			lo := task * embedColumns
			hi := min(lo+embedColumns, width)
			for v := range vocab {
				clear(d.data[v*width+lo : v*width+hi])
			}
			for i, id := range ids {
				to, from := d.data[id*width+lo:id*width+hi], dy[i*width+lo:i*width+hi]
				for j, v := range from {
					to[j] += v
				}
			}
		}
		dt, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: d.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				_, rows, _ := sizes(ints(vals[2]))
				ids, dy = ints(vals[1])[:rows], floats(vals[3])
				b.pool.Run((width+embedColumns-1)/embedColumns, task)
				return d.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		return G.Nodes{dt, nil, nil}, err
	}
	return b.apply(op, table, ids, active)
}

// lastState hands each completion the last state of its prompt: y[i] =
// states[start[i]]. Completions of a group read the same row; their gradients
// add up there.
func (b *builder) lastState(name string, states, start, promptActive, active *G.Node, rowCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	width := states.Shape()[1]
	y := newBuffer(rowCap, width)
	types := []hm.Type{matrixT, indexT, indexT, indexT}
	op := &fusedOp{
		name: name, in: types, out: matrixT, shape: y.t.Shape(), wrt: []bool{true, false, false, false},
		run: func(vals []G.Value) (G.Value, error) {
			x, n := floats(vals[0]), ints(vals[3])[0]
			for i, at := range ints(vals[1])[:n] {
				copy(y.data[i*width:(i+1)*width], x[at*width:(at+1)*width])
			}
			return y.t, nil
		},
	}
	op.diff = func(ins G.Nodes, _, grad *G.Node) (G.Nodes, error) {
		d := newBuffer(states.Shape()...)
		dx, err := G.ApplyOp(&fusedOp{
			name: name + "Grad", in: append(append([]hm.Type{}, types...), matrixT), out: matrixT, shape: d.t.Shape(),
			run: func(vals []G.Value) (G.Value, error) {
				first, rows, _ := sizes(ints(vals[2]))
				clear(d.data[:(first+rows)*width])
				dy, n := floats(vals[4]), ints(vals[3])[0]
				for i, at := range ints(vals[1])[:n] {
					to := d.data[at*width : (at+1)*width]
					for j, v := range dy[i*width : (i+1)*width] {
						to[j] += v
					}
				}
				return d.t, nil
			},
		}, append(append(G.Nodes{}, ins...), grad)...)
		return G.Nodes{dx, nil, nil, nil}, err
	}
	return b.apply(op, states, start, promptActive, active)
}
