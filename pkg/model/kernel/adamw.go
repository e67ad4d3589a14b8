package kernel

import (
	"fmt"
	"math"
)

// AdamW makes update t (t = 1 for the first) of the weights w with the gradient
// g and the moments m and v, with PyTorch's semantics (torch.optim.AdamW;
// Loshchilov and Hutter, "Decoupled weight decay regularization"):
//
//	g  = gradScale·g                  (norm clipping; 1 for none)
//	w  = w·(1 - lr·weightDecay)
//	m  = beta1·m + (1-beta1)·g
//	v  = beta2·v + (1-beta2)·g²
//	w -= lr/(1-beta1ᵗ) · m / (√v/√(1-beta2ᵗ) + eps)
//
// The slices have the same length; g is not changed. The coefficients are
// computed in float64 and rounded once, the rest is float32. No operation is
// fused: every path gives the same bits.
//
// It panics if the lengths differ or t < 1.
func AdamW(w, g, m, v []float32, lr, beta1, beta2, eps, weightDecay, gradScale float64, t int) {
	(*Pool)(nil).AdamW(w, g, m, v, lr, beta1, beta2, eps, weightDecay, gradScale, t)
}

// AdamW is [AdamW] over the pool's threads, with the same bits.
func (p *Pool) AdamW(w, g, m, v []float32, lr, beta1, beta2, eps, weightDecay, gradScale float64, t int) {
	sameLen("g", len(w), len(g))
	sameLen("m", len(w), len(m))
	sameLen("v", len(w), len(v))
	if t < 1 {
		panic(fmt.Sprintf("kernel: AdamW update %d: the first update is 1", t))
	}
	c := adamCoefficients{
		decay:   float32(1 - float64(lr*weightDecay)),
		beta1:   float32(beta1),
		rest1:   float32(1 - beta1),
		beta2:   float32(beta2),
		rest2:   float32(1 - beta2),
		step:    float32(lr / (1 - math.Pow(beta1, float64(t)))),
		invBias: float32(1 / math.Sqrt(1-math.Pow(beta2, float64(t)))),
		eps:     float32(eps),
		scale:   float32(gradScale),
	}
	p.elements(len(w), func(lo, hi int) { adamW(w[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi], &c) })
}

// adamCoefficients are the numbers of one update, in the order in which the
// assembly reads them.
type adamCoefficients struct {
	decay, beta1, rest1, beta2, rest2, step, invBias, eps, scale float32
}

func adamWGo(w, g, m, v []float32, c *adamCoefficients) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i := range w {
		gi := g[i] * c.scale
		mi := float32(c.beta1*m[i]) + float32(c.rest1*gi)
		vi := float32(c.beta2*v[i]) + float32(c.rest2*float32(gi*gi))
		root := float32(math.Sqrt(float64(vi)))
		denom := float32(root*c.invBias) + c.eps
		m[i], v[i] = mi, vi
		w[i] = float32(w[i]*c.decay) - float32(float32(c.step*mi)/denom)
	}
}
