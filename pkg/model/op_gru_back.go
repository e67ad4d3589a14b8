package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"

	"grpo/pkg/model/kernel"
)

// gruBack is what a layer keeps for its way back, and what comes out of it.
type gruBack struct {
	gates      []float32 // inCap×4H: r, z, n and W_hn·h+b_hn of each step
	turned     []float32 // W_ih with the candidate's rows in front, as GRUBackward writes gradients
	walks      []gruWalk // of each thread
	cut        cut
	dout       []float32 // of the pass at hand
	dx         *buffer   // as the source: the table's gradient, or that of the states below
	dwih, dwhh *buffer
	dbih, dbhh *buffer
	dh0        *buffer
}

func (g *gru) diff(types []hm.Type, ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
	h := g.hidden
	b := &gruBack{
		gates: make([]float32, g.inCap*4*h), walks: make([]gruWalk, g.pool.Threads()),
		dx:   newBuffer(ins[0].Shape()...),
		dwhh: newBuffer(3*h, h), dbih: newBuffer(3 * h), dbhh: newBuffer(3 * h), dh0: newBuffer(g.rowCap, h),
	}
	if !g.table {
		b.dwih, b.turned = newBuffer(3*h, h), make([]float32, 3*h*h)
	}
	g.back = b
	for i := range b.walks {
		b.walks[i] = g.newWalk()
	}
	g.sums.reserve(mostParts(g.rowCap, g.part().size), g.part().size)
	main, err := G.ApplyOp(&fusedOp{
		name: g.name + "Grad", in: append(append([]hm.Type{}, types...), matrixT, matrixT), out: matrixT, shape: b.dx.t.Shape(),
		run: g.backward,
	}, append(append(G.Nodes{}, ins...), output, grad)...)
	if err != nil {
		return nil, err
	}
	grads := G.Nodes{main}
	for _, p := range []struct {
		name string
		b    *buffer
	}{{"GradWih", b.dwih}, {"GradWhh", b.dwhh}, {"GradBih", b.dbih}, {"GradBhh", b.dbhh}, {"", nil}, {"GradH0", b.dh0}}[:len(ins)-1] {
		if p.b == nil {
			grads = append(grads, nil)
			continue
		}
		n, err := part(g.name+p.name, main, matrixT, p.b)
		if err != nil {
			return nil, err
		}
		grads = append(grads, n)
	}
	return grads, nil
}

// gruPart is where things stand in an accumulator of a layer: the gradients of
// W_hh, of the table or W_ih (candidate in front), and the sums of the gates'.
type gruPart struct{ in, bias, size int }

func (g *gru) part() gruPart {
	h := g.hidden
	p := gruPart{in: 3 * h * h}
	p.bias = p.in + 3*h*h
	if g.table {
		p.bias = p.in + g.back.dx.t.Shape()[0]*3*h
	}
	p.size = (p.bias + 4*h + 15) / 16 * 16
	return p
}

func (g *gru) backward(vals []G.Value) (G.Value, error) {
	g.load(vals)
	h, b := g.hidden, g.back
	b.dout = floats(vals[len(vals)-1])
	if !g.table {
		wih := floats(vals[1])
		copy(b.turned[copy(b.turned, wih[2*h*h:]):], wih[:2*h*h])
		kernel.PackB(false, 3*h, h, b.turned, h, &g.wih)
		clear(b.dx.data[:g.active[0]*h])
	}
	kernel.PackB(false, 3*h, h, floats(vals[2]), h, &g.whh)
	b.cut = cutSums(g.active[0], g.part().size)
	g.pool.Run(b.cut.parts, g.backwardTask)
	g.addUp()
	return b.dx.t, nil
}

// addUp adds the parts up. The reset and update gates add both products up, so
// there both biases have one gradient; only the candidate's differ.
func (g *gru) addUp() {
	h, b, p := g.hidden, g.back, g.part()
	sum := func(from, n int, to []float32) {
		g.pool.ColSum(b.cut.parts, n, g.sums.data[from:], p.size, false, to)
	}
	sum(0, 3*h*h, b.dwhh.data)
	if g.table {
		// the table's rows have PyTorch's order
		sum(p.in, p.bias-p.in, b.dx.data)
	} else {
		sum(p.in, h*h, b.dwih.data[2*h*h:])
		sum(p.in+h*h, 2*h*h, b.dwih.data)
	}
	sum(p.bias, h, b.dbih.data[2*h:])
	sum(p.bias+h, 3*h, b.dbhh.data)
	copy(b.dbih.data, b.dbhh.data[:2*h])
}
