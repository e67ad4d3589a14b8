package model

import (
	"errors"
	"fmt"
	"math"

	"grpo/pkg/model/kernel"
)

// AdamWOptions are the coefficients of [AdamW].
type AdamWOptions struct{ Beta1, Beta2, Eps, WeightDecay float64 }

// NewAdamWOptions are the coefficients with betas as the configuration has them.
func NewAdamWOptions(betas [2]float64, eps, weightDecay float64) AdamWOptions {
	return AdamWOptions{Beta1: betas[0], Beta2: betas[1], Eps: eps, WeightDecay: weightDecay}
}

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
	if !IsFinite(norm) {
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

// CriticTraining is the part of a [Critic] that is the same for every network: its parameters with
// their gradients and optimizer.
type CriticTraining struct {
	Params, Gradients *Params
	Optimizer         *AdamW
	Network           fmt.Stringer // names the network in errors
}

// NewCriticTraining returns the training of p, with gradients of 0 and no update.
func NewCriticTraining(p *Params, o AdamWOptions, network fmt.Stringer) CriticTraining {
	return CriticTraining{p, p.Zeros(), NewAdamW(p, o), network}
}

func (c *CriticTraining) ZeroGrads() { c.Gradients.Zero() }

// Step implements [Critic]: see [AdamW.Step].
func (c *CriticTraining) Step(lr, maxNorm float64) (norm float64, err error) {
	return c.Optimizer.Step(c.Params, c.Gradients, lr, maxNorm)
}

// State implements [Critic]. It shares the critic's memory: encode it before the next Step.
func (c *CriticTraining) State() *CriticState {
	return &CriticState{Params: c.Params, M: c.Optimizer.M, V: c.Optimizer.V, Updates: c.Optimizer.T}
}

// Restore implements [Critic]. The critic then continues with the same bits. The optimizer's
// coefficients come from the configuration.
func (c *CriticTraining) Restore(s *CriticState) error {
	if s.M == nil {
		return errors.New("restore critic: the checkpoint has its weights without moments " +
			"(a run can't continue from it with the same bits)")
	}
	if err := c.Params.Match(s.Params); err != nil {
		return fmt.Errorf("restore critic: the checkpoint's is of another network than %v: %w", c.Network, err)
	}
	c.Optimizer.T = s.Updates
	to := []*Params{c.Params, c.Optimizer.M, c.Optimizer.V}
	for i, from := range []*Params{s.Params, s.M, s.V} {
		if err := to[i].Set(from); err != nil {
			return fmt.Errorf("restore critic: %w", err)
		}
	}
	return nil
}
