//go:build withcuda && linux

package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"grpo/internal/cudaemu"
)

// The tests run on the emulator (skipped without g++), and with GRPO_TEST_GPU=1 on this machine's
// card.

// card describes the machine for launches.
func card(m *cudaemu.Machine) Card { return Card{SM: m.SM, SMs: m.SMs, Shared: m.Shared} }

// bench is a machine with a module loaded.
type bench struct {
	*cudaemu.Machine
	module *cudaemu.Module
}

func newBench(t *testing.T, mod Module) bench {
	t.Helper()
	m := cudaemu.Open(t)
	return bench{m, m.Compile(mod.Name+".cu", mod.Source)}
}

func (b bench) start(l Launch, args ...any) {
	b.Helper()
	if l.Empty() {
		b.Fatalf("%s: an empty grid %v", l.Kernel, l.Grid)
	}
	b.module.Launch(l.Kernel, l.Grid, l.Block, l.Shared, args...)
}

func (b bench) floats(x []float32) cudaemu.Ptr  { b.Helper(); return cudaemu.Upload(b.Machine, x) }
func (b bench) ints(x []int32) cudaemu.Ptr      { b.Helper(); return cudaemu.Upload(b.Machine, x) }
func (b bench) doubles(x []float64) cudaemu.Ptr { b.Helper(); return cudaemu.Upload(b.Machine, x) }
func (b bench) read(p cudaemu.Ptr, n int) []float32 {
	b.Helper()
	return cudaemu.Download[float32](b.Machine, p, n)
}
func (b bench) readInts(p cudaemu.Ptr, n int) []int32 {
	b.Helper()
	return cudaemu.Download[int32](b.Machine, p, n)
}
func (b bench) readF64(p cudaemu.Ptr, n int) []float64 {
	b.Helper()
	return cudaemu.Download[float64](b.Machine, p, n)
}

// everyOrder runs f with the threads of a block in several orders, requires the same bits of all,
// and returns them. On a real card it runs f as many times. The card's memory is freed after each
// run.
func (b bench) everyOrder(f func() [][]float32) [][]float32 {
	b.Helper()
	var first [][]float32
	for _, order := range []string{"forward", "backward", "shuffle:1"} {
		b.Set("CUDAEMU_ORDER", order)
		got := f()
		b.Reset()
		if first == nil {
			first = got
			continue
		}
		for k := range got {
			for i := range got[k] {
				if math.Float32bits(got[k][i]) != math.Float32bits(first[k][i]) {
					b.Fatalf("order %s: output %d, element %d is %v, in the first order %v", order, k, i, got[k][i], first[k][i])
				}
			}
		}
	}
	b.Set("CUDAEMU_ORDER", "forward")
	return first
}

// near fails if got and want differ by more than atol + rtol·|want|. NaN is near NaN: memory that
// must not be written stays NaN.
func near(t testing.TB, what string, got []float32, want []float64, rtol, atol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(w) && math.IsNaN(g) {
			continue
		}
		if !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

func normal(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

func randomInts(r *rand.Rand, n, below int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.IntN(below))
	}
	return x
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func to64(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func toInts(x []int32) []int {
	y := make([]int, len(x))
	for i, v := range x {
		y[i] = int(v)
	}
	return y
}

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

// packedLengths lays sequences of the given numbers of steps out.
type packedLengths struct {
	active, offset []int32
	steps          int
	n0, inputs     int
}

func pack(lengths ...int) packedLengths {
	slices.Sort(lengths)
	slices.Reverse(lengths)
	p := packedLengths{n0: len(lengths), active: []int32{int32(len(lengths))}, offset: []int32{0}}
	at := len(lengths)
	for s := 1; s <= lengths[0]; s++ {
		n := 0
		for _, l := range lengths {
			if l >= s {
				n++
			}
		}
		p.active, p.offset = append(p.active, int32(n)), append(p.offset, int32(at))
		at += n
		p.inputs += n
		p.steps = s
	}
	return p
}

// randomLengths are n lengths from 0 to most.
func randomLengths(r *rand.Rand, n, most int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = r.IntN(most + 1)
	}
	return x
}
