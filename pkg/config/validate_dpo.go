package config

import (
	"slices"
	"strings"

	"grpo/pkg/rl"
)

func (c *Config) validateDPO(v *validator) {
	a := &c.Algorithm
	d, before := &a.DPO, len(v.found)
	v.someOf(&d.LossType, rl.PreferenceLosses()...)
	oneOf(v, &d.FDivergenceType, rl.Divergences()...)
	oneOf(v, &d.Pairs, rl.PairRules()...)
	v.in(positive, &d.Beta, &d.DiscoPOPTau, &d.LossWeights)
	v.in(interval{low: 0, high: 0.5, highOpen: true}, &d.LabelSmoothing)
	v.in(fraction, &d.LDAlpha)
	v.in(moderate, &d.FAlphaDivergenceCoef)
	v.in(sizeOrNone, &d.PairsPerGroup)
	if have, want := len(d.LossWeights), len(d.LossType); have != 0 && have != want {
		v.reject("%s must have one weight for each of %s, or none", &d.LossWeights, &d.LossType)
	}
	if a.Type != "dpo" {
		return
	}
	if len(v.found) == before { // every key by itself is right
		if err := d.Rule().Check(); err != nil {
			v.reject("%s contradicts %s: %s", &d.PairsPerGroup, &d.Pairs, err)
		}
		if err := d.Preference().Check(); err != nil {
			v.reject("%s can't be used with the other settings of algorithm.dpo: %s", &d.LossType, err)
		}
	}
	batch := &c.Train.TrainBatchSize
	if *batch == 0 {
		batch = &c.Rollout.RolloutBatchSize
	}
	if a.FromFile() {
		if *batch%2 != 0 { // which divides rollout_batch_size
			v.reject("%s must be even: with %s it counts the two completions of each pair", batch, &d.PairsFile)
		}
		return
	}
	if g := &c.Rollout.GroupSize; *g > 0 && *batch%*g != 0 {
		v.reject("%s must be a multiple of %s, because %s makes pairs of the completions of a group", batch, g, &a.Type)
	}
}

// dpoEffect rejects settings that only dpo has or that dpo does not have.
func (c *Config) dpoEffect(v *validator) {
	a, r := &c.Algorithm, &c.Rollout
	d := &a.DPO
	if a.Type != "dpo" {
		v.noEffect(&a.Type, "use dpo, or leave this key out", &d.LossType, &d.LossWeights, &d.Beta, &d.LabelSmoothing,
			&d.FDivergenceType, &d.FAlphaDivergenceCoef, &d.LDAlpha, &d.UseWeighting, &d.DiscoPOPTau,
			&d.Pairs, &d.PairsPerGroup, &d.PairsFile, &d.EvalPairsFile)
		return
	}
	v.noEffect(&a.Type, "the weight of its KL divergence is algorithm.dpo.beta", &a.Beta)
	v.noEffect(&a.Type, "it has no advantages and no importance ratio; leave this key out",
		&a.Baseline, &a.Normalizer, &a.ScaleRewards, &a.Gamma, &a.EpsilonHigh, &a.Delta,
		&a.SAPOTemperaturePos, &a.SAPOTemperatureNeg, &a.VESPOKPos, &a.VESPOLambdaPos, &a.VESPOKNeg, &a.VESPOLambdaNeg,
		&a.EntropyCoef, &a.UseAdaptiveEntropy, &a.TopEntropyQuantile, &a.OffPolicyMask, &a.MaskTruncatedCompletions,
		&a.SkipFlatGroups, &a.Teacher)
	// [Resolve] fills in these two from algorithm.loss_type.
	const noRatio = "it has no importance ratio; leave this key out"
	if a.ImportanceSamplingLevel != "" && a.ImportanceSamplingLevel != a.recipe().Level {
		v.noEffect(&a.Type, noRatio, &a.ImportanceSamplingLevel)
	}
	if a.DualClip != a.recipe().DualClip {
		v.noEffect(&a.Type, noRatio, &a.DualClip)
	}
	unused := map[string]any{
		"label_smoothing": &d.LabelSmoothing, "f_divergence_type": &d.FDivergenceType, "ld_alpha": &d.LDAlpha,
	}
	for _, u := range d.Preference().Unused() {
		if field := unused[u.Name]; field != nil {
			v.noEffect(&d.LossType, "it is for "+strings.Join(u.UsedBy, ", "), field)
		}
	}
	if d.FDivergenceType != rl.AlphaDivergence {
		v.noEffect(&d.FDivergenceType, "it is for "+rl.AlphaDivergence, &d.FAlphaDivergenceCoef)
	}
	if !slices.Contains(d.LossType, string(rl.DPODiscoPOP)) {
		v.noEffect(&d.LossType, "it is for "+string(rl.DPODiscoPOP), &d.DiscoPOPTau)
	}
	if len(d.LossType) == 1 && len(d.LossWeights) == 1 {
		v.noEffect(&d.LossType, "a weight is for several losses; the learning rate scales a single one", &d.LossWeights)
	}
	if d.Pairs == string(rl.PairBestWorst) && d.PairsPerGroup == 1 {
		v.noEffect(&d.Pairs, "it makes one pair of a group in any case", &d.PairsPerGroup)
	}
	if a.FromFile() {
		v.noEffect(&d.PairsFile, "the pairs are in the file; leave this key out", &d.Pairs, &d.PairsPerGroup,
			&r.ResampleEveryNSteps, &a.DynamicSampling)
	}
}

// inertUnderDPO reports settings of advantages and policy losses, which dpo does not have, and, with
// a file of pairs, those of rollouts and rewards.
func (c *Config) inertUnderDPO(v *validator) {
	a, r, w := &c.Algorithm, &c.Rollout, &c.Reward
	v.noEffect(&a.Type, "its loss is algorithm.dpo.loss_type", &a.LossType)
	v.noEffect(&a.Type, "it has no advantages and no importance ratio",
		&a.UseStdNormalization, &a.AdvantageEps, &a.Cliprange, &a.LengthNormalization, &a.NormalizeConstant)
	if len(w.RewardWeights) == 1 && w.RewardWeights[0] > 0 && !a.FromFile() {
		v.noEffect(&a.Type, "a positive weight of a single reward function changes no comparison of rewards", &w.RewardWeights)
	}
	if a.FromFile() {
		v.noEffect(&a.DPO.PairsFile, "the completions are in the file", &r.GroupSize, &r.SamplingTemperature,
			&r.SamplingTopP, &r.SamplingTopK, &r.SamplingMinTokens, &r.SamplingMaxTokens, &w.Functions, &w.RewardWeights,
			&w.MultiObjectiveAggregation, &w.OverlongCache, &w.RepetitionNGrams, &w.RepetitionMaxPenalty,
			&w.CosineCorrect, &w.CosineMaxLen, &w.CosineMinCorrect, &w.CosineMaxCorrect, &w.CosineMinWrong, &w.CosineMaxWrong)
	}
}
