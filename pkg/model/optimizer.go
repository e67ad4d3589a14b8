package model

import (
	"math"

	"grpo/pkg/model/kernel"
)

// AdamWOptions are the coefficients of [AdamW].
type AdamWOptions struct{ Beta1, Beta2, Eps, WeightDecay float64 }

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), in
// PyTorch's order of operations:
//
//	w <- w - lr·λ·w
//	m <- β1·m + (1-β1)·g,  v <- β2·v + (1-β2)·g²
//	w <- w - lr/(1-β1^t) · m / (√v/√(1-β2^t) + eps)
type AdamW struct {
	AdamWOptions

	M, V *Params // moments
	T    int     // updates made

	Pool *kernel.Pool // of updates on the CPU; nil: the caller alone, with the same bits
}

// NewAdamW returns an optimizer with zero moments for parameters of p's form.
func NewAdamW(p *Params, o AdamWOptions) *AdamW {
	return &AdamW{AdamWOptions: o, M: p.Zeros(), V: p.Zeros()}
}

// Step makes one update of w with gradient g at learning rate lr. The gradient is scaled to norm
// maxNorm if it is longer (0: never), by maxNorm/(norm + 1e-6) as PyTorch's clip_grad_norm_ does.
// It returns the norm before clipping. If the norm is not finite, weights and moments do not
// change. The update runs where the weights are stored, and moves the moments there; errors are
// those of the storage.
func (a *AdamW) Step(w, g *Params, lr, maxNorm float64) (norm float64, err error) {
	if w.storage != nil {
		return w.storage.Update(a, w, g, lr, maxNorm)
	}
	norm = math.Sqrt(kernel.SumSquares(g.Flat))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, nil
	}
	scale := 1.0
	if maxNorm > 0 {
		scale = min(1, maxNorm/(norm+1e-6))
	}
	a.T++
	a.Pool.AdamW(w.Flat, g.Flat, a.M.Flat, a.V.Flat, lr, a.Beta1, a.Beta2, a.Eps, a.WeightDecay, scale, a.T)
	return norm, nil
}
