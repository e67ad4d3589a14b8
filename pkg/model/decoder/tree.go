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

// tree is a batch of segments laid out one after the other: token i of segment s is at
// start[s]+i of every (tokens, ...) slice.
type tree struct {
	segments  []Segment
	start     []int   // of each segment
	context   [][]int // the ancestors of each segment, from the root
	before    []int   // tokens in them
	tokens    []int32
	positions []int
	longest   int // tokens from a root to the end of a segment, at most
}

func newTree(segments []Segment) (*tree, error) {
	t := &tree{segments: segments}
	for i, s := range segments {
		if s.Parent >= i || s.Parent < -1 {
			return nil, fmt.Errorf("segment %d has the parent %d, which is not before it", i, s.Parent)
		}
		var context []int
		before := 0
		if s.Parent >= 0 {
			context = append(append(context, t.context[s.Parent]...), s.Parent)
			before = t.before[s.Parent] + len(segments[s.Parent].Tokens)
		}
		t.start = append(t.start, len(t.tokens))
		t.context, t.before = append(t.context, context), append(t.before, before)
		for k := range s.Tokens {
			t.positions = append(t.positions, before+k)
		}
		t.tokens = append(t.tokens, s.Tokens...)
		t.longest = max(t.longest, before+len(s.Tokens))
	}
	return t, nil
}

// visible are the segments whose keys segment s sees: its ancestors and itself.
func (t *tree) visible(s int) []int {
	return append(t.context[s][:len(t.context[s]):len(t.context[s])], s)
}
