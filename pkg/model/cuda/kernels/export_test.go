//go:build withcuda && linux

package kernels

import (
	"testing"

	"grpo/internal/cudaemu"
)

// What the tests of package kernels_test need: that package imports pkg/model,
// which imports this one.

type Bench struct{ bench }

func NewBench(t *testing.T, mod Module) Bench       { t.Helper(); return Bench{newBench(t, mod)} }
func (b Bench) Card() Card                          { return card(b.Machine) }
func (b Bench) Start(l Launch, args ...any)         { b.Helper(); b.start(l, args...) }
func (b Bench) Floats(x []float32) cudaemu.Ptr      { b.Helper(); return b.floats(x) }
func (b Bench) Ints(x []int32) cudaemu.Ptr          { b.Helper(); return b.ints(x) }
func (b Bench) Read(p cudaemu.Ptr, n int) []float32 { b.Helper(); return b.read(p, n) }
func (b Bench) ReadInts(p cudaemu.Ptr, n int) []int32 {
	b.Helper()
	return b.readInts(p, n)
}
func (b Bench) EveryOrder(f func() [][]float32) [][]float32 { b.Helper(); return b.everyOrder(f) }

// WithTile is a launch of the plan's kernel with this number of rows at a time.
func (p RolloutPlan) WithTile(rows, atATime, tile int) Launch {
	l := p.Launch(rows)
	l.Kernel, l.Tile, l.Tiles, l.Shared = p.kernel(atATime), tile, ceil(rows, tile), p.shared(tile)
	l.Grid[0] = l.Tiles
	return l
}
