//go:build withcuda && linux

package gpu

import (
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/decoder"
)

// arena hands out memory of the device, and keeps it for the next pass. Work runs in the order of the
// stream, so memory may be handed out again before the kernels that use it have run.
type arena struct {
	decoder.Blocks
	g      *device
	blocks []*cuda.Mem
}

// Sizes of blocks, in floats: the first one, and the largest unless one request needs more.
const smallBlock, largeBlock = 1 << 18, 1 << 28

// arenaAlign is a multiple, in floats, of what matmuls and 16-byte reads need.
const arenaAlign = 64

// floats returns memory for n floats of any value. If there is none the device fails.
func (a *arena) floats(n int) cuda.Pointer {
	size := (n + arenaAlign - 1) / arenaAlign * arenaAlign
	if i, at, ok := a.Take(size); ok {
		return a.blocks[i].At(at)
	}
	room := a.Next(size, smallBlock, largeBlock)
	b, err := a.g.dev.Alloc(4*room, "activations")
	if err != nil && room > size { // a smaller one may still fit
		room = size
		b, err = a.g.dev.Alloc(4*room, "activations")
	}
	if err != nil {
		a.g.dev.Fail(err)
		return 0
	}
	a.blocks = append(a.blocks, b)
	a.Add(room, size)
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
