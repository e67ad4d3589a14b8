package decoder

import (
	"fmt"

	"grpo/pkg/model"
)

// Segment is a run of tokens that follows its parent's. Several segments may share a
// parent: they are computed as if each were alone behind it.
type Segment struct {
	Parent int // index of a segment before this one; -1 for a root
	Tokens []int32
	// Sampled marks a completion. Its attention is summed in two parts, what comes
	// before it and itself, as the sampler does it, so that both have the same bits.
	// That of other segments does not depend on where a sequence is cut.
	Sampled bool
}

// Tree is a batch of segments laid out one after the other: token i of segment s is at
// Start[s]+i of every (tokens, ...) slice.
type Tree struct {
	Segments  []Segment
	Start     []int   // of each segment
	Context   [][]int // the ancestors of each segment, from the root
	Before    []int   // tokens in them
	Tokens    []int32
	Positions []int
	longest   int // tokens from a root to the end of a segment, at most
}

// NewTree lays segments out. A segment whose parent is not before it is an error.
func NewTree(segments []Segment) (*Tree, error) {
	t := &Tree{Segments: segments}
	for i, s := range segments {
		if s.Parent >= i || s.Parent < -1 {
			return nil, fmt.Errorf("segment %d has the parent %d, which is not before it", i, s.Parent)
		}
		var context []int
		before := 0
		if s.Parent >= 0 {
			context = append(append(context, t.Context[s.Parent]...), s.Parent)
			before = t.Before[s.Parent] + len(segments[s.Parent].Tokens)
		}
		t.Start = append(t.Start, len(t.Tokens))
		t.Context, t.Before = append(t.Context, context), append(t.Before, before)
		for k := range s.Tokens {
			t.Positions = append(t.Positions, before+k)
		}
		t.Tokens = append(t.Tokens, s.Tokens...)
		t.longest = max(t.longest, before+len(s.Tokens))
	}
	return t, nil
}

// visible are the segments whose keys segment s sees: its ancestors and itself.
func (t *Tree) visible(s int) []int {
	return append(t.Context[s][:len(t.Context[s]):len(t.Context[s])], s)
}

// packed is a [model.Batch] as a tree, with the places of its predictions.
type packed struct {
	tree *Tree
	b, t int // completions, and the most tokens of one
	// Of each prediction, completion by completion: the place in the tree of the state
	// before the token, the token, and its element of a (b, t) matrix.
	places, targets, elements []int
	kept                      []*model.Kept // of each prediction: see [model.Row]; nil: none is restricted
}

// pack lays out a batch: what all prompts begin with, the rest of each, the completions.
// The last token of a completion is predicted and not read.
func pack(batch *model.Batch, vocab int) (*packed, error) {
	if err := batch.Check(vocab); err != nil {
		return nil, err
	}
	segments, leaf := PromptTree(batch.Prompts)
	p := &packed{b: len(batch.Rows)}
	for _, r := range batch.Rows {
		segments = append(segments, Segment{Parent: leaf[r.Prompt], Tokens: narrow(r.Tokens[:len(r.Tokens)-1]),
			Sampled: true})
		p.t = max(p.t, len(r.Tokens))
	}
	var err error
	if p.tree, err = NewTree(segments); err != nil {
		return nil, err
	}
	first := len(segments) - len(batch.Rows)
	for i, r := range batch.Rows {
		prompt := leaf[r.Prompt]
		at := p.tree.Start[prompt] + len(segments[prompt].Tokens) - 1
		for j, id := range r.Tokens {
			p.places, p.targets, p.elements = append(p.places, at), append(p.targets, id), append(p.elements, i*p.t+j)
			at = p.tree.Start[first+i] + j
		}
		if r.Kept != nil && p.kept == nil {
			p.kept = make([]*model.Kept, len(p.places)-len(r.Tokens), cap(p.places))
		}
		switch {
		case r.Kept != nil:
			p.kept = append(p.kept, r.Kept...)
		case p.kept != nil:
			p.kept = append(p.kept, make([]*model.Kept, len(r.Tokens))...)
		}
	}
	return p, nil
}

// mask marks the elements that have a token.
func (p *packed) mask() []bool {
	mask := make([]bool, p.b*p.t)
	for _, e := range p.elements {
		mask[e] = true
	}
	return mask
}

// spread writes numbers of the predictions to their elements of a (b, t) matrix.
func (p *packed) spread(x []float32) []float64 {
	out := make([]float64, p.b*p.t)
	for i, e := range p.elements {
		out[e] = float64(x[i])
	}
	return out
}

// collect is the reverse of spread: it writes to out.
func (p *packed) collect(x []float64, out []float32) {
	for i, e := range p.elements {
		out[i] = float32(x[e])
	}
}

// matrix holds the predictions' log-probabilities and entropies, (2, predictions).
func (p *packed) matrix(x []float32) *model.TokenMatrix {
	n := len(p.elements)
	return &model.TokenMatrix{B: p.b, T: p.t, LogProbs: p.spread(x[:n]), Entropy: p.spread(x[n:]), Mask: p.mask()}
}

// values holds the predictions' values.
func (p *packed) values(x []float32) *model.ValueMatrix {
	return &model.ValueMatrix{B: p.b, T: p.t, Values: p.spread(x), Mask: p.mask()}
}
