//go:build withcuda && linux

package gpu

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/tinylm"
)

// ops implements [tinylm.Ops] for one graph. Its memory is allocated for the
// graph's capacity when the graph is built, and freed by Close.
type ops struct {
	g      *device
	p      *tinylm.Weights
	c      tinylm.Capacity
	mem    []*cuda.Mem
	unpin  []func()  // of page-locked memory
	output []float32 // the graph's output on the host

	prompt, rows segment
	start        cuda.Pointer // for each completion, by rank: the row of its prompt's last state
	last         cuda.Pointer // for each prompt, by rank: that row
	targets      cuda.Pointer // for each state of the completions, packed

	// Scratch, undefined between operations: the input projections of a layer over states, and the
	// buffers of a layer that runs step by step.
	gi, gh, carry cuda.Pointer
	recordings    []*recording
}

// segment is a [tinylm.Segment] on the device.
type segment struct {
	buffer              *cuda.Mem // active, offset, extra numbers and ids, with room for the capacity
	staged              []int32   // the same, page-locked
	active, offset, ids cuda.Pointer
	stepCap             int
	extra               int // further numbers between offset and ids

	n0, inputs, steps int
	host              []int // Active, without zeros after the last step
	offsets           []int // Blocks, of the same length
}

func (g *device) NewOps(p *tinylm.Weights, c tinylm.Capacity) (tinylm.Ops, error) {
	n := &ops{g: g, p: p, c: c}
	err := g.dev.Do(n.allocate)
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *ops) allocate() error {
	c, h := n.c, n.p.Hidden
	n.prompt.allocate(n.g, c.PromptSteps, 0, c.PromptInputs)
	// The completions' buffer also holds start, last and, after the ids, targets.
	n.rows.allocate(n.g, c.RowSteps, c.Rows+c.Prompts, c.RowInputs+c.Rows+c.RowInputs)
	n.start = n.rows.offset.Add(c.RowSteps + 1)
	n.last = n.start.Add(c.Rows)
	n.targets = n.rows.ids.Add(c.RowInputs)
	scratch := func(floats int) cuda.Pointer { return n.alloc(floats, "the scratch of a layer") }
	if n.p.Layers > 1 {
		n.gi = scratch(max(c.PromptInputs, c.RowInputs) * 3 * h)
	}
	_, fused, err := n.g.recurrence(h)
	if err == nil && fused == nil {
		n.gh, n.carry = scratch(max(c.Prompts, c.Rows)*3*h), scratch(max(c.Prompts, c.Rows)*h)
	}
	return err
}

// alloc allocates memory that n frees when it is closed; without room the device fails.
func (n *ops) alloc(floats int, what string) (p cuda.Pointer) {
	_ = n.g.do(func() {
		n.mem = append(n.mem, n.g.alloc(floats, what))
		p = n.mem[len(n.mem)-1].At(0)
	})
	return p
}

// tensor allocates a value of the graph.
func (n *ops) tensor(shape ...int) *tensor.Dense {
	return n.g.engine.Tensor(n.alloc(tensor.Shape(shape).TotalSize(), "activations and gradients"), shape...)
}

func (n *ops) Close() {
	_ = n.g.dev.Do(func() error {
		err := n.g.dev.Sync() // no copy may still use the page-locked memory
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

func (n *ops) VMOptions() []G.VMOpt { return []G.VMOpt{G.WithEngine(n.g.engine)} }

func (n *ops) Weight(p *tinylm.Weights, i int) *tensor.Dense {
	return n.g.engine.Tensor(n.g.storageOf(p.Params).at(i), p.Tensors()[i].Shape...)
}

func (n *ops) AccumulateGrads(grads []G.Value, sum *model.Params) error {
	store := n.g.storageOf(sum)
	store.synced = false
	return n.g.do(func() {
		for i, t := range sum.Tensors() {
			n.g.axpy(len(t.Data), at(grads[i]), store.at(i))
		}
	})
}

// at is the address of a value.
func at(v G.Value) cuda.Pointer { return cuda.Pointer(v.Uintptr()) }

// Load uploads the batch: lengths, rows and ids as int32.
func (n *ops) Load(p *tinylm.Packed) error {
	if p.Kept != nil {
		return model.ErrKept
	}
	return n.g.do(func() {
		n.prompt.fill(&p.Prompt)
		n.rows.fill(&p.Completion)
		at := n.rows.stagedAt(n.rows.offset) + n.rows.stepCap + 1
		toInt32(n.rows.staged[at:], p.Start)
		for rank := range p.Prompt.Lengths {
			n.rows.staged[at+n.c.Rows+rank] = int32(p.Prompt.LastState(rank))
		}
		toInt32(n.rows.staged[n.rows.stagedAt(n.targets):], p.Targets)
		n.prompt.upload(n.g, n.prompt.inputs)
		n.rows.upload(n.g, n.c.RowInputs+len(p.Targets))
	})
}

func (s *segment) allocate(g *device, steps, extra, ids int) {
	s.stepCap, s.extra = steps, extra
	n := 2*(steps+1) + extra + ids
	s.buffer, s.staged = g.alloc(n, "token ids"), pinned[int32](g, n)
	s.active = s.buffer.At(0)
	s.offset = s.active.Add(steps + 1)
	s.ids = s.offset.Add(steps + 1 + extra)
}

func (s *segment) free(g *device) {
	g.dev.Free(s.buffer)
	cuda.FreePinned(g.dev, s.staged)
	s.buffer, s.staged = nil, nil
}

// stagedAt is the index in staged of an address in the buffer.
func (s *segment) stagedAt(p cuda.Pointer) int { return int(p-s.buffer.At(0)) / 4 }

// fill stages a segment's lengths and ids.
func (s *segment) fill(g *tinylm.Segment) {
	s.n0, s.inputs, s.steps = g.Sizes()
	s.host = append(s.host[:0], g.Active[:s.steps+1]...)
	s.offsets = append(s.offsets[:0], g.Blocks[:s.steps+1]...)
	clear(s.staged[:2*(s.stepCap+1)])
	toInt32(s.staged, s.host)
	toInt32(s.staged[s.stagedAt(s.offset):], s.offsets)
	toInt32(s.staged[s.stagedAt(s.ids):], g.IDs)
}

// upload copies the staged numbers to the device, with the given number of ids.
func (s *segment) upload(g *device, ids int) {
	_ = cuda.Upload(g.dev, s.buffer, 0, s.staged[:2*(s.stepCap+1)+s.extra+ids])
}

func toInt32(to []int32, from []int) {
	to = to[:len(from)]
	for i, v := range from {
		to[i] = int32(v)
	}
}

// segment returns the segment of the prompts or of the completions.
func (n *ops) segment(prompts bool) *segment {
	if prompts {
		return &n.prompt
	}
	return &n.rows
}

// scatterTokens sums the rows of x (n×width, ldx apart) by token into out,
// vocab×width.
func (g *device) scatterTokens(n, width int, ids, x cuda.Pointer, ldx, vocab int, out cuda.Pointer) {
	parts, sum, ok := g.card.TableGrad(n, width, vocab)
	if !ok {
		g.launch(g.card.ScatterAdd(width, vocab), cuda.I(n), cuda.I(width), cuda.P(ids), cuda.P(x), cuda.I(ldx),
			cuda.P(0), cuda.I(vocab), cuda.P(out), cuda.I(width), cuda.I(0))
		return
	}
	partial := g.scratch(parts.Tiles * vocab * width)
	g.launch(parts, cuda.I(n), cuda.I(width), cuda.P(ids), cuda.P(x), cuda.I(ldx), cuda.I(vocab),
		cuda.I(parts.Tile), cuda.P(partial))
	g.launch(sum, cuda.I(parts.Tiles), cuda.I(vocab*width), cuda.P(partial), cuda.P(out), cuda.I(0))
}
