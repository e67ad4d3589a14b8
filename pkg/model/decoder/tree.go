package decoder

import "fmt"

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
