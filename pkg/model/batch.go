package model

import (
	"fmt"
	"slices"
)

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
	active []int // len = capacity, zeros behind the last step
	ids    []int // inputs, packed
	order  []int // order[rank] = index of the sequence in the batch
	rank   []int // the inverse
}

// rows returns the number of sequences, input rows and steps.
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

// length of the i-th sequence as the GRU sees it: all of a prompt, all but the
// last token of a completion (nothing is predicted from the last).
func (g *segment) pack(n int, length func(i int) int, token func(i, t int) int) {
	g.order = slices.Grow(g.order[:0], n)[:n]
	g.rank = slices.Grow(g.rank[:0], n)[:n]
	for i := range n {
		g.order[i] = i
	}
	slices.SortStableFunc(g.order, func(a, b int) int { return length(b) - length(a) })
	for r, i := range g.order {
		g.rank[i] = r
	}
	g.active = append(g.active[:0], n)
	g.ids = g.ids[:0]
	live := n
	for t := 0; ; t++ {
		for live > 0 && length(g.order[live-1]) <= t {
			live--
		}
		if live == 0 {
			return
		}
		g.active = append(g.active, live)
		for _, i := range g.order[:live] {
			g.ids = append(g.ids, token(i, t))
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
	p.prompt.pack(len(b.Prompts),
		func(i int) int { return len(b.Prompts[i]) },
		func(i, t int) int { return b.Prompts[i][t] })
	p.completion.pack(len(b.Rows),
		func(i int) int { return len(b.Rows[i].Tokens) - 1 },
		func(i, t int) int { return b.Rows[i].Tokens[t] })

	p.start = p.start[:0]
	for _, i := range p.completion.order {
		prompt := b.Rows[i].Prompt
		at, rank := 0, p.prompt.rank[prompt]
		for s := range len(b.Prompts[prompt]) {
			at += p.prompt.active[s]
		}
		p.start = append(p.start, at+rank)
	}
	p.targets = p.targets[:0]
	for t, live := range p.completion.active {
		for _, i := range p.completion.order[:live] {
			p.targets = append(p.targets, b.Rows[i].Tokens[t])
		}
	}
	return nil
}

// each calls f for every completion token with its place in the packed layout
// and its row and column in the caller's (B, T) matrix.
func (p *packed) each(f func(at, row, col int)) {
	at := 0
	for t, live := range p.completion.active {
		for _, i := range p.completion.order[:live] {
			f(at, i, t)
			at++
		}
	}
}
