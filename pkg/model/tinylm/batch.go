package tinylm

import "grpo/pkg/model"

// Segment is a set of sequences in the packed, time-major layout of the GRU: all first tokens, then
// all second tokens, and so on, without padding. Sequences are sorted by length, longest first, so
// that those active at a step are a prefix.
//
// Active[0] is the number of sequences, Active[s] (s >= 1) the number that take an s-th step.
// States, one per row, are in blocks: block 0 has the initial states, block s those after step s.
// It starts at row Blocks[s] = Σ Active[:s]. Inputs have no block 0: the input of step s starts at
// row Σ Active[1:s]. Within a block, a sequence is at its rank.
type Segment struct {
	Active  []int // one more than steps
	IDs     []int // token ids of the inputs, packed
	Rank    []int // rank of each sequence, in the order of the batch
	Lengths []int // steps of each sequence, by rank
	Blocks  []int // first row of each step's block of states
	order   []int // the inverse of Rank
}

// Sizes returns the number of sequences, input rows and steps.
func (g *Segment) Sizes() (sequences, inputs, steps int) { return sizes(g.Active) }

// LastState is the row of the last state of the sequence of a rank.
func (g *Segment) LastState(rank int) int { return g.Blocks[g.Lengths[rank]] + rank }

// sizes is [Segment.Sizes] of active, which may have zeros after the last step.
func sizes(active []int) (n0, inputs, steps int) {
	n0 = active[0]
	for s := 1; s < len(active) && active[s] > 0; s++ {
		inputs += active[s]
		steps = s
	}
	return
}

// Packed is a batch laid out for the graph.
type Packed struct {
	Prompt, Completion Segment
	Start              []int         // for each completion by rank: the row of its prompt's last state
	Targets            []int         // for each state of the completions, packed: the token to predict
	Kept               []*model.Kept // for each state, packed: the tokens that it may predict; nil: none is restricted
	tokens             int           // Σ len(Tokens): rows of the head
	width              int           // longest completion
}

// Pack lays out n sequences. tokens(i) is the i-th input of the GRU: a whole prompt, or a
// completion without its last token, from which nothing is predicted. Sequences of equal length
// keep their order.
func (g *Segment) Pack(n int, tokens func(i int) []int) {
	longest := 0
	for i := range n {
		longest = max(longest, len(tokens(i)))
	}
	// active[s], s >= 1, counts the sequences of s tokens or more.
	g.Active = zeroed(g.Active, longest+1)
	for i := range n {
		g.Active[len(tokens(i))]++
	}
	for s := longest; s > 0; s-- {
		g.Active[s-1] += g.Active[s]
	}
	g.order, g.Rank, g.Lengths = zeroed(g.order, n), zeroed(g.Rank, n), zeroed(g.Lengths, n)
	next := zeroed(g.Blocks, longest+1) // the next rank of each length: after the longer ones
	copy(next, g.Active[1:])
	for i := range n {
		length := len(tokens(i))
		r := next[length]
		next[length]++
		g.order[r], g.Rank[i], g.Lengths[r] = i, r, length
	}
	g.Blocks = next
	at := 0
	for s, live := range g.Active {
		g.Blocks[s] = at
		at += live
	}
	g.IDs = zeroed(g.IDs, at-n)
	for r, i := range g.order {
		for t, id := range tokens(i) {
			g.IDs[g.Blocks[t+1]-n+r] = id
		}
	}
}

// pack checks b and lays it out; p's slices are reused.
func (p *Packed) pack(b *model.Batch, vocab int) error {
	if err := b.Check(vocab); err != nil {
		return err
	}
	p.tokens, p.width = 0, 0
	for _, r := range b.Rows {
		p.tokens += len(r.Tokens)
		p.width = max(p.width, len(r.Tokens))
	}
	p.Prompt.Pack(len(b.Prompts), func(i int) []int { return b.Prompts[i] })
	p.Completion.Pack(len(b.Rows), func(i int) []int { return b.Rows[i].Tokens[:len(b.Rows[i].Tokens)-1] })

	p.Start = zeroed(p.Start, len(b.Rows))
	for r, i := range p.Completion.order {
		p.Start[r] = p.Prompt.LastState(p.Prompt.Rank[b.Rows[i].Prompt])
	}
	p.Targets = zeroed(p.Targets, p.tokens)
	for r, i := range p.Completion.order {
		for t, id := range b.Rows[i].Tokens {
			p.Targets[p.Completion.Blocks[t]+r] = id
		}
	}
	p.packKept(b)
	return nil
}

// packKept lays out the restrictions of b's completions.
func (p *Packed) packKept(b *model.Batch) {
	p.Kept = nil
	for r, i := range p.Completion.order {
		for t, kept := range b.Rows[i].Kept {
			if p.Kept == nil {
				p.Kept = make([]*model.Kept, p.tokens)
			}
			p.Kept[p.Completion.Blocks[t]+r] = kept
		}
	}
}

// each calls f for every token of a completion: with its index in the (B,T) matrix
// of the batch's order, and in the packed layout.
func (p *Packed) each(f func(i, packed int)) {
	for r, row := range p.Completion.order {
		for t, block := range p.Completion.Blocks[:p.Completion.Lengths[r]+1] {
			f(row*p.width+t, block+r)
		}
	}
}

// toRows returns x, packed, as (B,T) in the batch's order, in the memory of into.
func (p *Packed) toRows(into []float64, x []float32) []float64 {
	into = zeroed(into, len(p.Completion.order)*p.width)
	p.each(func(i, packed int) { into[i] = float64(x[packed]) })
	return into
}

// fromRows writes m, (B,T), into x, packed.
func (p *Packed) fromRows(x []float32, m []float64) {
	p.each(func(i, packed int) { x[packed] = float32(m[i]) })
}

// mask returns the batch's mask, (B,T), in the memory of into.
func (p *Packed) mask(into []bool) []bool {
	into = zeroed(into, len(p.Completion.order)*p.width)
	p.each(func(i, _ int) { into[i] = true })
	return into
}

// readTokens unpacks the head's output, (2, states), into m.
func (p *Packed) readTokens(m *model.TokenMatrix, x []float32) {
	n := len(x) / 2
	m.B, m.T, m.Mask = len(p.Completion.order), p.width, p.mask(m.Mask)
	m.LogProbs, m.Entropy = p.toRows(m.LogProbs, x[:n]), p.toRows(m.Entropy, x[n:])
}

// readValues unpacks the value head's output, (1, states), into m.
func (p *Packed) readValues(m *model.ValueMatrix, x []float32) {
	m.B, m.T, m.Mask, m.Values = len(p.Completion.order), p.width, p.mask(m.Mask), p.toRows(m.Values, x)
}

// zeroed returns n zeros, in s's memory if it is large enough.
func zeroed[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	s = s[:n]
	clear(s)
	return s
}
