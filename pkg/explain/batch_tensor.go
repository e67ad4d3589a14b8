package explain

import (
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"grpo/pkg/rl"
)

// maxDims bounds the nesting of a tensor.
const maxDims = 8

// tensor is a number or nested lists of numbers, in row-major order; x is nil if it is missing. Null in it is NaN,
// and a boolean is 0 or 1.
type tensor struct {
	shape []int // none for a number
	x     []float64
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (n *tensor) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	t, err := dec.ReadToken()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	*n = tensor{x: []float64{}}
	rank := -1
	return n.read(dec, t, 0, &rank)
}

// returned is a tensor that a function returned: null is a NaN, and not missing.
type returned struct{ tensor }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (r *returned) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		r.tensor = tensor{x: []float64{math.NaN()}}
		_, err := dec.ReadToken()
		return err
	}
	return r.tensor.UnmarshalJSONFrom(dec)
}

// open is a side whose length is not known yet.
const open = -1

// read reads the value that begins with t, at this depth; rank is the depth of the numbers once it is known.
func (n *tensor) read(dec *jsontext.Decoder, t jsontext.Token, depth int, rank *int) (err error) {
	switch {
	case t.Kind() != '[':
		if *rank < 0 && depth == len(n.shape) {
			*rank = depth
		}
		if depth != *rank {
			return refuse(dec, "%s; it must be a list of numbers", kinds[t.Kind()])
		}
		n.x, err = appendNumber(dec, t, n.x)
		return err
	case depth == *rank:
		return refuse(dec, "a list; it must be a number")
	case depth == maxDims:
		return refuse(dec, "more than %d lists in each other", maxDims)
	}
	if depth == len(n.shape) {
		n.shape = append(n.shape, open)
	}
	for side := 0; ; side++ {
		t, err := dec.ReadToken()
		switch {
		case err != nil:
			return err
		case t.Kind() != ']':
			if err := n.read(dec, t, depth+1, rank); err != nil {
				return err
			}
			continue
		case n.shape[depth] == open:
			n.shape[depth] = side
		case n.shape[depth] != side:
			return refuse(dec, "%d elements; the lists before it have %d (pad the shorter ones)", side, n.shape[depth])
		}
		return nil
	}
}

// present returns an error unless the tensor has numbers.
func (n tensor) present(at path) error {
	switch {
	case n.x == nil:
		return at.errorf("missing")
	case len(n.x) == 0:
		return at.errorf("no numbers: shape %s", shapeText(n.shape))
	}
	return nil
}

// matrix returns an error unless the tensor is a matrix over tokens, with a number where the mask is true.
func (n tensor) matrix(at path, mask []bool) (s rl.Shape, err error) {
	if err := n.present(at); err != nil {
		return s, err
	}
	if len(n.shape) != 2 {
		return s, at.errorf("shape %s; it must be (batch_size, sequence_length)", shapeText(n.shape))
	}
	s = rl.Shape{B: n.shape[0], T: n.shape[1]}
	if i := n.hole(mask); i >= 0 {
		return s, at.index(i / s.T).index(i % s.T).errorf("null; it must be a number")
	}
	return s, nil
}

// hole is the first null where the mask is true (nil: anywhere), or -1.
func (n tensor) hole(mask []bool) int {
	for i, x := range n.x {
		if math.IsNaN(x) && (mask == nil || mask[i]) {
			return i
		}
	}
	return -1
}

// perSequence returns the numbers of B sequences: shape (B) or (B, 1).
func (n tensor) perSequence(at path, b int) ([]float64, error) {
	if err := n.present(at); err != nil {
		return nil, err
	}
	if !sameShape(n.shape, []int{b}) {
		return nil, at.errorf("shape %s; it must be (%d, 1), a number for each sequence", shapeText(n.shape), b)
	}
	return n.finite(at)
}

// finite returns the numbers of a list; a null is an error.
func (n tensor) finite(at path) ([]float64, error) {
	if i := n.hole(nil); i >= 0 {
		return nil, at.index(i).errorf("null; it must be a number")
	}
	return n.x, nil
}

// bits converts a mask of this shape, whose numbers are 0 or 1.
func (n tensor) bits(at path, shape []int) ([]bool, error) {
	if err := n.present(at); err != nil {
		return nil, err
	}
	if !slices.Equal(n.shape, shape) {
		return nil, at.errorf("shape %s, but the tensor it masks is of shape %s", shapeText(n.shape), shapeText(shape))
	}
	mask := make([]bool, len(n.x))
	for i, v := range n.x {
		if v != 0 && v != 1 {
			return nil, at.errorf("%v at %s; a mask is 0 or 1", v, indexOf(i, len(n.x), shape))
		}
		mask[i] = v == 1
	}
	return mask, nil
}
