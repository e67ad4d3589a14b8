package tinylm

import "grpo/pkg/model"

// segment is a set of sequences in the packed, time-major layout that the GRU
// works on. Sequences are sorted by length, longest first, so that at each
// time the active ones are a prefix and padding does not exist.
//
// active[0] is the number of sequences, active[s] (s >= 1) the number that
// take an s-th step. Block s of the states starts at row Σ active[:s]; block 0
// holds the initial states. Inputs have no block 0: the input of step s starts
// at row Σ active[1:s].
type segment struct {
	active  []int // len = capacity, zeros behind the last step
	ids     []int // inputs, packed
	order   []int // order[rank] = index of the sequence in the batch
	rank    []int // the inverse
	lengths []int // by rank
	blocks  []int // row of the states at which each step's block begins
}

// sizes returns the number of sequences, input rows and steps.
func sizes(active []int) (n0, inputs, steps int) {
	n0 = active[0]
	for s := 1; s < len(active) && active[s] > 0; s++ {
		inputs += active[s]
		steps = s
	}
	return
}

// packed is a batch laid out for the graph.
type packed struct {
	prompt, completion segment
	start              []int // for each completion by rank: the row of its prompt's last state
	targets            []int // for each state of the completion segment: the token to predict
	tokens             int   // Σ len(Tokens): rows of the head
	width              int   // longest completion
}

// pack lays n sequences out: tokens(i) is the i-th one as the GRU reads it, all of
// a prompt, all but the last token of a completion (nothing is predicted from the
// last). Sequences of equal length keep their order.
func (g *segment) pack(n int, tokens func(i int) []int) {
	longest := 0
	for i := range n {
		longest = max(longest, len(tokens(i)))
	}
	// active[s], s >= 1, counts the sequences of s tokens or more.
	g.active = zeroed(g.active, longest+1)
	for i := range n {
		g.active[len(tokens(i))]++
	}
	for s := longest; s > 0; s-- {
		g.active[s-1] += g.active[s]
	}
	g.order, g.rank, g.lengths = zeroed(g.order, n), zeroed(g.rank, n), zeroed(g.lengths, n)
	next := zeroed(g.blocks, longest+1) // the next rank of each length: behind the longer ones
	copy(next, g.active[1:])
	for i := range n {
		length := len(tokens(i))
		r := next[length]
		next[length]++
		g.order[r], g.rank[i], g.lengths[r] = i, r, length
	}
	g.blocks = next
	at := 0
	for s, live := range g.active {
		g.blocks[s] = at
		at += live
	}
	g.ids = zeroed(g.ids, at-n)
	for r, i := range g.order {
		for t, id := range tokens(i) {
			g.ids[g.blocks[t+1]-n+r] = id
		}
	}
}

// pack checks b and lays it out; p's slices are reused.
func (p *packed) pack(b *model.Batch, vocab int) error {
	if err := b.Check(vocab); err != nil {
		return err
	}
	p.tokens, p.width = 0, 0
	for _, r := range b.Rows {
		p.tokens += len(r.Tokens)
		p.width = max(p.width, len(r.Tokens))
	}
	p.prompt.pack(len(b.Prompts), func(i int) []int { return b.Prompts[i] })
	p.completion.pack(len(b.Rows), func(i int) []int { return b.Rows[i].Tokens[:len(b.Rows[i].Tokens)-1] })

	p.start = zeroed(p.start, len(b.Rows))
	for r, i := range p.completion.order {
		rank := p.prompt.rank[b.Rows[i].Prompt]
		p.start[r] = p.prompt.blocks[p.prompt.lengths[rank]] + rank
	}
	p.targets = zeroed(p.targets, p.tokens)
	for r, i := range p.completion.order {
		for t, id := range b.Rows[i].Tokens {
			p.targets[p.completion.blocks[t]+r] = id
		}
	}
	return nil
}

// each calls f for every completion: with its row in the caller's (B, T) matrix,
// and the places of its tokens in the packed layout, which are places[t] + rank.
func (p *packed) each(f func(row, rank int, places []int)) {
	for r, i := range p.completion.order {
		f(i, r, p.completion.blocks[:p.completion.lengths[r]+1])
	}
}

// readTokens unpacks the head's output, (2, states) in the packed layout, into
// the batch's order.
func (p *packed) readTokens(m *model.TokenMatrix, x []float32) {
	m.B, m.T = len(p.completion.order), p.width
	n := m.B * m.T
	m.LogProbs, m.Entropy, m.Mask = zeroed(m.LogProbs, n), zeroed(m.Entropy, n), zeroed(m.Mask, n)
	capRows := len(x) / 2
	p.each(func(row, rank int, places []int) {
		i := row * m.T
		for _, at := range places {
			m.LogProbs[i], m.Entropy[i], m.Mask[i] = float64(x[at+rank]), float64(x[capRows+at+rank]), true
			i++
		}
	})
}

// readValues unpacks the value head's output, (1, states) in the packed layout,
// into the batch's order.
func (p *packed) readValues(m *model.ValueMatrix, x []float32) {
	m.B, m.T = len(p.completion.order), p.width
	n := m.B * m.T
	m.Values, m.Mask = zeroed(m.Values, n), zeroed(m.Mask, n)
	p.each(func(row, rank int, places []int) {
		for t, at := range places {
			m.Values[row*m.T+t], m.Mask[row*m.T+t] = float64(x[at+rank]), true
		}
	})
}

// zeroed returns n zeros, in s's memory where it is large enough.
func zeroed[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	s = s[:n]
	clear(s)
	return s
}
