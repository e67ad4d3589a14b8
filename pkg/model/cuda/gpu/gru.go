//go:build withcuda && linux

package gpu

import (
	"cmp"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/tinylm"
)

// gru implements [tinylm.Ops.GRU]. If the recurrent weights fit into the registers
// of a multiprocessor (or of a cluster), one fused kernel runs all steps of the
// segment; else each step is a matmul and a kernel for the gates. The input
// projections of all steps are one large matmul before that.
type gru struct {
	op
	tinylm.GRUSize
	layer layer
	// For the backward pass, else 0: the gates (Inputs, 4H) and the state before each step (Inputs,
	// H).
	gates, before cuda.Pointer
}

// layer runs the recurrence of a layer of one hidden size.
type layer struct {
	g           *device
	hidden      int
	plan        kernels.GRUPlan
	fused       map[string]*cuda.Kernel // nil: step by step
	forth, back recording
	gh, carry   cuda.Pointer // scratch of a step: (sequences, 3H) and (sequences, H)
}

// newLayer prepares the recurrence; gh and carry are used if it runs step by
// step.
func (g *device) newLayer(hidden int, gh, carry cuda.Pointer) (layer, error) {
	l := layer{g: g, hidden: hidden, gh: gh, carry: carry}
	var err error
	l.plan, l.fused, err = g.recurrence(hidden)
	return l, err
}

// recurrence returns how layers of a size run on this card: the plan and its fused
// kernels, or no kernels if they run step by step.
func (g *device) recurrence(hidden int) (plan kernels.GRUPlan, fused map[string]*cuda.Kernel, err error) {
	plan, ok := g.card.GRU(hidden)
	if !ok {
		return plan, nil, nil
	}
	err = g.dev.Do(func() error {
		if fused, err = g.load(plan.Module()); err != nil || plan.Cluster == 1 {
			return err
		}
		least := math.MaxInt
		for _, l := range plan.Largest() {
			n, err := fused[l.Kernel].Clusters(grid(l))
			if err != nil {
				return nil // unknown to the driver: the plan estimates it
			}
			least = min(least, n)
		}
		if plan.Card.Clusters = least; least == 0 { // no room for one, as on a MIG partition
			fused = nil
		}
		return nil
	})
	return plan, fused, err
}

// gruWeights are those of a layer's recurrence.
type gruWeights struct{ whh, bih, bhh cuda.Pointer }

// forward runs a segment: gi are the input projections, or a table with ids. h0,
// gates and before may be 0. out are the states, (sequences + inputs, H).
func (l *layer) forward(s *segment, gi, ids cuda.Pointer, w gruWeights, h0, out, gates, before cuda.Pointer) {
	if l.fused == nil {
		l.forth.run(l.g.dev, s.host, func() { l.stepsForward(s, gi, ids, w, h0, out, gates, before) })
		return
	}
	launch := l.plan.Forward(s.n0)
	l.g.launchOf(l.fused, launch, cuda.P(gi), cuda.P(ids), cuda.P(w.whh), cuda.P(w.bih), cuda.P(w.bhh), cuda.P(h0),
		cuda.P(s.active), cuda.P(s.offset), cuda.I(s.steps), cuda.I(launch.Tile), cuda.P(out), cuda.P(gates), cuda.P(before))
}

// backward is the backward pass of forward. It replaces gates by their gradients and writes the
// biases' gradients to dbih and dbhh.
func (l *layer) backward(s *segment, dout cuda.Pointer, w gruWeights, states, gates, before, dh0,
	dbih, dbhh cuda.Pointer) {
	g, h := l.g, l.hidden
	var parts cuda.Pointer
	var launch kernels.Launch
	if l.fused == nil {
		l.back.run(g.dev, s.host, func() { l.stepsBackward(s, dout, w, gates, before, dh0) })
		launch, _ = g.card.ColSum(s.inputs, 4*h)
		parts = g.scratch(launch.Tiles * 4 * h)
		g.launch(launch, cuda.I(s.inputs), cuda.I(4*h), cuda.P(gates), cuda.I(4*h), cuda.P(0), cuda.I(launch.Tile),
			cuda.P(parts))
	} else {
		launch = l.plan.Backward(s.n0)
		parts = g.scratch(launch.Tiles * 4 * h)
		g.launchOf(l.fused, launch, cuda.P(dout), cuda.P(w.whh), cuda.P(states), cuda.P(s.active), cuda.P(s.offset),
			cuda.I(s.steps), cuda.I(launch.Tile), cuda.P(gates), cuda.P(dh0), cuda.P(parts))
	}
	g.launch(g.card.BiasGrad(h), cuda.I(launch.Tiles), cuda.I(h), cuda.P(parts), cuda.P(dbih), cuda.P(dbhh))
}

func (n *ops) GRU(s tinylm.GRUSize) (fused.Op, error) {
	layer, err := n.g.newLayer(s.Hidden, n.gh, n.carry)
	o := &gru{op: op{ops: n, out: n.tensor(s.Sequences+s.Inputs, s.Hidden)}, GRUSize: s, layer: layer}
	n.recordings = append(n.recordings, &o.layer.forth, &o.layer.back)
	return o, cmp.Or(err, n.g.dev.Err())
}

// input returns the addresses of inputs.
func (o *gru) input(vals []G.Value) (w gruWeights, h0 cuda.Pointer) {
	w = gruWeights{at(vals[2]), at(vals[3]), at(vals[4])}
	if o.HasInit {
		h0 = at(vals[6])
	}
	return w, h0
}

func (o *gru) Forward(vals []G.Value) (G.Value, error) {
	return o.result(o.do(func(g *device) {
		s, h := o.ops.segment(o.Prompts), o.Hidden
		w, h0 := o.input(vals)
		gi, ids := at(vals[0]), s.ids
		if !o.Table {
			// Input i is row n0+i of the states below: block 0 has the initial states, which are
			// not inputs.
			g.gemm(false, true, s.inputs, 3*h, h, gi.Add(s.n0*h), h, at(vals[1]), h, false, o.ops.gi, 3*h)
			gi, ids = o.ops.gi, 0
		}
		o.layer.forward(s, gi, ids, w, h0, at(o.out), o.gates, o.before)
	}))
}

func (o *gru) AllocateGrads() ([]*tensor.Dense, error) {
	h := o.Hidden
	o.gates = o.ops.alloc(o.Inputs*4*h, "the gates of a layer")
	o.before = o.ops.alloc(o.Inputs*h, "the states of a layer")
	width, second := h, tensor.Shape{3 * h, h}
	if o.Table {
		width, second = 3*h, nil
	}
	shapes := []tensor.Shape{{o.SourceRows, width}, second, {3 * h, h}, {3 * h}, {3 * h}, nil}
	if o.HasInit {
		shapes = append(shapes, tensor.Shape{o.Sequences, h})
	}
	return o.allocate(shapes...)
}

func (o *gru) Backward(vals []G.Value) error {
	return o.do(func(g *device) {
		s, h := o.ops.segment(o.Prompts), o.Hidden
		w, _ := o.input(vals)
		var dh0 cuda.Pointer
		if o.HasInit {
			dh0 = o.grad(6)
		}
		o.layer.backward(s, at(vals[len(vals)-1]), w, at(o.out), o.gates, o.before, dh0, o.grad(3), o.grad(4))
		// dW_hh is the gates' gradients times the previous states. The candidate's gradients are in
		// separate columns.
		g.gemm(true, false, 2*h, h, s.inputs, o.gates, 4*h, o.before, h, false, o.grad(2), h)
		g.gemm(true, false, h, h, s.inputs, o.gates.Add(3*h), 4*h, o.before, h, false, o.grad(2).Add(2*h*h), h)
		if o.Table {
			g.scatterTokens(s.inputs, 3*h, s.ids, o.gates, 4*h, o.SourceRows, o.grad(0))
			return
		}
		below, dx := at(vals[0]).Add(s.n0*h), o.grad(0)
		g.gemm(true, false, 3*h, h, s.inputs, o.gates, 4*h, below, h, false, o.grad(1), h)
		g.zero(dx, s.n0*h)
		g.gemm(false, false, s.inputs, h, 3*h, o.gates, 4*h, at(vals[1]), h, false, dx.Add(s.n0*h), h)
	})
}
