//go:build withcuda && linux

package tinylm

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
)

// gpuNet is the arithmetic of one graph on a GPU. Its memory is taken for the
// graph's capacity when the graph is built, and given back when it is closed.
type gpuNet struct {
	g      *gpu
	p      *Weights
	c      capacity
	mem    []*cuda.Mem
	unpin  []func()  // of page-locked memory
	output []float32 // the graph's output on the host

	prompt, rows gpuSegment
	start        cuda.Pointer // for each completion: the row of its prompt's last state
	last         cuda.Pointer // for each prompt: that row
	targets      cuda.Pointer

	// Scratch that no operation leaves anything in: the input products of a layer
	// over states, and what a layer goes a step at a time with.
	gi, gh, carry cuda.Pointer
	recordings    []*recording
}

// gpuSegment is a segment on the device; see [segment].
type gpuSegment struct {
	buffer              *cuda.Mem // active, offset and ids, at the capacity's places
	staged              []int32   // the same, page-locked
	active, offset, ids cuda.Pointer
	stepCap             int
	extra               int // further numbers between offset and ids

	n0, inputs, steps int
	host              []int // active, as far as there are steps
	offsets           []int // rows at which the steps' blocks begin
}

func (g *gpu) arithmetic(p *Weights, c capacity) (arithmetic, error) {
	n := &gpuNet{g: g, p: p, c: c}
	err := g.dev.Do(func() error { return n.allocate() })
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *gpuNet) allocate() error {
	c, h := n.c, n.p.Hidden
	if err := n.prompt.allocate(n.g, c.promptSteps, 0, c.promptInputs); err != nil {
		return err
	}
	// start and last stand with the completions; targets behind their ids.
	if err := n.rows.allocate(n.g, c.rowSteps, c.rows+c.prompts, c.rowInputs+c.rows+c.rowInputs); err != nil {
		return err
	}
	n.start = n.rows.offset.Add(c.rowSteps + 1)
	n.last = n.start.Add(c.rows)
	n.targets = n.rows.ids.Add(c.rowInputs)
	scratch := func(floats int, to *cuda.Pointer) error {
		m, err := n.take(floats, "the scratch of a layer")
		*to = m.At(0)
		return err
	}
	if n.p.Layers > 1 {
		if err := scratch(max(c.promptInputs, c.rowInputs)*3*h, &n.gi); err != nil {
			return err
		}
	}
	_, whole, err := n.g.recurrence(h)
	if err != nil || whole != nil {
		return err
	}
	if err := scratch(max(c.prompts, c.rows)*3*h, &n.gh); err != nil {
		return err
	}
	return scratch(max(c.prompts, c.rows)*h, &n.carry)
}

// take allocates memory that the net owns.
func (n *gpuNet) take(floats int, what string) (*cuda.Mem, error) {
	var m *cuda.Mem
	err := n.g.dev.Do(func() (err error) {
		m, err = n.g.dev.Alloc(4*floats, what)
		return err
	})
	if err == nil {
		n.mem = append(n.mem, m)
	}
	return m, err
}

// tensor allocates a value of the graph.
func (n *gpuNet) tensor(shape ...int) (*tensor.Dense, error) {
	m, err := n.take(tensor.Shape(shape).TotalSize(), "activations and gradients")
	if err != nil {
		return nil, err
	}
	return n.g.engine.Tensor(m.At(0), shape...), nil
}

// tensors allocates several; a nil shape is no value.
func (n *gpuNet) tensors(shapes ...tensor.Shape) ([]*tensor.Dense, error) {
	out := make([]*tensor.Dense, len(shapes))
	for i, s := range shapes {
		if s == nil {
			continue
		}
		var err error
		if out[i], err = n.tensor(s...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (n *gpuNet) close() {
	_ = n.g.dev.Do(func() error {
		err := n.g.dev.Sync() // page-locked memory must be at rest
		for _, r := range n.recordings {
			r.close()
		}
		n.recordings = nil
		for _, m := range n.mem {
			n.g.dev.Free(m)
		}
		n.mem = nil
		n.prompt.free(n.g)
		n.rows.free(n.g)
		for _, free := range n.unpin {
			free()
		}
		n.unpin = nil
		return err
	})
}

func (n *gpuNet) machine() []G.VMOpt { return []G.VMOpt{G.WithEngine(n.g.engine)} }

func (n *gpuNet) weight(p *Weights, i int) *tensor.Dense {
	return n.g.engine.Tensor(n.g.storageOf(p.Params).at(i), p.Tensors()[i].Shape...)
}

func (n *gpuNet) accumulate(grads []G.Value, sum *model.Params) error {
	store := n.g.storageOf(sum)
	store.fresh = false
	return n.g.dev.Do(func() error {
		for i, t := range sum.Tensors() {
			if err := n.g.axpy(len(t.Data), at(grads[i]), store.at(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// at is where a value lives.
func at(v G.Value) cuda.Pointer { return cuda.Pointer(v.Uintptr()) }

// load brings the batch to the device: lengths and ids as int32.
func (n *gpuNet) load(p *packed) error {
	return n.g.dev.Do(func() error {
		n.prompt.fill(&p.prompt)
		n.rows.fill(&p.completion)
		at := n.rows.stagedAt(n.rows.offset) + n.rows.stepCap + 1
		toInt32(n.rows.staged[at:], p.start)
		for rank, length := range p.prompt.lengths {
			n.rows.staged[at+n.c.rows+rank] = int32(p.prompt.blocks[length] + rank)
		}
		toInt32(n.rows.staged[n.rows.stagedAt(n.targets):], p.targets)
		if err := n.prompt.upload(n.g, n.prompt.inputs); err != nil {
			return err
		}
		return n.rows.upload(n.g, n.c.rowInputs+len(p.targets))
	})
}

func (s *gpuSegment) allocate(g *gpu, steps, extra, ids int) (err error) {
	s.stepCap, s.extra = steps, extra
	n := 2*(steps+1) + extra + ids
	if s.buffer, err = g.dev.Alloc(4*n, "token ids"); err != nil {
		return err
	}
	s.active = s.buffer.At(0)
	s.offset = s.active.Add(steps + 1)
	s.ids = s.offset.Add(steps + 1 + extra)
	s.staged, err = cuda.Pinned[int32](g.dev, n)
	return err
}

func (s *gpuSegment) free(g *gpu) {
	g.dev.Free(s.buffer)
	cuda.FreePinned(g.dev, s.staged)
	s.buffer, s.staged = nil, nil
}

// stagedAt is the place in the staged numbers of an address in the buffer.
func (s *gpuSegment) stagedAt(p cuda.Pointer) int { return int(p-s.buffer.At(0)) / 4 }

// fill lays a segment's lengths and ids out.
func (s *gpuSegment) fill(g *segment) {
	s.n0, s.inputs, s.steps = sizes(g.active)
	s.host = append(s.host[:0], g.active[:s.steps+1]...)
	s.offsets = append(s.offsets[:0], g.blocks[:s.steps+1]...)
	clear(s.staged[:2*(s.stepCap+1)])
	toInt32(s.staged, s.host)
	toInt32(s.staged[s.stagedAt(s.offset):], s.offsets)
	toInt32(s.staged[s.stagedAt(s.ids):], g.ids)
}

// upload sends what was filled, with so many ids.
func (s *gpuSegment) upload(g *gpu, ids int) error {
	return cuda.Upload(g.dev, s.buffer, 0, s.staged[:2*(s.stepCap+1)+s.extra+ids])
}

func toInt32(to []int32, from []int) {
	to = to[:len(from)]
	for i, v := range from {
		to[i] = int32(v)
	}
}

// segment returns one of the two.
func (n *gpuNet) segment(prompts bool) *gpuSegment {
	if prompts {
		return &n.prompt
	}
	return &n.rows
}

// scatterTokens sums the rows of x (n×width, ldx apart) by token into out,
// vocab×width.
func (g *gpu) scatterTokens(n, width int, ids, x cuda.Pointer, ldx, vocab int, out cuda.Pointer) error {
	parts, sum, ok := g.card.TableGrad(n, width, vocab)
	if !ok {
		return g.launch(g.card.ScatterAdd(width, vocab), cuda.I(n), cuda.I(width), cuda.P(ids), cuda.P(x), cuda.I(ldx),
			cuda.P(0), cuda.I(vocab), cuda.P(out), cuda.I(width), cuda.I(0))
	}
	room, err := g.room(parts.Tiles * vocab * width)
	if err != nil {
		return err
	}
	if err := g.launch(parts, cuda.I(n), cuda.I(width), cuda.P(ids), cuda.P(x), cuda.I(ldx), cuda.I(vocab), cuda.I(parts.Tile), cuda.P(room)); err != nil {
		return err
	}
	return g.launch(sum, cuda.I(parts.Tiles), cuda.I(vocab*width), cuda.P(room), cuda.P(out), cuda.I(0))
}
