package rl

import "fmt"

// VerlOptions are the fields of verl's actor configuration that choose the loss,
// under verl's names.
type VerlOptions struct {
	LossMode                    string  // one of [VerlLossModes]
	LossAggMode                 string  // "token-mean", "token-sum", "seq-mean-token-sum", ...
	ClipRatio                   float64 // clip_ratio
	ClipRatioLow, ClipRatioHigh float64 // clip_ratio_low, clip_ratio_high; 0 = clip_ratio
	ClipRatioC                  float64 // clip_ratio_c, the dual clip; 0 = verl's 3
	LossScaleFactor             float64 // loss_scale_factor of seq-mean-token-sum-norm; 0 = T
}

// VerlLoss returns the configuration that verl's loss mode stands for. sapo,
// gspo and geo_mean have an aggregation of their own and ignore LossAggMode.
//
// verl holds log ratios to -20..20 before the exponential, which is not done
// here; the results differ only where a ratio is beyond e^20.
//
// Source: verl core_algos.py, policy losses.
func VerlLoss(o VerlOptions) (LossConfig, error) {
	c := LossConfig{
		Aggregation: Aggregation(o.LossAggMode), NormalizeConstant: o.LossScaleFactor,
		Epsilon: o.ClipRatio, EpsilonHigh: o.ClipRatio,
	}
	if o.ClipRatioLow != 0 {
		c.Epsilon = o.ClipRatioLow
	}
	if o.ClipRatioHigh != 0 {
		c.EpsilonHigh = o.ClipRatioHigh
	}
	r, ok := recipeOf(Verl, o.LossMode)
	if !ok {
		return c, fmt.Errorf("verl loss: %w", unknown("loss_mode", o.LossMode, VerlLossModes()))
	}
	c.Loss, c.Level, c.DualClip = r.Loss, r.Level, r.DualClip
	if r.DualClip != 0 && o.ClipRatioC != 0 {
		c.DualClip = o.ClipRatioC
	}
	if r.Tied || r.Loss == GeoMean {
		c.Aggregation = r.Aggregation
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("verl loss: %w", err)
	}
	return c, nil
}

// VerlLossModes lists the known modes.
func VerlLossModes() []string { return namesOf(Verl) }
