package model

import (
	"math"

	"grpo/pkg/model/kernel"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), in
// PyTorch's order of operations:
//
//	w <- w - lr·λ·w
//	m <- β1·m + (1-β1)·g,  v <- β2·v + (1-β2)·g²
//	w <- w - lr/(1-β1^t) · m / (√v/√(1-β2^t) + eps)
type AdamW struct {
	Beta1, Beta2, Eps, WeightDecay float64

	M, V *Params // moments
	T    int     // updates made
}

// NewAdamW returns an optimizer with zero moments for weights of the form s.
func NewAdamW(s Spec, beta1, beta2, eps, weightDecay float64) (*AdamW, error) {
	m, err := NewParams(s)
	if err != nil {
		return nil, err
	}
	return &AdamW{Beta1: beta1, Beta2: beta2, Eps: eps, WeightDecay: weightDecay, M: m, V: m.Clone()}, nil
}

// Step makes one update of w with gradient g at rate lr. The gradient is scaled
// to norm maxNorm where it is longer (0: never), by maxNorm/(norm + 1e-6) as
// PyTorch's clip_grad_norm_ does. It returns the norm before clipping. A norm
// that is not finite leaves weights and moments as they were. The update is made
// where the weights live, and the moments join them there; an error is that
// place's.
func (a *AdamW) Step(w, g *Params, lr, maxNorm float64) (norm float64, err error) {
	if w.home != nil {
		return w.home.update(a, w, g, lr, maxNorm)
	}
	norm = math.Sqrt(kernel.SumSquares(g.Flat))
	if !finite(norm) {
		return norm, nil
	}
	scale := 1.0
	if maxNorm > 0 {
		scale = min(1, maxNorm/(norm+1e-6))
	}
	a.T++
	kernel.AdamW(w.Flat, g.Flat, a.M.Flat, a.V.Flat, lr, a.Beta1, a.Beta2, a.Eps, a.WeightDecay, scale, a.T)
	return norm, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
