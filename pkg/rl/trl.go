package rl

import "fmt"

// TRLOptions are the fields of TRL's GRPOConfig that choose the loss, under
// TRL's names.
type TRLOptions struct {
	LossType                string   // one of [TRLLossTypes]
	Epsilon                 float64  // epsilon
	EpsilonHigh             *float64 // epsilon_high; nil = epsilon
	Delta                   *float64 // delta
	Beta                    float64  // beta
	ImportanceSamplingLevel string   // importance_sampling_level
	EntropyCoef             float64  // entropy_coef
	OffPolicyMaskThreshold  *float64 // off_policy_mask_threshold
	UseBiasCorrectionKL     bool     // use_bias_correction_kl
	MaxCompletionLength     int      // max_completion_length, the constant of dr_grpo
}

// TRLLoss returns the configuration that TRL's loss_type stands for, a policy
// loss together with an aggregation: see the table of recipes.
//
// TRL normalizes bnpo by the tokens of each micro-batch, so that there the number
// of accumulation steps changes the result; here it is the whole batch's, as in
// dapo. luspo (arXiv:2602.05261) is defined at the sequence level; with a KL term TRL averages it
// over padding too, which is not repeated here.
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
		return c, fmt.Errorf("trl loss: %s needs importance_sampling_level %q, not %q", o.LossType, r.Level, o.ImportanceSamplingLevel)
	}
	c.Loss, c.Aggregation, c.EntropyOverAll = r.Loss, r.Aggregation, r.EntropyOverAll
	if c.Aggregation == MaskedNormalizeSeq {
		c.NormalizeConstant = r.NormalizeConstant
		if c.NormalizeConstant == 0 {
			c.NormalizeConstant = float64(o.MaxCompletionLength)
		}
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("trl loss: %w", err)
	}
	return c, nil
}

// TRLLossTypes lists TRL's loss types.
func TRLLossTypes() []string { return namesOf(TRL) }
