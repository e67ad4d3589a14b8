package explain

import (
	"cmp"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// The names of results.
const (
	resultName     = "result"
	lossName       = "loss"
	gradName       = "policy_log_probs_grad"
	advantagesName = "advantages"
)

// defaultAdvantageEps is the assignment's advantage_eps.
const defaultAdvantageEps = 1e-6

// groupNormalized is compute_group_normalized_rewards: with normalize_by_std in 2025, with baseline and
// advantage_normalizer in 2026.
func (in callFields) groupNormalized(at path) (r callResult, err error) {
	rewards, opt, settings, err := in.rewards(at)
	if err != nil {
		return r, err
	}
	adv, err := in.advantages(rewards, opt)
	if err != nil {
		return r, at.errorf("%w", err)
	}
	got := in.Normalized
	if in.Advantages.x != nil {
		got = returned{in.Advantages}
	}
	r.settings = settings
	r.values = []callValue{
		{advantagesName, []int{len(adv)}, adv, got, advantageMistakes(rewards, in.GroupSize, opt)},
	}
	return r, nil
}

// advantages are those of the handout. Without a baseline its formula divides equal rewards by eps alone, where rl
// gives 0; without eps it has no number there.
func (in callFields) advantages(rewards []float64, opt rl.AdvantageOptions) ([]float64, error) {
	adv, _, err := rl.GroupAdvantages(rewards, in.GroupSize, opt)
	if err != nil {
		return nil, err
	}
	if opt.Baseline == rl.BaselineNone && opt.Normalizer == rl.NormalizerGroupStd && opt.Eps > 0 {
		for lo := 0; lo < len(adv); lo += in.GroupSize {
			if group := rewards[lo : lo+in.GroupSize]; slices.Min(group) == slices.Max(group) {
				for i, v := range group {
					adv[lo+i] = v / opt.Eps
				}
			}
		}
	}
	return adv, computed("an advantage", adv)
}

// rewards returns the rewards of groups and the options of their advantages.
func (in callFields) rewards(at path) (rewards []float64, opt rl.AdvantageOptions, settings []string, err error) {
	if in.GroupSize == 0 {
		return nil, opt, nil, at.field("group_size").errorf("missing")
	}
	name := at.field("raw_rewards")
	if err = in.RawRewards.present(name); err == nil {
		rewards, err = in.RawRewards.perSequence(name, len(in.RawRewards.x))
	}
	if err == nil {
		err = at.field("baseline").choice(in.Baseline, "mean", "none")
	}
	if err == nil {
		err = at.field("advantage_normalizer").choice(in.Normalizer, "std", "none", "mean")
	}
	if err != nil {
		return nil, opt, nil, err
	}
	if std := cmp.Or(in.NormalizeStd, in.UseStd); std != nil && !*std {
		in.Normalizer = "none"
	}
	eps := defaultAdvantageEps
	if in.Eps != nil {
		eps = *in.Eps
	}
	opt = rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Eps: eps, Normalizer: map[string]rl.Normalizer{
		"std": rl.NormalizerGroupStd, "none": rl.NormalizerNone, "mean": rl.NormalizerGroupMean,
	}[in.Normalizer]}
	if in.Baseline == "none" {
		opt.Baseline = rl.BaselineNone
	}
	return rewards, opt, []string{"baseline " + in.Baseline, "normalizer " + in.Normalizer}, nil
}

// maskedMean is masked_mean. A slice without a token in the mask is NaN, as 0/0 is.
func (in callFields) maskedMean(at path) (r callResult, err error) {
	return in.reduce(at, "", rl.MaskedMean)
}

// maskedNormalize is masked_normalize.
func (in callFields) maskedNormalize(at path) (r callResult, err error) {
	z, err := in.constant(at, 1)
	if err != nil {
		return r, err
	}
	return in.reduce(at, setting("Z", z), func(x []float64, mask []bool, shape []int, dim int) ([]float64, error) {
		return rl.MaskedNormalize(x, mask, shape, dim, z)
	})
}

// reduction reduces a tensor over a dimension, or over all of them.
type reduction func(x []float64, mask []bool, shape []int, dim int) ([]float64, error)

func (in callFields) reduce(at path, with string, f reduction) (r callResult, err error) {
	if err := in.Tensor.present(at.field("tensor")); err != nil {
		return r, err
	}
	shape, dim := in.Tensor.shape, rl.AllDims
	mask, err := in.Mask.bits(at.field("mask"), shape)
	if err != nil {
		return r, err
	}
	if in.Tensor.hole(mask) >= 0 {
		return r, at.field("tensor").errorf("null where the mask is 1")
	}
	over := "dim None"
	left := []int{}
	if in.Dim != nil {
		if d := *in.Dim; d != math.Trunc(d) || d < -float64(len(shape)) || d >= float64(len(shape)) {
			return r, at.field("dim").errorf("%v; the tensor is of shape %s", d, shapeText(shape))
		}
		over = setting("dim", *in.Dim)
		if dim = int(*in.Dim); dim < 0 {
			dim += len(shape)
		}
		left = slices.Delete(slices.Clone(shape), dim, dim+1)
	}
	want, err := f(in.Tensor.x, mask, shape, dim)
	if err != nil {
		return r, at.errorf("%w", err)
	}
	r.settings = []string{over, with}
	r.values = []callValue{
		{resultName, left, want, in.Result, reduceMistakes(in.Tensor.x, mask, shape, dim, f)},
	}
	return r, nil
}

// aggregate is aggregate_loss_across_microbatch of 2026.
func (in callFields) aggregate(at path) (r callResult, err error) {
	aggregation, z, err := in.lossNormalization(at)
	if err != nil {
		return r, err
	}
	s, err := in.PerToken.matrix(at.field("per_token_policy_gradient_loss"), make([]bool, len(in.PerToken.x)))
	if err != nil {
		return r, err
	}
	from, name := in.Mask, "mask"
	if from.x == nil && in.ResponseMask.x != nil {
		from, name = in.ResponseMask, "response_mask"
	}
	mask, err := from.bits(at.field(name), in.PerToken.shape)
	if err != nil {
		return r, err
	}
	if _, err := in.PerToken.matrix(at.field("per_token_policy_gradient_loss"), mask); err != nil {
		return r, err
	}
	got, err := rl.Aggregate(aggregation, z, s, in.PerToken.x, mask, rl.Totals{}, nil)
	if err == nil {
		err = computed("the loss", []float64{got})
	}
	if err != nil {
		return r, at.errorf("%w", err)
	}
	r.settings = []string{in.LossNormalization}
	var mistakes []mistake
	for _, w := range weightMistakes(s, mask, aggregation, z, 1, s.B) {
		mistakes = append(mistakes, mistake{w.what, []float64{dot(w.x, in.PerToken.x)}})
	}
	r.values = []callValue{{resultName, []int{}, []float64{got}, in.Result, mistakes}}
	return r, nil
}

// entropy is compute_entropy: of the softmax over the last dimension, in nats.
func (in callFields) entropy(at path) (r callResult, err error) {
	at = at.field("logits")
	err = in.Logits.present(at)
	if err == nil && len(in.Logits.shape) == 0 {
		err = at.errorf("a number; its last dimension is the vocabulary")
	}
	if err == nil {
		_, err = in.Logits.finite(at)
	}
	if err != nil {
		return r, err
	}
	last := len(in.Logits.shape) - 1
	n := in.Logits.shape[last]
	var want []float64
	for row := range slices.Chunk(in.Logits.x, n) {
		top, sum, mean := slices.Max(row), 0.0, 0.0
		for _, x := range row {
			e := math.Exp(x - top)
			sum, mean = sum+e, mean+e*(x-top)
		}
		want = append(want, math.Log(sum)-mean/sum)
	}
	r.values = []callValue{{resultName, slices.Clone(in.Logits.shape[:last]), want, in.Result, nil}}
	return r, nil
}
