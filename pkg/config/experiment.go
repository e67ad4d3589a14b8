package config

import "grpo/pkg/rl"

// Experiment normalizes a configuration so that two that train and evaluate alike (up to the
// rounding of sums) become equal: settings without effect are at their default, and synonyms are
// replaced. Compare the results by [Hash]; they need not be valid.
//
// Settings whose effect depends on the data are kept, e.g. a limit that no completion reaches.
func Experiment(c Config) Config {
	c = Resolve(c)
	c.Algorithm.plainKL()
	c.Algorithm.plainLoss(c.offPolicy())
	c.Algorithm.DPO.plain()
	c = withoutInert(c)
	a := &c.Algorithm
	a.plainAggregation(c.Train.TrainBatchSize)
	// These save time or memory and do not change the gradient.
	c.Train.GradientAccumulationSteps, a.SkipFlatGroups = 1, false
	c.Train.MicroBatchTokens, c.Train.GradientCheckpointing = 0, false
	if c.Rollout.ResampleEveryNSteps >= c.Train.NGRPOSteps && c.Rollout.Stale() { // never renewed before a step
		c.Rollout.ResampleEveryNSteps = 0
	}
	if c.Reward.CosineMaxLen == c.Rollout.SamplingMaxTokens {
		c.Reward.CosineMaxLen = 0
	}
	if a.EpsilonHigh == a.Cliprange && a.BaseLoss() != rl.CISPO {
		a.EpsilonHigh = 0
	}
	if !a.PassK && a.AdvantageExpr == "" && c.Reward.MultiObjectiveAggregation == "sum_then_normalize" {
		a.Baseline, a.Normalizer = a.Advantages()
		a.ScaleRewards, a.UseStdNormalization = "", true
		if a.BaseLoss() == rl.NoBaseline {
			a.LossType = string(rl.ReinforceWithBaseline)
		}
	}
	return c
}

// plainKL: the straight-through estimators have the gradient of k2; in the reward, without a
// gradient, they have the values of k1 and k3.
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

// plainLoss replaces a loss type by the loss it is built on. On-policy the ratio is 1, and every
// loss has the gradient of the one without a ratio; with one ratio per sequence only if all tokens
// of a sequence have the same weight.
func (a *Algorithm) plainLoss(offPolicy bool) {
	bonus := a.EntropyCoef != 0 || a.UseAdaptiveEntropy
	capped := a.BaseLoss() == rl.CISPO && a.EpsilonHigh < 1
	_, normalizer := a.Advantages()
	ofTokens := a.Type == "ppo" || a.Gamma != 1 || a.Teacher != "" || normalizer == WhitenTokens ||
		a.TopEntropyQuantile < 1 || a.Beta != 0 && a.UseBiasCorrectionKL
	base, level := a.BaseLoss(), a.ImportanceSamplingLevel
	oneRatio := level == rl.SequenceLevel || base == rl.GeoMean
	switch {
	case base == rl.NoBaseline:
	case a.recipe().EntropyOverAll && bonus && a.TopEntropyQuantile < 1:
	case a.LossExpr != "": // whatever the loss type
		a.LossType = string(rl.ReinforceWithBaseline)
	case offPolicy || capped || level == rl.SequenceSum && base != rl.GeoMean || oneRatio && ofTokens:
		a.LossType = string(base)
	default:
		a.LossType, a.ImportanceSamplingLevel = string(rl.ReinforceWithBaseline), rl.TokenLevel
	}
}

// plainAggregation writes sums over a constant as masked_normalize. Without masked completions none
// is empty, so sequences and completions are equal in number.
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

// plain: without wrong labels, robust is sigmoid.
func (d *DPO) plain() {
	if len(d.LossType) == 1 && d.LossType[0] == string(rl.DPORobust) && d.LabelSmoothing == 0 {
		d.LossType = []string{string(rl.DPOSigmoid)}
	}
}
