//go:build withcuda && linux

package model

import (
	"math"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// gpuHome is the memory of a GPU in which a Params lives: one block, laid out as
// Flat.
type gpuHome struct {
	g   *gpu
	p   *Params
	mem *cuda.Mem
	// fresh says that Flat holds the same numbers.
	fresh bool
}

func (g *gpu) place(p *Params) error {
	if h, ok := p.home.(*gpuHome); ok && h.g == g {
		return nil
	}
	return g.dev.Do(func() error {
		mem, err := g.dev.Alloc(4*len(p.Flat), "weights")
		if err != nil {
			return err
		}
		h := &gpuHome{g: g, p: p, mem: mem}
		if err := h.push(); err != nil {
			return err
		}
		p.home = h
		g.homes[h] = true
		return nil
	})
}

// homeOf is where p lives, after it was placed.
func (g *gpu) homeOf(p *Params) *gpuHome { return p.home.(*gpuHome) }

// at is the address of the i-th tensor.
func (h *gpuHome) at(i int) cuda.Pointer {
	n := 0
	for _, t := range h.p.Tensors()[:i] {
		n += len(t.Data)
	}
	return h.mem.At(n)
}

func (h *gpuHome) pull() error {
	if h.fresh {
		return nil
	}
	err := h.g.dev.Do(func() error { return cuda.Download(h.g.dev, h.p.Flat, h.mem, 0) })
	h.fresh = err == nil
	return err
}

func (h *gpuHome) push() error {
	err := h.g.dev.Do(func() error { return cuda.Upload(h.g.dev, h.mem, 0, h.p.Flat) })
	h.fresh = err == nil
	return err
}

// zero has no error to return: a device that failed says so at its next call.
func (h *gpuHome) zero() {
	_ = h.g.dev.Do(func() error { return h.g.dev.Zero(h.mem.At(0), len(h.p.Flat)) })
	h.fresh = false
}

func (h *gpuHome) leave() {
	h.g.dev.Free(h.mem)
	delete(h.g.homes, h)
}

// finite: in double, the squares of finite numbers add up to a finite one.
func (h *gpuHome) finite() bool {
	var norm float64
	err := h.g.dev.Do(func() (err error) {
		if err := h.g.sumSquares(len(h.p.Flat), h.mem.At(0)); err != nil {
			return err
		}
		norm, err = h.g.norm()
		return err
	})
	return err != nil || finite(norm)
}

// update is [AdamW.Step]: norm, clipping and update follow each other on the
// device, and only the norm comes down.
func (h *gpuHome) update(a *AdamW, w, grad *Params, lr, maxNorm float64) (norm float64, err error) {
	g := h.g
	for _, p := range []*Params{grad, a.M, a.V} {
		if err := g.place(p); err != nil {
			return 0, err
		}
	}
	gh, m, v := g.homeOf(grad), g.homeOf(a.M), g.homeOf(a.V)
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
	if err == nil && finite(norm) {
		a.T++
		h.fresh, m.fresh, v.fresh = false, false, false
	}
	return norm, err
}
