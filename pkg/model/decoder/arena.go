package decoder

// arena hands out memory that is given back all at once, and keeps it for the next
// pass: fresh pages cost more than the arithmetic on them.
type arena struct {
	blocks      [][]float32
	block, used int
}

const blockSize = 1 << 22

// floats returns n numbers of any value.
func (a *arena) floats(n int) []float32 {
	for ; a.block < len(a.blocks); a.block, a.used = a.block+1, 0 {
		if b := a.blocks[a.block]; a.used+n <= len(b) {
			a.used += n
			return b[a.used-n : a.used : a.used]
		}
	}
	a.blocks, a.used = append(a.blocks, make([]float32, max(n, blockSize))), n
	return a.blocks[a.block][:n:n]
}

// zeros returns n zeros.
func (a *arena) zeros(n int) []float32 {
	x := a.floats(n)
	clear(x)
	return x
}

// copyOf returns a copy of x.
func (a *arena) copyOf(x []float32) []float32 {
	y := a.floats(len(x))
	copy(y, x)
	return y
}

// reset takes everything back.
func (a *arena) reset() { a.block, a.used = 0, 0 }

// back takes back what was handed out since a was copied to mark.
func (a *arena) back(mark arena) { a.block, a.used = mark.block, mark.used }
