package explain

import (
	"cmp"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// sftStep is sft_microbatch_train_step: -logp, a sum over the response's tokens over normalize_constant (1), the
// mean over sequences, over gradient_accumulation_steps.
func (in callFields) sftStep(at path) (r callResult, err error) {
	in.LossType, in.Reweighting, in.Normalization = "", "none", string(rl.MaskedNormalizeSeq)
	in.Either = tensor{[]int{1}, []float64{1}}
	if s := in.PolicyLogProbs.shape; len(s) == 2 {
		in.Either = tensor{[]int{s[0]}, slices.Repeat([]float64{1}, s[0])}
	}
	return in.grpoStep(at)
}

// grpoStep is grpo_microbatch_train_step: the loss per token, its masked_mean over the tokens of each sequence
// (masked_normalize with a constant), the mean over sequences, over gradient_accumulation_steps.
func (in callFields) grpoStep(at path) (r callResult, err error) {
	known := []string{string(rl.MaskedMeanSeq), string(rl.MaskedNormalizeSeq)}
	z, err := in.constant(at, 1)
	if err != nil {
		return r, err
	}
	otherwise := known[0]
	if cmp.Or(in.NormalizeConstant, in.ConstantNormalizer, in.ConstantNormalizeFactor, in.NormalizationConstant) != nil {
		otherwise = known[1]
	}
	in.Normalization = cmp.Or(in.Normalization, otherwise)
	if err := at.field("length_normalization").choice(in.Normalization, known...); err != nil {
		return r, err
	}
	return in.step(at, rl.Aggregation(in.Normalization), z, in.Steps)
}

// trainStep is grpo_train_step of 2026 after the forward pass: rewards to advantages to loss. Its micro-batches
// are of equal size, so that their number changes nothing.
func (in callFields) trainStep(at path) (r callResult, err error) {
	in.LossType, in.Normalization = "", ""
	if in.RawRewards.x != nil && in.Advantages.x == nil && in.Either.x == nil {
		rewards, opt, _, err := in.rewards(at)
		if err != nil {
			return r, err
		}
		adv, err := in.advantages(rewards, opt)
		if err != nil {
			return r, at.errorf("%w", err)
		}
		in.Either = tensor{[]int{len(adv)}, adv}
	}
	aggregation, z, err := in.lossNormalization(at)
	if err != nil {
		return r, err
	}
	return in.step(at, aggregation, z, 1)
}

// normalization is the aggregation's name in the call's edition.
func (in callFields) normalization(a rl.Aggregation) string {
	if in.Normalization == "" { // 2026
		return in.LossNormalization
	}
	return string(a)
}

// lossNormalization is the aggregation of 2026: "sequence", or "constant" with its constant.
func (in callFields) lossNormalization(at path) (rl.Aggregation, float64, error) {
	if err := at.field("loss_normalization").choice(in.LossNormalization, "sequence", "constant"); err != nil {
		return "", 0, err
	}
	if in.LossNormalization == "sequence" {
		return rl.MaskedMeanSeq, 0, nil
	}
	z, err := in.constant(at, math.NaN())
	if err != nil {
		err = at.field("normalization_constant").errorf("missing, or 0")
	}
	return rl.Constant, z, err
}

// step is the loss of one of some micro-batches of equal size, and its gradient.
func (in callFields) step(at path, aggregation rl.Aggregation, z float64, steps int) (r callResult, err error) {
	if in.ResponseMask.x == nil {
		return r, at.field("response_mask").errorf("missing")
	}
	p, err := in.policy(at)
	if err != nil {
		return r, err
	}
	p.cfg.Aggregation, p.cfg.NormalizeConstant = aggregation, z
	p.Totals = rl.Count(p.Shape, p.Mask, nil).Times(steps)
	res, err := rl.Loss(p.cfg, p.Batch)
	if err == nil {
		err = computed("the loss or its gradient", res.Grad, []float64{res.Loss})
	}
	if err != nil {
		return r, at.errorf("%w", err)
	}
	r.settings = append(p.settings, in.normalization(aggregation))
	if aggregation != rl.MaskedMeanSeq {
		r.settings = append(r.settings, setting("Z", z))
	}
	if steps > 1 {
		r.settings = append(r.settings, setting("gradient_accumulation_steps", float64(steps)))
	}
	losses, grads := p.stepMistakes(max(steps, in.Steps), steps < in.Steps)
	r.values = []callValue{
		{lossName, []int{}, []float64{res.Loss}, in.Loss, losses},
		{gradName, []int{p.Shape.B, p.Shape.T}, res.Grad, in.Grad, grads},
	}
	return r, nil
}
