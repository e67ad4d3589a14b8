package model

import "fmt"

// Row is one completion and the prompt that it continues.
type Row struct {
	Prompt int   // index into Batch.Prompts
	Tokens []int // the completion, with its closing <eos> where it has one; not empty
}

// Batch is what one pass of the graph reads: distinct prompts, and completions
// that share them. A group's prompt stands here once.
type Batch struct {
	Prompts [][]int // token ids, each at least one
	Rows    []Row
}

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
func (p *packed) pack(b *Batch, vocab int) error {
	if len(b.Rows) == 0 || len(b.Prompts) == 0 {
		return fmt.Errorf("pack batch: %d prompts, %d completions: there must be some of both", len(b.Prompts), len(b.Rows))
	}
	check := func(what string, i int, tokens []int) error {
		if len(tokens) == 0 {
			return fmt.Errorf("pack batch: %s %d has no tokens", what, i)
		}
		for t, id := range tokens {
			if id < 0 || id >= vocab {
				return fmt.Errorf("pack batch: %s %d: token %d is %d, outside the vocabulary of %d", what, i, t, id, vocab)
			}
		}
		return nil
	}
	for i, ids := range b.Prompts {
		if err := check("prompt", i, ids); err != nil {
			return err
		}
	}
	p.tokens, p.width = 0, 0
	for i, r := range b.Rows {
		if err := check("completion", i, r.Tokens); err != nil {
			return err
		}
		if r.Prompt < 0 || r.Prompt >= len(b.Prompts) {
			return fmt.Errorf("pack batch: completion %d continues prompt %d of %d", i, r.Prompt, len(b.Prompts))
		}
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
