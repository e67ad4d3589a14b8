package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/fused"
	"grpo/pkg/model/kernel"
)

// source is a layer's input: a table with one row per token, indexed by ids, or the states of the
// layer below with the input weights (3H×H).
type source struct{ x, wih, ids *G.Node }

// gru is one layer over one segment, input projections and recurrence in one, PyTorch's equations:
//
//	r = σ(gi_r + b_ir + W_hr·h + b_hr)
//	z = σ(gi_z + b_iz + W_hz·h + b_hz)
//	n = tanh(gi_n + b_in + r ∘ (W_hn·h + b_hn))
//	h' = (1-z) ∘ n + z ∘ h
//
// gi is W_ih·x for the states x of the layer below, or, in the first layer, the token's row of a
// table: the embedding already multiplied by W_ih (V projections instead of one for each token).
//
// The output is block 0, the initial states (h0, or zeros if h0 is nil), and then the state after
// each step: (sequences + inputs)×H.
func (b *builder) gru(name string, from source, h0, whh, bih, bhh, active *G.Node, prompts bool,
	rowCap, inCap int) *G.Node {
	if b.Err != nil {
		return nil
	}
	s := GRUSize{Hidden: whh.Shape()[1], Sequences: rowCap, Inputs: inCap, Table: from.ids != nil,
		SourceRows: from.x.Shape()[0], HasInit: h0 != nil, Prompts: prompts}
	second := fused.Matrix(from.wih)
	if s.Table {
		second = fused.Index(from.ids)
	}
	inputs := []fused.Input{fused.Matrix(from.x), second, fused.Matrix(whh), fused.Vector(bih), fused.Vector(bhh),
		fused.Index(active)}
	if s.HasInit {
		inputs = append(inputs, fused.Matrix(h0))
	}
	f, err := b.ops.GRU(s)
	return b.Fuse(name, f, err, tensor.Shape{rowCap + inCap, s.Hidden}, inputs...)
}

// gru is the CPU's. The input projections of one step of one chunk stay in the first-level cache. A
// step does so little arithmetic that memory writes dominate its time, so the backward pass writes
// the gradients of the gates over the gates.
type gru struct {
	GRUSize
	pool    *kernel.Pool
	out     *fused.Buffer // (rowCap+inCap)×H
	scratch []float32     // threads × maxChunk×6H
	wih     kernel.Packed
	whh     kernel.Packed

	forwardTask  func(task, worker int)
	backwardTask func(task, worker int)
	back         *gruBack // nil without a backward pass

	// the values of the current pass
	active   []int
	chunk    int       // sequences of a task
	source   []float32 // the table, V×3H, or the states below, laid out as out
	ids      []int     // with a table: its row for each input
	h0       []float32
	bih, bhh []float32
}

func (c cpu) GRU(s GRUSize) (fused.Op, error) {
	g := &gru{
		GRUSize: s, pool: c.pool,
		out:     fused.NewBuffer(s.Sequences+s.Inputs, s.Hidden),
		scratch: make([]float32, c.pool.Threads()*maxChunk*6*s.Hidden),
	}
	g.forwardTask, g.backwardTask = g.forwardChunk, g.backwardChunk
	return g, nil
}

func (g *gru) load(vals []G.Value) {
	g.source = fused.Floats(vals[0])
	if g.Table {
		g.ids = fused.Ints(vals[1])
	}
	g.bih, g.bhh, g.active = fused.Floats(vals[3]), fused.Floats(vals[4]), fused.Ints(vals[5])
	if g.HasInit {
		g.h0 = fused.Floats(vals[6])
	}
}

// chunks sets the size of chunks for the current pass and returns their number.
func (g *gru) chunks() int {
	g.chunk = chunkSize(g.active[0], g.pool.Cuts())
	return (g.active[0] + g.chunk - 1) / g.chunk
}

func (g *gru) Forward(vals []G.Value) (G.Value, error) {
	g.load(vals)
	h := g.Hidden
	if !g.Table {
		kernel.PackB(true, h, 3*h, fused.Floats(vals[1]), h, &g.wih)
	}
	kernel.PackB(true, h, 3*h, fused.Floats(vals[2]), h, &g.whh)
	g.pool.Run(g.chunks(), g.forwardTask)
	return g.out.T, nil
}

// input writes the input projections of the n rows from input row in on, whose
// states below start at row out.
func (g *gru) input(n, in, out int, gi []float32) {
	h := g.Hidden
	if !g.Table {
		kernel.GemmPacked(false, n, 3*h, h, g.source[out*h:], h, &g.wih, false, gi, 3*h)
		return
	}
	for r, id := range g.ids[in : in+n] {
		copy(gi[r*3*h:(r+1)*3*h], g.source[id*3*h:(id+1)*3*h])
	}
}

func (g *gru) forwardChunk(task, worker int) {
	h := g.Hidden
	lo := task * g.chunk
	hi := min(lo+g.chunk, g.active[0])
	if g.HasInit {
		copy(g.out.Data[lo*h:hi*h], g.h0[lo*h:hi*h])
	} else {
		clear(g.out.Data[lo*h : hi*h])
	}
	scratch := g.scratch[worker*maxChunk*6*h:]
	gi, gh := scratch[:maxChunk*3*h], scratch[maxChunk*3*h:maxChunk*6*h]
	prev, at := lo, g.active[0] // rows of the output: this chunk's last states, the step's block
	for s := 1; s < len(g.active) && g.active[s] > lo; s++ {
		n := min(hi, g.active[s]) - lo
		in, out := at-g.active[0]+lo, at+lo
		hp := g.out.Data[prev*h : (prev+n)*h]
		var save []float32
		if g.back != nil {
			copy(g.back.before[in*h:(in+n)*h], hp)
			save = g.back.gates[in*4*h : (in+n)*4*h]
		}
		g.input(n, in, out, gi)
		kernel.GemmPacked(false, n, 3*h, h, hp, h, &g.whh, false, gh, 3*h)
		kernel.GRUForward(n, h, gi, gh, g.bih, g.bhh, hp, g.out.Data[out*h:(out+n)*h], save)
		prev = out
		at += g.active[s]
	}
}

// gruBack has the data that a layer saves for its backward pass, and its gradients.
type gruBack struct {
	before []float32 // inCap×H: the state before each step
	// gates, inCap×4H: r, z, n and W_hn·h+b_hn of each step. The backward pass replaces them by
	// gradients: da_r, da_z, da_n (those of gi) and da_n·r (with the first two, those of gh).
	gates      []float32
	dout       []float32     // of the current pass
	dx         *fused.Buffer // as the source: the table's gradient, or that of the states below
	dwih, dwhh *fused.Buffer
	dbih, dbhh *fused.Buffer
	dh0        *fused.Buffer
}

func (g *gru) AllocateGrads() ([]*tensor.Dense, error) {
	h := g.Hidden
	b := &gruBack{
		before: make([]float32, g.Inputs*h), gates: make([]float32, g.Inputs*4*h),
		dwhh: fused.NewBuffer(3*h, h), dbih: fused.NewBuffer(3 * h), dbhh: fused.NewBuffer(3 * h),
		dh0: fused.NewBuffer(g.Sequences, h),
	}
	g.back = b
	var second *tensor.Dense
	if g.Table {
		b.dx = fused.NewBuffer(g.SourceRows, 3*h)
	} else {
		b.dx, b.dwih = fused.NewBuffer(g.SourceRows, h), fused.NewBuffer(3*h, h)
		second = b.dwih.T
	}
	grads := []*tensor.Dense{b.dx.T, second, b.dwhh.T, b.dbih.T, b.dbhh.T, nil}
	if g.HasInit {
		grads = append(grads, b.dh0.T)
	}
	return grads, nil
}

func (g *gru) Backward(vals []G.Value) error {
	g.load(vals)
	h, b := g.Hidden, g.back
	b.dout = fused.Floats(vals[len(vals)-1])
	first, rows, _ := sizes(g.active)
	if !g.Table {
		kernel.PackB(false, 3*h, h, fused.Floats(vals[1]), h, &g.wih)
		clear(b.dx.Data[:first*h])
	}
	kernel.PackB(false, 3*h, h, fused.Floats(vals[2]), h, &g.whh)
	g.pool.Run(g.chunks(), g.backwardTask)
	if g.Table {
		clear(b.dx.Data)
		g.pool.ScatterAdd(g.ids[:rows], 3*h, b.gates, 4*h, len(b.dx.Data)/(3*h), b.dx.Data, 3*h)
	} else {
		g.pool.Gemm(true, false, 3*h, h, rows, b.gates, 4*h, g.source[first*h:], h, false, b.dwih.Data, h)
	}
	g.pool.GemmGates(3*h, h, rows, b.gates, 4*h, 2*h, h, b.before, h, b.dwhh.Data, h)
	g.biases(rows)
	return nil
}

// biases sums the gates' gradients over all inputs. The reset and update gates add both matmuls, so
// both their biases have one gradient; only the candidate's differ.
func (g *gru) biases(rows int) {
	h, b := g.Hidden, g.back
	g.pool.ColSum(rows, 3*h, b.gates, 4*h, false, b.dbih.Data)
	copy(b.dbhh.Data, b.dbih.Data[:2*h])
	g.pool.ColSum(rows, h, b.gates[min(3*h, len(b.gates)):], 4*h, false, b.dbhh.Data[2*h:])
}

func (g *gru) backwardChunk(task, worker int) {
	h, b := g.Hidden, g.back
	lo := task * g.chunk
	hi := min(lo+g.chunk, g.active[0])
	scratch := g.scratch[worker*maxChunk*6*h:]
	carry, direct, dgh := scratch[:maxChunk*h], scratch[maxChunk*h:2*maxChunk*h], scratch[2*maxChunk*h:5*maxChunk*h]
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
		gates := b.gates[in*4*h : (in+n)*4*h]
		kernel.Axpy(1, b.dout[out*h:(out+n)*h], carry[:n*h])
		kernel.GRUBackward(n, h, carry, b.before[in*h:], gates, dgh, direct)
		kernel.GemmPacked(false, n, h, 3*h, dgh, 3*h, &g.whh, true, direct, h)
		copy(carry[:n*h], direct[:n*h])
		if !g.Table {
			kernel.GemmPacked(false, n, h, 3*h, gates, 4*h, &g.wih, false, b.dx.Data[out*h:], h)
		}
		at -= g.active[s-1]
	}
	copy(b.dh0.Data[lo*h:hi*h], carry)
	kernel.Axpy(1, b.dout[lo*h:hi*h], b.dh0.Data[lo*h:hi*h])
}
