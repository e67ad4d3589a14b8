package rl

import "fmt"

// Shape is the shape of a matrix over tokens: B sequences of T tokens, held in a
// flat slice in row-major order (token t of sequence b at b*T + t).
type Shape struct{ B, T int }

// Len returns B*T.
func (s Shape) Len() int { return s.B * s.T }

// String returns the shape as (B, T).
func (s Shape) String() string { return fmt.Sprintf("(%d, %d)", s.B, s.T) }

func (s Shape) check() error {
	if s.B < 1 || s.T < 1 {
		return fmt.Errorf("shape %v: both sides must be at least 1", s)
	}
	return nil
}

// want checks that a slice over tokens has the length that the shape asks for.
func (s Shape) want(name string, n int) error {
	if n != s.Len() {
		return fmt.Errorf("%s has %d values, shape %v needs %d", name, n, s, s.Len())
	}
	return nil
}

// Totals counts an optimizer batch: what the weights of an [Aggregation] divide
// by. Micro-batches of one update share the totals of the whole.
type Totals struct {
	Sequences int // all of them, also those without a token
	NonEmpty  int // those with at least one token
	Tokens    int // tokens where the mask is true
	// Kept counts the tokens that a policy mask keeps; without one it equals
	// Tokens. Only the entropy bonus divides by it.
	Kept int
}

// Count returns the totals of a mask of the given shape; policyMask is
// [Batch].PolicyMask, or nil. It panics if a mask is shorter than the shape.
func Count(s Shape, mask, policyMask []bool) Totals {
	t := Totals{Sequences: s.B}
	for b := range s.B {
		if n := countTrue(mask[b*s.T : (b+1)*s.T]); n > 0 {
			t.NonEmpty++
			t.Tokens += n
		}
	}
	t.Kept = t.Tokens
	for i, in := range mask[:s.Len()] {
		if in && policyMask != nil && !policyMask[i] {
			t.Kept--
		}
	}
	return t
}

// Add returns the totals of two batches together.
func (t Totals) Add(o Totals) Totals {
	return Totals{t.Sequences + o.Sequences, t.NonEmpty + o.NonEmpty, t.Tokens + o.Tokens, t.Kept + o.Kept}
}

// Times returns the totals of k batches of this size.
func (t Totals) Times(k int) Totals {
	return Totals{k * t.Sequences, k * t.NonEmpty, k * t.Tokens, k * t.Kept}
}

// covers says whether a batch with totals o can be a part of t.
func (t Totals) covers(o Totals) bool {
	return t.Sequences >= o.Sequences && t.NonEmpty >= o.NonEmpty && t.Tokens >= o.Tokens && t.Kept >= o.Kept
}

func countTrue(mask []bool) int {
	n := 0
	for _, m := range mask {
		if m {
			n++
		}
	}
	return n
}
