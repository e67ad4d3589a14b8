package decoder

import (
	"runtime/debug"
	"slices"

	"grpo/internal/hugepages"
)

// Blocks keeps account of memory that is handed out in blocks and given back in reverse order. The
// blocks themselves are the caller's: memory of the CPU or of another device.
type Blocks struct{ sizes, used []int }

// Take takes n elements of the first block that has room, and returns the block and the place there.
// It is false if none has.
func (b *Blocks) Take(n int) (block, at int, ok bool) {
	for i, size := range b.sizes {
		if at := b.used[i]; at+n <= size {
			b.used[i] += n
			return i, at, true
		}
	}
	return 0, 0, false
}

// Next is the size of a block of at least n elements: as large as all before it, so that few are
// partly filled, from least to most unless n is more.
func (b *Blocks) Next(n, least, most int) int {
	return max(n, min(most, max(least, sum(b.sizes))))
}

// Add adds a block of a size, the last one, of which n elements are taken.
func (b *Blocks) Add(size, n int) { b.sizes, b.used = append(b.sizes, size), append(b.used, n) }

// Reset takes everything back.
func (b *Blocks) Reset() { clear(b.used) }

// Mark is a state to go back to.
func (b *Blocks) Mark() []int { return slices.Clone(b.used) }

// Back takes back what was handed out since a mark.
func (b *Blocks) Back(mark []int) { clear(b.used[copy(b.used, mark):]) }

func sum(sizes []int) (all int) {
	for _, n := range sizes {
		all += n
	}
	return all
}

// arena hands out memory of the CPU, and keeps it for the next pass: fresh pages cost more
// than the arithmetic on them.
type arena struct {
	Blocks
	blocks [][]float32
	most   int // numbers handed out at a time, in all passes
}

// Reset takes everything back. Several blocks become one with room for the largest pass: passes of many sizes
// would leave holes in each, and add blocks.
func (a *arena) Reset() {
	if len(a.blocks) > 1 {
		room := a.most + a.most/16
		*a = arena{most: a.most}
		if room > largeBlock {
			debug.FreeOSMemory() // before there is as much again
		}
		a.blocks = append(a.blocks, hugepages.Floats(room))
		a.Add(room, 0)
	}
	a.Blocks.Reset()
}

// Sizes of blocks, in numbers: the first one, and the largest unless one request needs
// more.
const smallBlock, largeBlock = 1 << 18, 1 << 24

// lanes aligns what is handed out to the widest vectors.
const lanes = 16

// floats returns n numbers of any value.
func (a *arena) floats(n int) []float32 {
	size := (n + lanes - 1) / lanes * lanes
	i, at, ok := a.Take(size)
	if !ok {
		room := a.Next(size, smallBlock, largeBlock)
		a.blocks, i = append(a.blocks, hugepages.Floats(room)), len(a.blocks)
		a.Add(room, size)
	}
	a.most = max(a.most, sum(a.used))
	return a.blocks[i][at : at+n : at+n]
}

func (a *arena) zeros(n int) []float32 {
	x := a.floats(n)
	clear(x)
	return x
}
