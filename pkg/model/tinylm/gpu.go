//go:build withcuda && linux

package tinylm

import (
	"fmt"
	"math"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// BuiltWithCUDA says whether [OpenGPU] can open a GPU.
const BuiltWithCUDA = true

// gpu computes on an NVIDIA GPU. Weights, moments, activations and gradients
// stay in its memory; token ids and lengths go up; log-probabilities, entropies,
// sampled tokens and norms come down.
type gpu struct {
	dev    *cuda.Device
	card   kernels.Card
	engine *cuda.Engine
	base   map[string]*cuda.Kernel // those of every network
	stored map[*gpuStorage]bool

	// parts is room for the first half of a sum in two halves, total for its end.
	parts *cuda.Mem
	total *cuda.Mem
	sum   []float64 // page-locked, 1
}

// compileOptions are NVRTC's.
var compileOptions = []string{"--std=c++17"}

// OpenGPU opens the first GPU (of those that CUDA_VISIBLE_DEVICES leaves) and
// compiles the kernels for it, or finds them where an earlier process left them.
// Precision is that of matrix products: float32, tf32 or bf16. The errors are
// those of [cuda.Open] and of the compiler.
func OpenGPU(precision string) (GPU, error) {
	dev, err := cuda.Open(cuda.Options{Precision: cuda.Precision(precision)})
	if err != nil {
		return nil, err
	}
	g := &gpu{dev: dev, stored: map[*gpuStorage]bool{}, card: kernels.Card{SM: dev.Capability(), SMs: dev.Processors(), Shared: dev.SharedLimit()}}
	g.engine = cuda.NewEngine(dev, g.add)
	if err := dev.Do(g.prepare); err != nil {
		_ = dev.Close()
		return nil, err
	}
	return g, nil
}

func (g *gpu) prepare() (err error) {
	if g.base, err = g.load(kernels.Base()); err != nil {
		return err
	}
	if g.total, err = g.dev.Alloc(8, "a sum"); err != nil {
		return err
	}
	g.sum, err = cuda.Pinned[float64](g.dev, 1)
	return err
}

func (g *gpu) load(m kernels.Module) (map[string]*cuda.Kernel, error) {
	return g.dev.Load(m.Name, m.Source, compileOptions, m.Kernels)
}

func (g *gpu) Name() string      { return g.dev.Name() }
func (g *gpu) String() string    { return g.dev.String() }
func (g *gpu) Precision() string { return string(g.dev.Precision()) }

func (g *gpu) Memory() GPUMemory {
	m := g.dev.Memory()
	out := GPUMemory{InUse: m.InUse, Requests: m.Requests}
	_ = g.dev.Do(func() error { // a device that failed has nothing free to speak of
		out.Free, _ = g.dev.MemoryInfo()
		return nil
	})
	return out
}

// Close gives the GPU back. Weights that live there stay in Flat as they were
// pulled last.
func (g *gpu) Close() {
	for h := range g.stored {
		h.p.Store(nil)
	}
	clear(g.stored)
	_ = g.dev.Close() // what failed has been returned by the call that failed
}

// launch runs a kernel of every network, or of a module.
func (g *gpu) launch(l kernels.Launch, args ...cuda.Arg) error {
	return g.launchOf(g.base, l, args...)
}

func (g *gpu) launchOf(module map[string]*cuda.Kernel, l kernels.Launch, args ...cuda.Arg) error {
	if l.Empty() {
		return nil
	}
	k := module[l.Kernel]
	if k == nil {
		return fmt.Errorf("launch %s: no such kernel has been loaded", l.Kernel)
	}
	return k.Launch(grid(l), args...)
}

func grid(l kernels.Launch) cuda.Grid {
	return cuda.Grid{X: l.Grid[0], Y: l.Grid[1], Z: l.Grid[2], ThreadsX: l.Block[0], ThreadsY: l.Block[1], Shared: l.Shared}
}

// room returns space for so many floats that holds until the next call.
func (g *gpu) room(floats int) (cuda.Pointer, error) {
	if g.parts == nil || int(g.parts.MemSize()) < 4*floats {
		g.dev.Free(g.parts)
		var err error
		if g.parts, err = g.dev.Alloc(4*floats, "the parts of sums"); err != nil {
			g.parts = nil
			return 0, err
		}
	}
	return g.parts.At(0), nil
}

func (g *gpu) add(n int, a, b, out cuda.Pointer) error {
	return g.launch(g.card.Elementwise(kernels.Add, n), cuda.L(n), cuda.P(a), cuda.P(b), cuda.P(out))
}

func (g *gpu) axpy(n int, x, y cuda.Pointer) error {
	return g.launch(g.card.Elementwise(kernels.Axpy, n), cuda.L(n), cuda.F(1), cuda.P(x), cuda.P(y))
}

// colSum writes Σ weight[i]·x[i] over the rows of x; weight 0 counts as 1.
func (g *gpu) colSum(rows, width int, x cuda.Pointer, ldx int, weight, out cuda.Pointer) error {
	parts, sum := g.card.ColSum(rows, width)
	room, err := g.room(parts.Tiles * width)
	if err != nil {
		return err
	}
	if err := g.launch(parts, cuda.I(rows), cuda.I(width), cuda.P(x), cuda.I(ldx), cuda.P(weight), cuda.I(parts.Tile), cuda.P(room)); err != nil {
		return err
	}
	return g.launch(sum, cuda.I(parts.Tiles), cuda.I(width), cuda.P(room), cuda.P(out), cuda.I(0))
}

// sumSquares leaves Σ x² in g.total.
func (g *gpu) sumSquares(n int, x cuda.Pointer) error {
	parts, total := g.card.SumSquares(n)
	room, err := g.room(2 * parts.Tiles)
	if err != nil {
		return err
	}
	if err := g.launch(parts, cuda.L(n), cuda.P(x), cuda.P(room)); err != nil {
		return err
	}
	return g.launch(total, cuda.I(parts.Tiles), cuda.P(room), cuda.P(g.total.At(0)))
}

// norm waits for √g.total.
func (g *gpu) norm() (float64, error) {
	if err := cuda.Download(g.dev, g.sum, g.total, 0); err != nil {
		return 0, err
	}
	return math.Sqrt(g.sum[0]), nil
}
