//go:build withcuda && linux

package gpu

import (
	"math"
	"unsafe"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
)

// storage implements [model.Storage]: one block of GPU memory with the layout of Flat.
type storage struct {
	g   *device
	p   *model.Params
	mem *cuda.Mem
	// synced is true while Flat has the same numbers.
	synced bool
	// changes counts the writes to mem, for rounded, a copy in bf16 of the numbers after roundedAt
	// of them (nil: none).
	changes, roundedAt int
	rounded            *cuda.Mem
}

func (g *device) Place(p *model.Params) error {
	if s, ok := p.Storage().(*storage); ok && s.g == g {
		return nil
	}
	return g.dev.Do(func() error {
		s := &storage{g: g, p: p, mem: g.alloc(len(p.Flat), "weights")}
		if err := s.Push(); err != nil {
			return err
		}
		p.Store(s)
		g.stored[s] = true
		return nil
	})
}

// storageOf is the storage of p, which must be placed.
func (g *device) storageOf(p *model.Params) *storage { return p.Storage().(*storage) }

// at is the address of the i-th tensor.
func (s *storage) at(i int) cuda.Pointer {
	n := 0
	for _, t := range s.p.Tensors()[:i] {
		n += len(t.Data)
	}
	return s.mem.At(n)
}

func (s *storage) Pull() error {
	if s.synced {
		return nil
	}
	err := s.g.dev.Do(func() error { return cuda.Download(s.g.dev, s.p.Flat, s.mem, 0) })
	s.synced = err == nil
	return err
}

func (s *storage) Push() error {
	s.changes++
	err := s.g.dev.Do(func() error { return cuda.Upload(s.g.dev, s.mem, 0, s.p.Flat) })
	s.synced = err == nil
	return err
}

// Zero returns no error: the device returns a failure from its next call.
func (s *storage) Zero() {
	_ = s.g.do(func() { s.g.zero(s.mem.At(0), len(s.p.Flat)) })
	s.synced = false
}

func (s *storage) Release() {
	s.g.dev.Free(s.mem)
	s.g.dev.Free(s.rounded)
	delete(s.g.stored, s)
}

// offset is the place of x in Flat; false if x is no part of it.
func (s *storage) offset(x []float32) (n int, ok bool) {
	if len(x) == 0 || len(s.p.Flat) == 0 {
		return 0, false
	}
	from, at := uintptr(unsafe.Pointer(&s.p.Flat[0])), uintptr(unsafe.Pointer(&x[0]))
	n = int(at-from) / 4
	return n, at >= from && n+len(x) <= len(s.p.Flat)
}

// bf16 is the address of the numbers rounded to bf16. It rounds them if they have changed.
func (s *storage) bf16() cuda.Pointer {
	n := len(s.p.Flat)
	if s.rounded == nil {
		s.rounded, s.roundedAt = s.g.alloc((n+1)/2, "weights in bf16"), -1
	}
	if s.roundedAt != s.changes {
		s.g.toBF16(n, s.mem.At(0), s.rounded.At(0))
		s.roundedAt = s.changes
	}
	return s.rounded.At(0)
}

// Finite sums squares: in double precision the sum is finite if all numbers are.
func (s *storage) Finite() bool {
	var norm float64
	err := s.g.dev.Do(func() (err error) {
		s.g.sumSquares(len(s.p.Flat), s.mem.At(0))
		norm, err = s.g.norm()
		return err
	})
	return err != nil || model.IsFinite(norm)
}

// Update is [model.AdamW.Step]. Norm, clipping and update run on the device; only
// the norm is downloaded.
func (s *storage) Update(a *model.AdamW, w, grad *model.Params, lr, maxNorm float64) (norm float64, err error) {
	g := s.g
	for _, p := range []*model.Params{grad, a.M, a.V} {
		if err := g.Place(p); err != nil {
			return 0, err
		}
	}
	dw, m, v := g.storageOf(grad), g.storageOf(a.M), g.storageOf(a.V)
	n, t := len(w.Flat), float64(a.T+1)
	err = g.dev.Do(func() error {
		g.sumSquares(n, dw.mem.At(0))
		// The coefficients of kernel.AdamW.
		decay, step := float32(1-float64(lr*a.WeightDecay)), float32(lr/(1-math.Pow(a.Beta1, t)))
		invBias := float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t)))
		g.launch(g.card.Elementwise(kernels.AdamW, n),
			cuda.L(n), cuda.P(s.mem.At(0)), cuda.P(dw.mem.At(0)), cuda.P(m.mem.At(0)), cuda.P(v.mem.At(0)),
			cuda.F(decay), cuda.F(float32(a.Beta1)), cuda.F(float32(1-a.Beta1)), cuda.F(float32(a.Beta2)),
			cuda.F(float32(1-a.Beta2)), cuda.F(step), cuda.F(invBias), cuda.F(float32(a.Eps)), cuda.D(maxNorm),
			cuda.P(g.total.At(0)))
		norm, err = g.norm()
		return err
	})
	if err == nil && model.IsFinite(norm) {
		a.T++
		s.changes++
		s.synced, m.synced, v.synced = false, false, false
	}
	return norm, err
}
