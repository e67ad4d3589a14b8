package config

import (
	"reflect"

	"grpo/pkg/rl"
)

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
	if a.EpsilonHigh == a.Cliprange && a.BaseLoss() != rl.CISPO {
		a.EpsilonHigh = 0
	}
	if !a.PassK && c.Reward.MultiObjectiveAggregation == "sum_then_normalize" {
		a.Baseline, a.Normalizer = a.Advantages()
		a.ScaleRewards, a.UseStdNormalization = "", true
		if a.BaseLoss() == rl.NoBaseline {
			a.LossType = string(rl.ReinforceWithBaseline)
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
	straightThrough := a.KLEstimator == rl.K1StraightThrough || a.KLEstimator == rl.K3StraightThrough
	switch {
	case a.KLIn == "reward" && a.KLEstimator == rl.K1StraightThrough:
		a.KLEstimator = rl.K1
	case a.KLIn == "reward" && a.KLEstimator == rl.K3StraightThrough:
		a.KLEstimator = rl.K3
	case a.KLIn == "loss" && !a.UseBiasCorrectionKL && straightThrough:
		a.KLEstimator = rl.K2
	}
}

// plainLoss replaces a name by the loss that it means. On-policy the ratio is 1, and
// every loss has the gradient of the one without a ratio. If a sequence has one
// ratio, that holds only if all of its tokens weigh the same.
func (a *Algorithm) plainLoss(offPolicy bool) {
	bonus := a.EntropyCoef != 0 || a.UseAdaptiveEntropy
	capped := a.BaseLoss() == rl.CISPO && a.EpsilonHigh < 1
	_, normalizer := a.Advantages()
	ofTokens := a.Type == "ppo" || a.Gamma != 1 || a.Teacher != "" || normalizer == whitenTokens ||
		a.TopEntropyQuantile < 1 || a.Beta != 0 && a.UseBiasCorrectionKL
	base, level := a.BaseLoss(), a.ImportanceSamplingLevel
	oneRatio := level == rl.SequenceLevel || base == rl.GeoMean
	switch {
	case base == rl.NoBaseline:
	case a.EntropyOverAll() && bonus && a.TopEntropyQuantile < 1:
	case offPolicy || capped || level == rl.SequenceSum && base != rl.GeoMean || oneRatio && ofTokens:
		a.LossType = string(base)
	default:
		a.LossType, a.ImportanceSamplingLevel = string(rl.ReinforceWithBaseline), rl.TokenLevel
	}
}

// plainAggregation writes sums over a constant as masked_normalize. If no completion
// is masked, none is empty, so the number of sequences is that of completions.
func (a *Algorithm) plainAggregation(completions int) {
	sum := func(z float64) { a.LengthNormalization, a.NormalizeConstant = rl.MaskedNormalizeSeq, z }
	switch a.LengthNormalization {
	case rl.Constant:
		sum(a.NormalizeConstant / float64(completions))
	case rl.TokenSum:
		sum(1 / float64(completions))
	}
	if a.MaskTruncatedCompletions {
		return
	}
	switch a.LengthNormalization {
	case rl.SeqMeanTokenMean:
		a.LengthNormalization = rl.MaskedMeanSeq
	case rl.SeqMeanTokenSum:
		sum(1)
	case rl.SeqMeanTokenSumNorm:
		sum(a.NormalizeConstant)
	}
}
