package decoder

import "slices"

// arena hands out memory that is given back in reverse order, and keeps it for the next
// pass: fresh pages cost more than the arithmetic on them.
type arena struct {
	blocks [][]float32
	used   []int // of each block
}

// Sizes of blocks, in numbers: the first one, and the largest unless one request needs
// more. A block is as large as all before it, so that few are partly filled.
const smallBlock, largeBlock = 1 << 18, 1 << 24

// lanes aligns what is handed out to the widest vectors.
const lanes = 16

// floats returns n numbers of any value.
func (a *arena) floats(n int) []float32 {
	size, total := (n+lanes-1)/lanes*lanes, 0
	for i, b := range a.blocks {
		if at := a.used[i]; at+size <= len(b) {
			a.used[i] += size
			return b[at : at+n : at+n]
		}
		total += len(b)
	}
	a.blocks = append(a.blocks, make([]float32, max(size, min(largeBlock, max(smallBlock, total)))))
	a.used = append(a.used, size)
	return a.blocks[len(a.blocks)-1][:n:n]
}

// zeros returns n zeros.
func (a *arena) zeros(n int) []float32 {
	x := a.floats(n)
	clear(x)
	return x
}

// reset takes everything back.
func (a *arena) reset() { clear(a.used) }

// mark is a state to go back to.
func (a *arena) mark() []int { return slices.Clone(a.used) }

// back takes back what was handed out since mark.
func (a *arena) back(mark []int) { clear(a.used[copy(a.used, mark):]) }
