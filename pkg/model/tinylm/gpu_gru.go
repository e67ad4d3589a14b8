//go:build withcuda && linux

package tinylm

import (
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// gpuGRU is [gru] on a GPU. Where the recurrent weights fit a multiprocessor's
// registers (or those of a cluster), one kernel takes the whole segment through
// all steps; else each step is a product and a kernel for the gates. The input
// products of all steps are one large product before.
type gpuGRU struct {
	gpuOp
	gruSize
	layer        gpuLayer
	save, before cuda.Pointer // for the way back; 0 without
}

// gpuLayer runs the recurrence of a layer of one hidden size.
type gpuLayer struct {
	g           *gpu
	hidden      int
	plan        kernels.GRUPlan
	whole       map[string]*cuda.Kernel // nil: a step at a time
	forth, back recording
	gh, carry   cuda.Pointer // scratch of a step
}

// layer prepares the recurrence; gh (sequences×3H) and carry (sequences×H) are
// scratch where it goes a step at a time.
func (g *gpu) layer(hidden int, gh, carry cuda.Pointer) (gpuLayer, error) {
	l := gpuLayer{g: g, hidden: hidden, gh: gh, carry: carry}
	var err error
	l.plan, l.whole, err = g.recurrence(hidden)
	return l, err
}

// recurrence says how layers of a size run on this card: the plan and its kernels,
// or no kernels where they go a step at a time.
func (g *gpu) recurrence(hidden int) (plan kernels.GRUPlan, whole map[string]*cuda.Kernel, err error) {
	plan, ok := g.card.GRU(hidden)
	if !ok {
		return plan, nil, nil
	}
	err = g.dev.Do(func() error {
		if whole, err = g.load(plan.Module()); err != nil || plan.Cluster == 1 {
			return err
		}
		least := math.MaxInt
		for _, l := range plan.Largest() {
			n, err := whole[l.Kernel].Clusters(grid(l))
			if err != nil {
				return nil // the driver does not say: the plan has a guess
			}
			least = min(least, n)
		}
		if plan.Card.Clusters = least; least == 0 { // no room for one, as on a part of a card
			whole = nil
		}
		return nil
	})
	return plan, whole, err
}

// gruWeights are those of a layer's recurrence.
type gruWeights struct{ whh, bih, bhh cuda.Pointer }

// forward runs a segment: gi are the input products, or a table with ids. h0, save
// and before may be 0.
func (l *gpuLayer) forward(s *gpuSegment, gi, ids cuda.Pointer, w gruWeights, h0, out, save, before cuda.Pointer) error {
	if l.whole == nil {
		return l.forth.run(l.g.dev, s.host, func() error { return l.stepsForward(s, gi, ids, w, h0, out, save, before) })
	}
	launch := l.plan.Forward(s.n0)
	return l.g.launchOf(l.whole, launch, cuda.P(gi), cuda.P(ids), cuda.P(w.whh), cuda.P(w.bih), cuda.P(w.bhh), cuda.P(h0),
		cuda.P(s.active), cuda.P(s.offset), cuda.I(s.steps), cuda.I(launch.Tile), cuda.P(out), cuda.P(save), cuda.P(before))
}

// backward runs it back; gates is save, and leaves as the gradients of the gates.
// dbih and dbhh receive those of the biases.
func (l *gpuLayer) backward(s *gpuSegment, dout cuda.Pointer, w gruWeights, states, gates, before, dh0, dbih, dbhh cuda.Pointer) error {
	g, h := l.g, l.hidden
	var parts cuda.Pointer
	var tiles int
	if l.whole == nil {
		err := l.back.run(g.dev, s.host, func() error { return l.stepsBackward(s, dout, w, gates, before, dh0) })
		if err != nil {
			return err
		}
		first, _ := g.card.ColSum(s.inputs, 4*h)
		if tiles = first.Tiles; tiles > 0 {
			if parts, err = g.room(tiles * 4 * h); err != nil {
				return err
			}
		}
		if err := g.launch(first, cuda.I(s.inputs), cuda.I(4*h), cuda.P(gates), cuda.I(4*h), cuda.P(0), cuda.I(first.Tile), cuda.P(parts)); err != nil {
			return err
		}
	} else {
		launch := l.plan.Backward(s.n0)
		tiles = launch.Tiles
		var err error
		if parts, err = g.room(tiles * 4 * h); err != nil {
			return err
		}
		if err := g.launchOf(l.whole, launch, cuda.P(dout), cuda.P(w.whh), cuda.P(states), cuda.P(s.active), cuda.P(s.offset),
			cuda.I(s.steps), cuda.I(launch.Tile), cuda.P(gates), cuda.P(dh0), cuda.P(parts)); err != nil {
			return err
		}
	}
	return g.launch(g.card.BiasGrad(h), cuda.I(tiles), cuda.I(h), cuda.P(parts), cuda.P(dbih), cuda.P(dbhh))
}

func (n *gpuNet) gru(s gruSize) (fused, error) {
	out, err := n.tensor(s.rowCap+s.inCap, s.hidden)
	if err != nil {
		return nil, err
	}
	layer, err := n.g.layer(s.hidden, n.gh, n.carry)
	o := &gpuGRU{gpuOp: gpuOp{net: n, out: out}, gruSize: s, layer: layer}
	n.recordings = append(n.recordings, &o.layer.forth, &o.layer.back)
	return o, err
}

// input are the values of an operation's inputs, as the wiring orders them.
func (o *gpuGRU) input(vals []G.Value) (w gruWeights, h0 cuda.Pointer) {
	w = gruWeights{at(vals[2]), at(vals[3]), at(vals[4])}
	if o.hasInit {
		h0 = at(vals[6])
	}
	return w, h0
}

func (o *gpuGRU) forward(vals []G.Value) (G.Value, error) {
	return o.result(o.do(func(g *gpu) error {
		s, h := o.net.segment(o.prompts), o.hidden
		w, h0 := o.input(vals)
		gi, ids := at(vals[0]), s.ids
		if !o.table {
			// Input i comes from the state that stands n0 rows behind it: block 0
			// holds the first states, which no step reads as an input.
			if err := g.dev.Gemm(false, true, s.inputs, 3*h, h, gi.Add(s.n0*h), h, at(vals[1]), h, false, o.net.gi, 3*h); err != nil {
				return err
			}
			gi, ids = o.net.gi, 0
		}
		return o.layer.forward(s, gi, ids, w, h0, at(o.out), o.save, o.before)
	}))
}

func (o *gpuGRU) differentiate() ([]*tensor.Dense, error) {
	h := o.hidden
	save, err := o.net.take(o.inCap*4*h, "the gates of a layer")
	if err != nil {
		return nil, err
	}
	before, err := o.net.take(o.inCap*h, "the states of a layer")
	if err != nil {
		return nil, err
	}
	o.save, o.before = save.At(0), before.At(0)
	width, second := h, tensor.Shape{3 * h, h}
	if o.table {
		width, second = 3*h, nil
	}
	shapes := []tensor.Shape{{o.sources, width}, second, {3 * h, h}, {3 * h}, {3 * h}, nil}
	if o.hasInit {
		shapes = append(shapes, tensor.Shape{o.rowCap, h})
	}
	return o.allocate(shapes...)
}

func (o *gpuGRU) backward(vals []G.Value) error {
	return o.do(func(g *gpu) error {
		s, h := o.net.segment(o.prompts), o.hidden
		w, _ := o.input(vals)
		var dh0 cuda.Pointer
		if o.hasInit {
			dh0 = o.grad(6)
		}
		if err := o.layer.backward(s, at(vals[len(vals)-1]), w, at(o.out), o.save, o.before, dh0, o.grad(3), o.grad(4)); err != nil {
			return err
		}
		// dW_hh: the gradients of the gates' products times the states before. The
		// candidate's stand apart from the others.
		if err := g.dev.Gemm(true, false, 2*h, h, s.inputs, o.save, 4*h, o.before, h, false, o.grad(2), h); err != nil {
			return err
		}
		if err := g.dev.Gemm(true, false, h, h, s.inputs, o.save.Add(3*h), 4*h, o.before, h, false, o.grad(2).Add(2*h*h), h); err != nil {
			return err
		}
		if o.table {
			return g.scatterTokens(s.inputs, 3*h, s.ids, o.save, 4*h, o.sources, o.grad(0))
		}
		below, dx := at(vals[0]).Add(s.n0*h), o.grad(0)
		if err := g.dev.Gemm(true, false, 3*h, h, s.inputs, o.save, 4*h, below, h, false, o.grad(1), h); err != nil {
			return err
		}
		if err := g.dev.Zero(dx, s.n0*h); err != nil {
			return err
		}
		return g.dev.Gemm(false, false, s.inputs, h, 3*h, o.save, 4*h, at(vals[1]), h, false, dx.Add(s.n0*h), h)
	})
}
