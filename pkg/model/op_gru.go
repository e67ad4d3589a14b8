package model

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"

	"grpo/pkg/model/kernel"
)

// gruChunk is the number of sequences that one task carries through all of
// their steps. Sequences don't depend on each other, so a task needs to wait
// for nobody, and its states stay in the cache.
const gruChunk = 32

// gru is the recurrence of one layer over one segment, PyTorch's equations:
//
//	r = σ(gi_r + b_ir + W_hr·h + b_hr)
//	z = σ(gi_z + b_iz + W_hz·h + b_hz)
//	n = tanh(gi_n + b_in + r ∘ (W_hn·h + b_hn))
//	h' = (1-z) ∘ n + z ∘ h
//
// gi (inputs×3H) is the input already multiplied by W_ih. The output holds
// block 0, the initial states (h0, or zeros where h0 is nil), and then the
// state after each step: (sequences + inputs)×H.
type gru struct {
	name         string
	pool         *kernel.Pool
	hidden       int
	rowCap       int // sequences
	inCap        int // input rows
	hasInit      bool
	out          *buffer   // (rowCap+inCap)×H
	before       []float32 // inCap×H: the state that each step started from; nil without a way back
	save         []float32 // inCap×4H: r, z, n, W_hn·h+b_hn; nil without a way back
	scratch      []float32 // threads × gruChunk×4H
	weights      kernel.Packed
	dgi          *buffer   // inCap×3H
	dgh          []float32 // inCap×3H
	dh0, dwhh    *buffer
	dbih, dbhh   *buffer
	forwardTask  func(task, worker int)
	backwardTask func(task, worker int)

	// the values of the pass at hand
	active   []int
	gi, h0   []float32
	bih, bhh []float32
	dout     []float32
}

func (b *builder) gru(name string, gi, h0, whh, bih, bhh, active *G.Node, rowCap, inCap int) *G.Node {
	if b.err != nil {
		return nil
	}
	h := whh.Shape()[1]
	g := &gru{
		name: name, pool: b.pool, hidden: h, rowCap: rowCap, inCap: inCap, hasInit: h0 != nil,
		out:     newBuffer(rowCap+inCap, h),
		scratch: make([]float32, b.pool.Threads()*gruChunk*4*h),
	}
	g.forwardTask, g.backwardTask = g.forwardChunk, g.backwardChunk
	types := []hm.Type{matrixT, matrixT, vectorT, vectorT, indexT}
	inputs := G.Nodes{gi, whh, bih, bhh, active}
	wrt := []bool{true, true, true, true, false}
	if g.hasInit {
		types, inputs, wrt = append(types, matrixT), append(inputs, h0), append(wrt, true)
	}
	op := &fusedOp{name: name, in: types, out: matrixT, shape: g.out.t.Shape(), wrt: wrt, run: g.forward}
	op.diff = func(ins G.Nodes, output, grad *G.Node) (G.Nodes, error) { return g.diff(types, ins, output, grad) }
	return b.apply(op, inputs...)
}

func (g *gru) load(vals []G.Value) {
	g.gi, g.bih, g.bhh, g.active = floats(vals[0]), floats(vals[2]), floats(vals[3]), ints(vals[4])
	if g.hasInit {
		g.h0 = floats(vals[5])
	}
}

func (g *gru) chunks() int { return (g.active[0] + gruChunk - 1) / gruChunk }

func (g *gru) forward(vals []G.Value) (G.Value, error) {
	g.load(vals)
	kernel.PackB(true, g.hidden, 3*g.hidden, floats(vals[1]), g.hidden, &g.weights)
	g.pool.Run(g.chunks(), g.forwardTask)
	return g.out.t, nil
}

func (g *gru) forwardChunk(task, worker int) {
	h := g.hidden
	lo := task * gruChunk
	hi := min(lo+gruChunk, g.active[0])
	if g.hasInit {
		copy(g.out.data[lo*h:hi*h], g.h0[lo*h:hi*h])
	} else {
		clear(g.out.data[lo*h : hi*h])
	}
	gh := g.scratch[worker*gruChunk*4*h:][:gruChunk*3*h]
	prev, at := lo, g.active[0] // rows of the output: this chunk's last states, the step's block
	for s := 1; s < len(g.active) && g.active[s] > lo; s++ {
		n := min(hi, g.active[s]) - lo
		in, out := at-g.active[0]+lo, at+lo
		hp := g.out.data[prev*h : (prev+n)*h]
		var save []float32
		if g.save != nil {
			copy(g.before[in*h:(in+n)*h], hp)
			save = g.save[in*4*h : (in+n)*4*h]
		}
		kernel.GemmPacked(false, n, 3*h, h, hp, h, &g.weights, false, gh, 3*h)
		kernel.GRUForward(n, h, g.gi[in*3*h:], gh, g.bih, g.bhh, hp, g.out.data[out*h:(out+n)*h], save)
		prev = out
		at += g.active[s]
	}
}

func (g *gru) diff(types []hm.Type, ins G.Nodes, output, grad *G.Node) (G.Nodes, error) {
	h := g.hidden
	g.before, g.save = make([]float32, g.inCap*h), make([]float32, g.inCap*4*h)
	g.dgi, g.dgh = newBuffer(g.inCap, 3*h), make([]float32, g.inCap*3*h)
	g.dwhh, g.dbih, g.dbhh = newBuffer(3*h, h), newBuffer(3*h), newBuffer(3*h)
	g.dh0 = newBuffer(g.rowCap, h)
	main, err := G.ApplyOp(&fusedOp{
		name: g.name + "Grad", in: append(append([]hm.Type{}, types...), matrixT, matrixT), out: matrixT, shape: g.dgi.t.Shape(),
		run: g.backward,
	}, append(append(G.Nodes{}, ins...), output, grad)...)
	if err != nil {
		return nil, err
	}
	grads := G.Nodes{main}
	parts := []struct {
		name string
		b    *buffer
	}{{"GradWhh", g.dwhh}, {"GradBih", g.dbih}, {"GradBhh", g.dbhh}, {"", nil}, {"GradH0", g.dh0}}
	for _, p := range parts[:len(ins)-1] {
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

func (g *gru) backward(vals []G.Value) (G.Value, error) {
	g.load(vals)
	g.dout = floats(vals[len(vals)-1])
	h := g.hidden
	_, rows, _ := sizes(g.active)
	kernel.PackB(false, 3*h, h, floats(vals[1]), h, &g.weights)
	g.pool.Run(g.chunks(), g.backwardTask)
	g.pool.Gemm(true, false, 3*h, h, rows, g.dgh, 3*h, g.before, h, false, g.dwhh.data, h)
	kernel.ColSum(rows, 3*h, g.dgi.data, 3*h, false, g.dbih.data)
	kernel.ColSum(rows, 3*h, g.dgh, 3*h, false, g.dbhh.data)
	return g.dgi.t, nil
}

func (g *gru) backwardChunk(task, worker int) {
	h := g.hidden
	lo := task * gruChunk
	hi := min(lo+gruChunk, g.active[0])
	scratch := g.scratch[worker*gruChunk*4*h:]
	carry, direct := scratch[:gruChunk*h], scratch[gruChunk*h:2*gruChunk*h]
	clear(carry)
	// the last step in which this chunk takes part, and where its block starts
	last, at := 0, 0
	for s := 1; s < len(g.active) && g.active[s] > lo; s++ {
		at += g.active[s-1]
		last = s
	}
	for s := last; s >= 1; s-- {
		n := min(hi, g.active[s]) - lo
		in, out := at-g.active[0]+lo, at+lo
		for i, v := range g.dout[out*h : (out+n)*h] {
			carry[i] += v
		}
		dgh := g.dgh[in*3*h : (in+n)*3*h]
		kernel.GRUBackward(n, h, carry, g.before[in*h:], g.save[in*4*h:], g.dgi.data[in*3*h:(in+n)*3*h], dgh, direct)
		kernel.GemmPacked(false, n, h, 3*h, dgh, 3*h, &g.weights, true, direct, h)
		copy(carry[:n*h], direct[:n*h])
		at -= g.active[s-1]
	}
	for i, v := range g.dout[lo*h : hi*h] {
		g.dh0.data[lo*h+i] = carry[i] + v
	}
}
