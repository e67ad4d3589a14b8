package rl

import "fmt"

// TRLOptions are the fields of TRL's GRPOConfig that choose the loss, under
// TRL's names.
type TRLOptions struct {
	LossType                string   // "grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"
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
// loss together with an aggregation:
//
//	grpo     clip, masked_mean                 bnpo, dapo  clip, token-mean
//	dr_grpo  clip, masked_normalize            cispo       cispo, token-mean
//	sapo     sapo, masked_mean                 vespo       vespo, token-mean
//	luspo    clip, sequence sums, mean over sequences (arXiv:2602.05261)
//
// TRL normalizes bnpo by the tokens of each micro-batch, so that there the number
// of accumulation steps changes the result; here it is the whole batch's, as in
// dapo. luspo is defined at the sequence level; with a KL term TRL averages it
// over padding too, which is not repeated here.
//
// Source: TRL GRPOTrainer._compute_loss.
func TRLLoss(o TRLOptions) (LossConfig, error) {
	c := LossConfig{
		Loss: GRPOClip, Epsilon: o.Epsilon, Beta: o.Beta, KL: K3,
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
	switch o.LossType {
	case "grpo":
		c.Aggregation = MaskedMeanSeq
	case "bnpo":
		c.Aggregation = TokenMean
	case "dapo":
		c.Aggregation, c.EntropyOverAll = TokenMean, true
	case "dr_grpo":
		c.Aggregation, c.NormalizeConstant = MaskedNormalizeSeq, float64(o.MaxCompletionLength)
	case "luspo":
		if c.Level != SequenceLevel {
			return c, fmt.Errorf("trl loss: luspo needs importance_sampling_level %q, not %q", SequenceLevel, o.ImportanceSamplingLevel)
		}
		c.Aggregation, c.NormalizeConstant = MaskedNormalizeSeq, 1
	case "cispo":
		c.Loss, c.Aggregation, c.EntropyOverAll = CISPO, TokenMean, true
	case "sapo":
		c.Loss, c.Aggregation = SAPO, MaskedMeanSeq
	case "vespo":
		c.Loss, c.Aggregation, c.EntropyOverAll = VESPO, TokenMean, true
	default:
		return c, fmt.Errorf("trl loss: %w", unknown("loss_type", o.LossType, TRLLossTypes()))
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("trl loss: %w", err)
	}
	return c, nil
}

// TRLLossTypes lists TRL's loss types.
func TRLLossTypes() []string {
	return []string{"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}
}
