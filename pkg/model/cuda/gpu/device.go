//go:build withcuda && linux

package gpu

import (
	"math"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/tinylm"
)

// Built reports whether the program was built with CUDA, so that [Open] can open a GPU.
const Built = true

// device implements [Device] and [tinylm.Backend]. Weights, moments, activations
// and gradients stay in the GPU's memory. Token ids and lengths are uploaded;
// log-probabilities, entropies, sampled tokens and norms are downloaded.
type device struct {
	dev    *cuda.Device
	card   kernels.Card
	engine *cuda.Engine
	base   map[string]*cuda.Kernel // kernels.Base
	stored map[*storage]bool       // those in use

	decoders decoders

	// parts has the partial sums of a reduction, total its result.
	parts *cuda.Mem
	total *cuda.Mem
	sum   []float64 // page-locked, 1
}

// compileOptions are NVRTC's.
var compileOptions = []string{"--std=c++17"}

var _ tinylm.Backend = (*device)(nil)

// Open opens the first GPU (of those visible, CUDA_VISIBLE_DEVICES) and compiles the kernels for
// it, or reads them from the cache on disk. Precision is that of matmuls: float32, tf32 or bf16.
// The errors are those of [cuda.Open] and of the compiler.
func Open(precision string) (Device, error) {
	dev, err := cuda.Open(cuda.Options{Precision: cuda.Precision(precision)})
	if err != nil {
		return nil, err
	}
	g := &device{dev: dev, stored: map[*storage]bool{},
		card: kernels.Card{SM: dev.Capability(), SMs: dev.Processors(), Shared: dev.SharedLimit()}}
	g.engine = cuda.NewEngine(dev, g.add)
	if err := dev.Do(g.prepare); err != nil {
		_ = dev.Close()
		return nil, err
	}
	return g, nil
}

func (g *device) prepare() (err error) {
	if g.base, err = g.load(kernels.Base()); err != nil {
		return err
	}
	g.total, g.sum = g.alloc(2, "a sum"), pinned[float64](g, 1)
	return nil
}

func (g *device) load(m kernels.Module) (map[string]*cuda.Kernel, error) {
	return g.dev.Load(m.Name, m.Source, compileOptions, m.Kernels)
}

func (g *device) Name() string      { return g.dev.Name() }
func (g *device) String() string    { return g.dev.String() }
func (g *device) Precision() string { return string(g.dev.Precision()) }

func (g *device) Memory() Memory {
	m := g.dev.Memory()
	out := Memory{InUse: m.InUse, Requests: m.Requests}
	_ = g.dev.Do(func() error { // after a failure, no free memory is reported
		out.Free, _ = g.dev.MemoryInfo()
		return nil
	})
	return out
}

// Close releases the GPU. Parameters stored there keep in Flat the values of the last Pull.
func (g *device) Close() {
	for s := range g.stored {
		s.p.Store(nil)
	}
	clear(g.stored)
	_ = g.dev.Close() // failures were returned by the failing calls
}

// The device keeps its first failure; later calls do nothing, and Do returns it. So functions that
// only queue work return no error.

// launch runs a kernel of the base module, launchOf one of another.
func (g *device) launch(l kernels.Launch, args ...cuda.Arg) { g.launchOf(g.base, l, args...) }

func (g *device) launchOf(module map[string]*cuda.Kernel, l kernels.Launch, args ...cuda.Arg) {
	if !l.Empty() {
		_ = module[l.Kernel].Launch(grid(l), args...)
	}
}

// gemm is [cuda.Device.Gemm].
func (g *device) gemm(transA, transB bool, m, n, k int, a cuda.Pointer, lda int, b cuda.Pointer, ldb int,
	accumulate bool, c cuda.Pointer, ldc int) {
	_ = g.dev.Gemm(transA, transB, m, n, k, a, lda, b, ldb, accumulate, c, ldc)
}

// gemmScaled and gemmBF16 are those of [cuda.Device], the latter with a factor of 1.
func (g *device) gemmScaled(transA, transB bool, m, n, k int, alpha float32, a cuda.Pointer, lda int, b cuda.Pointer,
	ldb int, accumulate bool, c cuda.Pointer, ldc int) {
	_ = g.dev.GemmScaled(transA, transB, m, n, k, alpha, a, lda, b, ldb, accumulate, c, ldc)
}

func (g *device) gemmBF16(transA, transB bool, m, n, k int, a cuda.Pointer, lda int, b cuda.Pointer, ldb int,
	accumulate bool, c cuda.Pointer, ldc int) {
	_ = g.dev.GemmBF16(transA, transB, m, n, k, 1, a, lda, b, ldb, accumulate, c, ldc)
}

func (g *device) zero(to cuda.Pointer, n int) { _ = g.dev.Zero(to, n) }

// launchDecoder runs a kernel of [kernels.Decoder].
func (g *device) launchDecoder(l kernels.Launch, args ...cuda.Arg) {
	g.launchOf(g.decoders.kernels, l, args...)
}

// toBF16 rounds n numbers.
func (g *device) toBF16(n int, x, y cuda.Pointer) {
	g.launchDecoder(g.card.ToBF16(n), cuda.L(n), cuda.P(x), cuda.P(y))
}

// gather copies rows of x by their index.
func (g *device) gather(n, width int, index, x, y cuda.Pointer) {
	g.launch(g.card.Gather(n, width), cuda.I(n), cuda.I(width), cuda.P(index), cuda.P(x), cuda.P(y))
}

// flag is the argument of a condition.
func flag(b bool) cuda.Arg {
	if b {
		return cuda.I(1)
	}
	return cuda.I(0)
}

func grid(l kernels.Launch) cuda.Grid {
	return cuda.Grid{X: l.Grid[0], Y: l.Grid[1], Z: l.Grid[2], ThreadsX: l.Block[0], ThreadsY: l.Block[1],
		Shared: l.Shared}
}

// do runs work that only queues; the error is the device's first failure.
func (g *device) do(f func()) error {
	return g.dev.Do(func() error { f(); return nil })
}

// alloc allocates memory for n floats; without room the device fails.
func (g *device) alloc(n int, what string) *cuda.Mem {
	m, err := g.dev.Alloc(4*max(1, n), what)
	_ = g.dev.Fail(err)
	return m
}

// pinned allocates page-locked memory for n elements; without room the device fails.
func pinned[T any](g *device, n int) []T {
	s, err := cuda.Pinned[T](g.dev, n)
	_ = g.dev.Fail(err)
	return s
}

// scratch returns memory for n floats, to be used before the next call.
func (g *device) scratch(n int) cuda.Pointer {
	if g.parts == nil || int(g.parts.MemSize()) < 4*n {
		g.dev.Free(g.parts)
		g.parts = g.alloc(n, "partial sums")
	}
	return g.parts.At(0)
}

// add is also the engine's, which needs an error.
func (g *device) add(n int, a, b, out cuda.Pointer) error {
	g.launch(g.card.Elementwise(kernels.Add, n), cuda.L(n), cuda.P(a), cuda.P(b), cuda.P(out))
	return nil
}

func (g *device) axpy(n int, x, y cuda.Pointer) {
	g.launch(g.card.Elementwise(kernels.Axpy, n), cuda.L(n), cuda.F(1), cuda.P(x), cuda.P(y))
}

// colSum writes Σ weight[i]·x[i] over the rows of x (rows×width) to out, or adds it; weight 0 counts
// as 1.
func (g *device) colSum(rows, width int, x, weight cuda.Pointer, accumulate bool, out cuda.Pointer) {
	parts, sum := g.card.ColSum(rows, width)
	partial := g.scratch(parts.Tiles * width)
	g.launch(parts, cuda.I(rows), cuda.I(width), cuda.P(x), cuda.I(width), cuda.P(weight), cuda.I(parts.Tile),
		cuda.P(partial))
	g.launch(sum, cuda.I(parts.Tiles), cuda.I(width), cuda.P(partial), cuda.P(out), flag(accumulate))
}

// sumSquares writes Σ x² to g.total.
func (g *device) sumSquares(n int, x cuda.Pointer) {
	parts, total := g.card.SumSquares(n)
	partial := g.scratch(2 * parts.Tiles)
	g.launch(parts, cuda.L(n), cuda.P(x), cuda.P(partial))
	g.launch(total, cuda.I(parts.Tiles), cuda.P(partial), cuda.P(g.total.At(0)))
}

// norm waits for the device and returns √g.total.
func (g *device) norm() (float64, error) {
	if err := cuda.Download(g.dev, g.sum, g.total, 0); err != nil {
		return 0, err
	}
	return math.Sqrt(g.sum[0]), nil
}
