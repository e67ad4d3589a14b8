package rl

import (
	"cmp"
	"fmt"
)

// AssignmentAdvantages returns the options of the 2025 assignment's names: loss type
// no_baseline uses the raw rewards, whatever useStd (use_std_normalization) is; every
// other one uses the group's mean, and its sample standard deviation if useStd.
//
// Source: CS336 assignment 5 (2025), compute_policy_gradient_loss.
func AssignmentAdvantages(loss LossType, useStd bool, eps float64) AdvantageOptions {
	opt := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerNone, Eps: eps}
	switch {
	case loss == NoBaseline:
		opt.Baseline = BaselineNone
	case useStd:
		opt.Normalizer = NormalizerGroupStd
	}
	return opt
}

// ScaleRewards returns the options of TRL's scale_rewards: "group", "batch" or
// "none". All subtract the group's mean. TRL's eps is 1e-4.
func ScaleRewards(name string, eps float64) (AdvantageOptions, error) {
	opt := AdvantageOptions{Baseline: BaselineGroupMean, Eps: eps}
	switch name {
	case "group":
		opt.Normalizer = NormalizerGroupStd
	case "batch":
		opt.Normalizer = NormalizerBatchStd
	case "none":
		opt.Normalizer = NormalizerNone
	default:
		return opt, unknown("scale_rewards", name, []string{"group", "batch", "none"})
	}
	return opt, nil
}

// TRLOptions are the fields of TRL's GRPOConfig that choose the loss, under
// TRL's names.
type TRLOptions struct {
	LossType                string   `json:"loss_type"` // one of [TRLLossTypes]
	Epsilon                 float64  `json:"epsilon"`
	EpsilonHigh             *float64 `json:"epsilon_high"` // nil = epsilon
	Delta                   *float64 `json:"delta"`
	Beta                    float64  `json:"beta"`
	ImportanceSamplingLevel string   `json:"importance_sampling_level"`
	EntropyCoef             float64  `json:"entropy_coef"`
	OffPolicyMaskThreshold  *float64 `json:"off_policy_mask_threshold"`
	UseBiasCorrectionKL     bool     `json:"use_bias_correction_kl"`
	MaxCompletionLength     int      `json:"max_completion_length"` // the constant of dr_grpo
}

// TRLLoss returns the configuration of TRL's loss_type, a policy loss together with
// an aggregation: see the table of recipes.
//
// TRL normalizes bnpo by the tokens of each micro-batch, so that the number of
// accumulation steps changes the result; here the tokens of the whole batch are used,
// as in dapo. luspo (arXiv:2602.05261) is defined at the sequence level; TRL averages
// its KL term over padding too, which is not copied here.
//
// Source: TRL GRPOTrainer._compute_loss.
func TRLLoss(o TRLOptions) (LossConfig, error) {
	c := LossConfig{
		Epsilon: o.Epsilon, Beta: o.Beta, KL: K3,
		KLBiasCorrection: o.UseBiasCorrectionKL, EntropyCoef: o.EntropyCoef,
		Level: ImportanceLevel(o.ImportanceSamplingLevel),
	}
	if o.EpsilonHigh != nil {
		c.EpsilonHigh = *o.EpsilonHigh
	}
	if o.Delta != nil {
		c.Delta = *o.Delta
	}
	if o.OffPolicyMaskThreshold != nil {
		c.OffPolicyMask, c.OffPolicyMaskThreshold = true, *o.OffPolicyMaskThreshold
	}
	r, ok := recipeOf(TRL, o.LossType)
	if !ok {
		return c, fmt.Errorf("trl loss: %w", unknown("loss_type", o.LossType, TRLLossTypes()))
	}
	if r.Level != "" && c.Level != r.Level {
		return c, fmt.Errorf("trl loss: %s needs importance_sampling_level %q, not %q",
			o.LossType, r.Level, o.ImportanceSamplingLevel)
	}
	c.Loss, c.Aggregation, c.EntropyOverAll = r.Loss, r.Aggregation, r.EntropyOverAll
	if c.Aggregation == MaskedNormalizeSeq {
		c.NormalizeConstant = cmp.Or(r.NormalizeConstant, float64(o.MaxCompletionLength))
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("trl loss: %w", err)
	}
	return c, nil
}

// TRLLossTypes lists TRL's loss types.
func TRLLossTypes() []string { return namesOf(TRL) }

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

// VerlLoss returns the configuration of verl's loss mode. sapo, gspo and geo_mean have
// their own aggregation and ignore LossAggMode.
//
// verl clamps log ratios to -20..20 before the exponential and this package does not;
// the results differ only if a ratio is beyond e^20.
//
// Source: verl core_algos.py, policy losses.
func VerlLoss(o VerlOptions) (LossConfig, error) {
	c := LossConfig{
		Aggregation: Aggregation(o.LossAggMode), NormalizeConstant: o.LossScaleFactor,
		Epsilon: cmp.Or(o.ClipRatioLow, o.ClipRatio), EpsilonHigh: cmp.Or(o.ClipRatioHigh, o.ClipRatio),
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
