//go:build withcuda && linux

package tinylm

import (
	"math"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// gpuStorage is one block of a GPU's memory, laid out as Flat. It implements
// [model.Storage].
type gpuStorage struct {
	g   *gpu
	p   *model.Params
	mem *cuda.Mem
	// fresh says that Flat holds the same numbers.
	fresh bool
}

func (g *gpu) place(p *model.Params) error {
	if h, ok := p.Storage().(*gpuStorage); ok && h.g == g {
		return nil
	}
	return g.dev.Do(func() error {
		mem, err := g.dev.Alloc(4*len(p.Flat), "weights")
		if err != nil {
			return err
		}
		h := &gpuStorage{g: g, p: p, mem: mem}
		if err := h.Push(); err != nil {
			return err
		}
		p.Store(h)
		g.stored[h] = true
		return nil
	})
}

// storageOf is the storage of p, after it was placed.
func (g *gpu) storageOf(p *model.Params) *gpuStorage { return p.Storage().(*gpuStorage) }

// at is the address of the i-th tensor.
func (h *gpuStorage) at(i int) cuda.Pointer {
	n := 0
	for _, t := range h.p.Tensors()[:i] {
		n += len(t.Data)
	}
	return h.mem.At(n)
}

func (h *gpuStorage) Pull() error {
	if h.fresh {
		return nil
	}
	err := h.g.dev.Do(func() error { return cuda.Download(h.g.dev, h.p.Flat, h.mem, 0) })
	h.fresh = err == nil
	return err
}

func (h *gpuStorage) Push() error {
	err := h.g.dev.Do(func() error { return cuda.Upload(h.g.dev, h.mem, 0, h.p.Flat) })
	h.fresh = err == nil
	return err
}

// Zero has no error to return: a device that failed says so at its next call.
func (h *gpuStorage) Zero() {
	_ = h.g.dev.Do(func() error { return h.g.dev.Zero(h.mem.At(0), len(h.p.Flat)) })
	h.fresh = false
}

func (h *gpuStorage) Release() {
	h.g.dev.Free(h.mem)
	delete(h.g.stored, h)
}

// Finite: in double, the squares of finite numbers add up to a finite one.
func (h *gpuStorage) Finite() bool {
	var norm float64
	err := h.g.dev.Do(func() (err error) {
		if err := h.g.sumSquares(len(h.p.Flat), h.mem.At(0)); err != nil {
			return err
		}
		norm, err = h.g.norm()
		return err
	})
	return err != nil || isFinite(norm)
}

// Update is [model.AdamW.Step]: norm, clipping and update follow each other on the
// device, and only the norm comes down.
func (h *gpuStorage) Update(a *model.AdamW, w, grad *model.Params, lr, maxNorm float64) (norm float64, err error) {
	g := h.g
	for _, p := range []*model.Params{grad, a.M, a.V} {
		if err := g.place(p); err != nil {
			return 0, err
		}
	}
	gh, m, v := g.storageOf(grad), g.storageOf(a.M), g.storageOf(a.V)
	n, t := len(w.Flat), float64(a.T+1)
	err = g.dev.Do(func() error {
		if err := g.sumSquares(n, gh.mem.At(0)); err != nil {
			return err
		}
		// The coefficients of kernel.AdamW.
		decay, step := float32(1-float64(lr*a.WeightDecay)), float32(lr/(1-math.Pow(a.Beta1, t)))
		invBias := float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t)))
		if err := g.launch(g.card.Elementwise(kernels.AdamW, n),
			cuda.L(n), cuda.P(h.mem.At(0)), cuda.P(gh.mem.At(0)), cuda.P(m.mem.At(0)), cuda.P(v.mem.At(0)),
			cuda.F(decay), cuda.F(float32(a.Beta1)), cuda.F(float32(1-a.Beta1)), cuda.F(float32(a.Beta2)), cuda.F(float32(1-a.Beta2)),
			cuda.F(step), cuda.F(invBias), cuda.F(float32(a.Eps)), cuda.D(maxNorm), cuda.P(g.total.At(0))); err != nil {
			return err
		}
		norm, err = g.norm()
		return err
	})
	if err == nil && isFinite(norm) {
		a.T++
		h.fresh, m.fresh, v.fresh = false, false, false
	}
	return norm, err
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
