package rl

import (
	"math"
	"testing"

	"grpo/internal/expect"
)

// lossError is the error of [Loss] for a batch of (2, 3) whose configuration or input is changed.
func lossError(change func(*LossConfig, *Batch)) func() error {
	return func() error {
		c := LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: MaskedMeanSeq}
		b := Batch{Shape: Shape{2, 3}, LogProbs: make([]float64, 6), OldLogProbs: make([]float64, 6), Mask: all(6),
			Advantages: make([]float64, 2)}
		change(&c, &b)
		_, err := Loss(c, b)
		return err
	}
}

// advantageError is the error of [GroupAdvantages] for changed options.
func advantageError(group int, rewards []float64, change func(*AdvantageOptions)) func() error {
	return func() error {
		o := AdvantageOptions{Baseline: BaselineGroupMean, Normalizer: NormalizerGroupStd}
		change(&o)
		_, _, err := GroupAdvantages(rewards, group, o)
		return err
	}
}

// preferenceError is the error of [Preference] for two pairs of one token each.
func preferenceError(change func(*PreferenceConfig, *PreferenceBatch)) func() error {
	return func() error {
		c := PreferenceConfig{Losses: []PreferenceLoss{DPOSigmoid}, Beta: 0.1, LDAlpha: 1}
		b := PreferenceBatch{Shape: Shape{4, 1}, Mask: all(4), LogProbs: make([]float64, 4), RefLogProbs: make([]float64, 4)}
		change(&c, &b)
		_, err := Preference(c, b)
		return err
	}
}

// Invalid calls are errors that name what is wrong.
func TestErrors(t *testing.T) {
	two, inf := []float64{1, 2}, math.Inf(1)
	row, mask := Shape{1, 2}, all(2)
	second := func(_ any, err error) error { return err }
	pairs := func(rewards []float64, size int, o PairOptions) func() error {
		return func() error { return second(MakePairs(rewards, nil, size, o)) }
	}
	aggregate := func(a Aggregation, z float64, x []float64, mask []bool, total Totals, weights []float64) func() error {
		return func() error { return second(Aggregate(a, z, row, x, mask, total, weights)) }
	}
	rewards := func(rewards [][]float64, weights []float64) func() error {
		return func() error {
			if _, err := NormalizeThenSum(rewards, weights, 1, 0); err == nil {
				return nil
			}
			return second(CombineRewards(rewards, weights))
		}
	}
	bradley := func(b RewardPairs) func() error { return func() error { return second(BradleyTerry(b)) } }
	supervised := func(l SupervisedLoss, weights, grad []float64) func() error {
		return func() error { return second(Supervised(l, two, weights, 0, grad)) }
	}
	masked := func(shape []int, dim int) func() error {
		return func() error { return second(MaskedMean(two, mask, shape, dim)) }
	}
	trl := func(o TRLOptions) func() error { return func() error { return second(TRLLoss(o)) } }
	calibrate := func(c, r float64) func() error {
		return func() error { return second(Calibrate([]float64{c}, []float64{r})) }
	}
	tokenLosses := func(n int) func() error {
		return func() error {
			b := Batch{Shape: row, LogProbs: two, Mask: mask, Advantages: two[:1]}
			return TokenLosses(LossConfig{Loss: NoBaseline}, b, make([]float64, n))
		}
	}
	whitened := func() error { return second(WhitenTokens(Shape{}, nil, nil, 0)) }

	for _, c := range []struct {
		want string
		call func() error
	}{
		{"no rewards", advantageError(2, nil, func(*AdvantageOptions) {})},
		{"3 rewards cannot be split into groups of 2", advantageError(2, []float64{1, 2, 3}, func(*AdvantageOptions) {})},
		{"group size 0", advantageError(0, two, func(*AdvantageOptions) {})},
		{"no standard deviation", advantageError(1, two, func(*AdvantageOptions) {})},
		{"no other completions", advantageError(1, two, func(o *AdvantageOptions) {
			o.Baseline, o.Normalizer = BaselineLeaveOneOut, NormalizerNone
		})},
		{"reward 1 is +Inf", advantageError(2, []float64{1, inf}, func(*AdvantageOptions) {})},
		{"eps is -1", advantageError(2, two, func(o *AdvantageOptions) { o.Eps = -1 })},
		{"eps is NaN", advantageError(2, two, func(o *AdvantageOptions) { o.Eps = nan })},
		{`baseline "grup" (known: batch_mean, `, advantageError(2, two, func(o *AdvantageOptions) { o.Baseline = "grup" })},
		{`normalizer ""`, advantageError(2, two, func(o *AdvantageOptions) { o.Normalizer = "" })},
		{"2 completions, got 0", advantageError(2, two, func(o *AdvantageOptions) { o.Baseline = BaselineLengthWeighted })},
		{"1 groups, got 0", advantageError(2, two, func(o *AdvantageOptions) { o.Baseline = BaselineGreedy })},
		{"rewards of at least 0", advantageError(2, []float64{1, -2}, func(o *AdvantageOptions) {
			o.Normalizer = NormalizerGroupMean
		})},
		{"no second best", func() error { return second(PassKAdvantages(two, 1, false, 0)) }},
		{`scale_rewards "grup"`, func() error { return second(ScaleRewards("grup", 0)) }},

		{"no reward function", rewards(nil, nil)},
		{"1 weights for 2", rewards([][]float64{{1}, {1}}, two[:1])},
		{"function 1 has 2 rewards, function 0 has 1", rewards([][]float64{{1}, {1, 2}}, two)},
		{"weight 0 is NaN", rewards([][]float64{{1}}, []float64{nan})},

		{`loss "grpo-clip" (known: cispo,`, lossError(func(c *LossConfig, _ *Batch) { c.Loss = "grpo-clip" })},
		{`aggregation ""`, lossError(func(c *LossConfig, _ *Batch) { c.Aggregation = "" })},
		{"constant, which is 0", lossError(func(c *LossConfig, _ *Batch) { c.Aggregation = MaskedNormalizeSeq })},
		{"epsilon (cliprange) is 0", lossError(func(c *LossConfig, _ *Batch) { c.Epsilon = 0 })},
		{"epsilon_high is -1", lossError(func(c *LossConfig, _ *Batch) { c.EpsilonHigh = -1 })},
		{"largest ratio itself", lossError(func(c *LossConfig, _ *Batch) { c.Loss = CISPO })},
		{`level "word"`, lossError(func(c *LossConfig, _ *Batch) { c.Level = "word" })},
		{`estimator "k4"`, lossError(func(c *LossConfig, _ *Batch) { c.KL = "k4" })},
		{"beta is NaN", lossError(func(c *LossConfig, _ *Batch) { c.Beta = nan })},
		{"dual clip is 0.5", lossError(func(c *LossConfig, _ *Batch) { c.DualClip = 0.5 })},
		{"missing, and beta", lossError(func(c *LossConfig, _ *Batch) { c.Beta = 1 })},
		{"entropies are missing", lossError(func(c *LossConfig, _ *Batch) { c.EntropyCoef = 1 })},
		{"shape (2, 0)", lossError(func(_ *LossConfig, b *Batch) { b.Shape.T = 0 })},
		{"log-probs has 5 values, shape (2, 3)", lossError(func(_ *LossConfig, b *Batch) { b.LogProbs = b.LogProbs[1:] })},
		{"old log-probs has 5", lossError(func(_ *LossConfig, b *Batch) { b.OldLogProbs = b.OldLogProbs[1:] })},
		{"old log-probs has 0", lossError(func(_ *LossConfig, b *Batch) { b.OldLogProbs = []float64{} })},
		{"mask has 5", lossError(func(_ *LossConfig, b *Batch) { b.Mask = b.Mask[1:] })},
		{"policy mask has 5", lossError(func(_ *LossConfig, b *Batch) { b.PolicyMask = b.Mask[1:] })},
		{"1 advantages; shape (2, 3)", lossError(func(_ *LossConfig, b *Batch) { b.Advantages = b.Advantages[1:] })},
		{"do not cover this batch", lossError(func(_ *LossConfig, b *Batch) { b.Totals = Totals{1, 1, 3, 3} })},
		{"out has 1 values", tokenLosses(1)},
		{`loss_type "ppo"`, trl(TRLOptions{LossType: "ppo"})},
		{"luspo needs", trl(TRLOptions{LossType: "luspo", Epsilon: 0.2})},
		{"normalize constant", trl(TRLOptions{LossType: "dr_grpo", Epsilon: 0.2})},
		{`loss_mode "kl_cov"`, func() error { return second(VerlLoss(VerlOptions{LossMode: "kl_cov"})) }},

		{"aggregate: matrix 1 has 1 values, shape (1, 2)", aggregate(TokenSum, 0, two[:1], mask, Totals{}, nil)},
		{"aggregate: mask has 1", aggregate(TokenSum, 0, two, mask[:1], Totals{}, nil)},
		{"aggregate: weights has 1", aggregate(TokenSum, 0, two, mask, Totals{}, two[:1])},
		{"aggregate: totals", aggregate(TokenSum, 0, two, mask, Totals{1, 1, 1, 0}, nil)},
		{"constant, which is -1", aggregate(MaskedNormalizeSeq, -1, two, mask, Totals{}, nil)},
		{"constant, which is NaN", aggregate(Constant, nan, two, mask, Totals{}, nil)},
		{"constant, which is +Inf", aggregate(Constant, inf, two, mask, Totals{}, nil)},
		{"constant -1", aggregate(SeqMeanTokenSumNorm, -1, two, mask, Totals{}, nil)},
		{"dimension 2 is outside shape [1 2]", masked([]int{1, 2}, 2)},
		{"dimension -3 is outside", masked([]int{1, 2}, -3)},
		{"needs 4 values; x has 2", masked([]int{2, 2}, 0)},
		{"negative side", masked([]int{-1, -2}, 0)},
		{"constant is 0", func() error { return second(MaskedNormalize(two, mask, []int{1, 2}, 0, 0)) }},

		{"matrix 1 has 1", func() error { return second(ReturnsToGo(row, two[:1], mask, 1)) }},
		{"gamma is -1", func() error { return second(ReturnsToGo(row, two, mask, -1)) }},
		{"mask has 1", func() error { return second(ReturnsToGo(row, two, mask[:1], 1)) }},
		{"2 rewards for 1", func() error { return second(KLInReward(row, two, two, two, mask, K1, 1)) }},
		{`estimator "k4"`, func() error { return second(KLInReward(row, two[:1], two, two, mask, "k4", 1)) }},
		{"shape (0, 0)", whitened},
		{"lambda is 2", func() error { _, _, err := GAE(row, two, two, mask, 1, 2); return err }},
		{"quantile 0;", func() error { return second(TopEntropyMask(row, two, mask, 0)) }},
		{"quantile 1.1;", func() error { return second(TopEntropyMask(row, two, mask, 1.1)) }},
		{"quantile NaN;", func() error { return second(TopEntropyMask(row, two, mask, nan)) }},

		{`rule of pairs "best" (known: best_worst, `, pairs(nil, 1, PairOptions{Rule: "best"})},
		{"-1 pairs for each group", pairs(nil, 1, PairOptions{Rule: PairRightWrong, PerGroup: -1})},
		{"best_worst makes one", pairs(nil, 1, PairOptions{Rule: PairBestWorst, PerGroup: 2})},
		{"group size 0", pairs(two, 0, PairOptions{Rule: PairBestWorst})},
		{"2 rewards cannot be split into groups of 3", pairs(two, 3, PairOptions{Rule: PairBestWorst})},
		{"2 completions, got 0", pairs(two, 2, PairOptions{Rule: PairLengthControlled})},
		{"reward 0 is -Inf", pairs([]float64{-inf, 0}, 2, PairOptions{Rule: PairRightWrong})},
		{"no pairs", bradley(RewardPairs{})},
		{"2 scores of chosen and 1", bradley(RewardPairs{Chosen: two, Rejected: two[:1]})},
		{"1 margins for 2 pairs", bradley(RewardPairs{Chosen: two, Rejected: two, Margins: two[:1]})},
		{"coefficient is -1", bradley(RewardPairs{Chosen: two, Rejected: two, Centering: -1})},
		{"coefficient is NaN", bradley(RewardPairs{Chosen: two, Rejected: two, Centering: nan})},
		{"a total of 1 pairs", bradley(RewardPairs{Chosen: two, Rejected: two, Total: 1})},
		{"0 scores of chosen", func() error { return second(Calibrate(nil, nil)) }},
		{"1 scores of chosen and 0", func() error { return second(Calibrate(two[:1], nil)) }},
		{"pair 0 are NaN", calibrate(nan, 0)},
		{"pair 0 are +Inf", calibrate(inf, 0)},
		{"pair 0 are 0 and +Inf", calibrate(0, inf)},
		{`loss_type "ce" (known: dft, nll)`, supervised("ce", two, make([]float64, 2))},
		{"2 log-probabilities, 1 weights", supervised(NLL, two[:1], make([]float64, 2))},
		{"1 places for the gradient", supervised(NLL, two, make([]float64, 1))},
		{"the weights sum to 0", supervised(NLL, make([]float64, 2), make([]float64, 2))},

		{"no loss_type (known: sigmoid, ", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Losses = nil })},
		{`loss_type "aot_pair"`, preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Losses[0] = "aot_pair" })},
		{"2 loss_weights for 1", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Weights = two })},
		{"sigmoid is 0", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Weights = []float64{0} })},
		{"beta is 0", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Beta = 0 })},
		{"beta is NaN", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Beta = nan })},
		{"smoothing is 0.5", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.LabelSmoothing = 0.5 })},
		{"smoothing is -0.1", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.LabelSmoothing = -0.1 })},
		{"ld_alpha is 1.5", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.LDAlpha = 1.5 })},
		{"tau is -1", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.DiscoPOPTau = -1 })},
		{`divergence_type "kl"`, preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Divergence = "kl" })},
		{"coef is NaN", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) {
			c.Divergence, c.AlphaCoef = AlphaDivergence, nan
		})},
		{"not defined for bco_pair", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) {
			c.Losses, c.Divergence = []PreferenceLoss{DPOSigmoid, DPOBCO}, JSDivergence
		})},
		{"label_smoothing above 0", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Losses[0] = DPOExo })},
		{"work with aot,", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) {
			c.Losses[0], c.Weighting = DPOAOT, true
		})},
		{"work with aot_unpaired", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) {
			c.Losses[0], c.Weighting = DPOAOTUnpaired, true
		})},
		{"work with sft", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) {
			c.Losses[0], c.Weighting = DPOSFT, true
		})},
		{"3 rows are not pairs", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) {
			b.Shape, b.Mask = Shape{3, 1}, all(3)
		})},
		{"log-probs has 1", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.LogProbs = two[:1] })},
		{"reference log-probs has 0", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.RefLogProbs = nil })},
		{"use_weighting needs, has 0", preferenceError(func(c *PreferenceConfig, _ *PreferenceBatch) { c.Weighting = true })},
		{"mask has 2", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.Mask = mask })},
		{"1 lengths for 4", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.Lengths = []int{1} })},
		{"rejected completion of pair 1", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.Mask[3] = false })},
		{"chosen completion of pair 0", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) {
			b.Lengths = []int{0, 1, 1, 1}
		})},
		{"do not cover", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.Totals = PreferenceTotals{1, 2} })},
		{"do not cover", preferenceError(func(_ *PreferenceConfig, b *PreferenceBatch) { b.Totals = PreferenceTotals{2, 1} })},
	} {
		expect.Error(t, c.call(), c.want)
	}
}
