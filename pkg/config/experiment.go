package config

import "reflect"

// Experiment returns the configuration in the form in which two that train and
// evaluate alike (up to the rounding of sums) are equal: what has no effect is at
// its default, and of several names of one thing one is used. It is for comparing
// by [Hash] and not necessarily valid.
//
// What depends on the data stays as it is, e.g. a limit that nothing reaches.
func Experiment(c Config) Config {
	c = Resolve(c)
	c.Algorithm.plainKL()
	c.Algorithm.plainLoss(c.offPolicy())
	c = withoutInert(c)
	a := &c.Algorithm
	a.plainAggregation(c.Train.TrainBatchSize)
	// Both save time or memory and leave the gradient as it is.
	c.Train.GradientAccumulationSteps, a.SkipFlatGroups = 1, false
	if c.Reward.CosineMaxLen == c.Rollout.SamplingMaxTokens {
		c.Reward.CosineMaxLen = 0
	}
	if a.EpsilonHigh == a.Cliprange && a.BaseLoss() != "cispo" {
		a.EpsilonHigh = 0
	}
	if !a.PassK && c.Reward.MultiObjectiveAggregation == "sum_then_normalize" {
		a.Baseline, a.Normalizer = a.Advantages()
		a.ScaleRewards, a.UseStdNormalization = "", true
		if a.LossType == "no_baseline" {
			a.LossType = "reinforce_with_baseline"
		}
	}
	return c
}

// withoutInert resets what has no effect, one key at a time, because others may
// follow from it.
func withoutInert(c Config) Config {
	for range leaves(c) {
		v := newValidator(&c, nil)
		c.validateEffect(v)
		c.inert(v)
		before := c
		for _, f := range v.found {
			if c = atDefault(before, f.keys[0]); !reflect.DeepEqual(c, before) {
				break
			}
		}
		if reflect.DeepEqual(c, before) {
			break
		}
	}
	return c
}

// plainKL: the straight-through estimators have the gradient of k2; in the reward,
// where there is no gradient, they have the values of k1 and k3.
func (a *Algorithm) plainKL() {
	switch {
	case a.KLIn == "reward" && a.KLEstimator == "k1+":
		a.KLEstimator = "k1"
	case a.KLIn == "reward" && a.KLEstimator == "k3+":
		a.KLEstimator = "k3"
	case a.KLIn == "loss" && !a.UseBiasCorrectionKL && (a.KLEstimator == "k1+" || a.KLEstimator == "k3+"):
		a.KLEstimator = "k2"
	}
}

// plainLoss replaces a name by the loss that it means. On-policy the ratio is 1, and
// every loss has the gradient of the one without a ratio. If a sequence has one
// ratio, that holds only if all of its tokens weigh the same.
func (a *Algorithm) plainLoss(offPolicy bool) {
	bonus := a.EntropyCoef != 0 || a.UseAdaptiveEntropy
	capped := a.LossType == "cispo" && a.EpsilonHigh < 1
	_, normalizer := a.Advantages()
	ofTokens := a.Type == "ppo" || a.Gamma != 1 || a.Teacher != "" || normalizer == "whiten_tokens" ||
		a.TopEntropyQuantile < 1 || a.Beta != 0 && a.UseBiasCorrectionKL
	base, level := a.BaseLoss(), a.ImportanceSamplingLevel
	oneRatio := level == "sequence" || base == "geo_mean"
	switch {
	case a.LossType == "no_baseline":
	case a.EntropyOverAll() && bonus && a.TopEntropyQuantile < 1:
	case offPolicy || capped || level == "sequence_sum" && base != "geo_mean" || oneRatio && ofTokens:
		a.LossType = base
	default:
		a.LossType, a.ImportanceSamplingLevel = "reinforce_with_baseline", "token"
	}
}

// plainAggregation writes sums over a constant as masked_normalize. If no completion
// is masked, none is empty, so the number of sequences is that of completions.
func (a *Algorithm) plainAggregation(completions int) {
	sum := func(z float64) { a.LengthNormalization, a.NormalizeConstant = "masked_normalize", z }
	switch a.LengthNormalization {
	case "constant":
		sum(a.NormalizeConstant / float64(completions))
	case "token-sum":
		sum(1 / float64(completions))
	}
	if a.MaskTruncatedCompletions {
		return
	}
	switch a.LengthNormalization {
	case "seq-mean-token-mean":
		a.LengthNormalization = "masked_mean"
	case "seq-mean-token-sum":
		sum(1)
	case "seq-mean-token-sum-norm":
		sum(a.NormalizeConstant)
	}
}
