//go:build withcuda && linux

package gpu

import (
	"slices"

	"grpo/pkg/model/cuda"
)

// arena hands out memory of the device that is taken back in reverse order, and keeps it for the
// next pass. Work runs in the order of the stream, so memory may be handed out again before the
// kernels that use it have run.
type arena struct {
	g      *device
	blocks []*cuda.Mem
	sizes  []int // of each block, in floats
	used   []int
}

// Sizes of blocks, in floats: the first one, and the largest unless one request needs more. A block
// is as large as all before it, so that few are partly filled.
const smallBlock, largeBlock = 1 << 18, 1 << 28

// arenaAlign is a multiple, in floats, of what matmuls and 16-byte reads need.
const arenaAlign = 64

// floats returns memory for n floats of any value. If there is none the device fails.
func (a *arena) floats(n int) cuda.Pointer {
	size, total := (n+arenaAlign-1)/arenaAlign*arenaAlign, 0
	for i, b := range a.blocks {
		if at := a.used[i]; at+size <= a.sizes[i] {
			a.used[i] += size
			return b.At(at)
		}
		total += a.sizes[i]
	}
	room := max(size, min(largeBlock, max(smallBlock, total)))
	b, err := a.g.dev.Alloc(4*room, "activations")
	if err != nil && room > size { // a smaller one may still fit
		room = size
		b, err = a.g.dev.Alloc(4*room, "activations")
	}
	if err != nil {
		a.g.dev.Fail(err)
		return 0
	}
	a.blocks, a.sizes, a.used = append(a.blocks, b), append(a.sizes, room), append(a.used, size)
	return b.At(0)
}

// bf16 returns memory for n numbers of 2 bytes.
func (a *arena) bf16(n int) cuda.Pointer { return a.floats((n + 1) / 2) }

// zeros returns n zeros.
func (a *arena) zeros(n int) cuda.Pointer {
	p := a.floats(n)
	a.g.zero(p, n)
	return p
}

// reset takes everything back.
func (a *arena) reset() { clear(a.used) }

// mark is a state to go back to.
func (a *arena) mark() []int { return slices.Clone(a.used) }

// back takes back what was handed out since mark.
func (a *arena) back(mark []int) { clear(a.used[copy(a.used, mark):]) }

// upload copies numbers to the device.
func upload[T int32 | float32 | float64](a *arena, x []T) cuda.Pointer {
	words := len(x)
	if _, double := any(x).([]float64); double {
		words *= 2
	}
	p := a.floats(words)
	_ = cuda.UploadAt(a.g.dev, p, x)
	return p
}
