package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// WalkthroughOptions are the inputs of [Walkthrough].
type WalkthroughOptions struct {
	Rewards []float64 // one group
	// LogProbs and OldLogProbs have a row for each completion with its tokens'
	// log-probabilities, now and at sampling time. Rows may be of unlike length.
	LogProbs, OldLogProbs [][]float64
	UseStd                bool // divide by the group's standard deviation
	Eps                   float64
	Epsilon, EpsilonHigh  float64 // bounds of the ratio; EpsilonHigh 0 = Epsilon
	Aggregation           rl.Aggregation
	Constant              float64 // of the aggregations that divide by one; 0 = the longest completion
}

// DefaultWalkthrough is three completions with rewards 1, 0 and 0.5. Two tokens
// of the first have become too likely and one of the second too rare, so that
// the clip acts on both sides.
func DefaultWalkthrough() WalkthroughOptions {
	return WalkthroughOptions{
		Rewards: []float64{1, 0, 0.5},
		OldLogProbs: [][]float64{
			{-1.20, -0.70, -2.30, -0.40},
			{-0.90, -1.60, -1.10},
			{-0.50, -2.00},
		},
		LogProbs: [][]float64{
			{-1.00, -0.75, -1.80, -0.40},
			{-1.30, -1.50, -1.10},
			{-0.45, -2.60},
		},
		UseStd: true, Eps: 1e-6, Epsilon: 0.2, Aggregation: rl.MaskedMeanSeq,
	}
}

// WalkthroughResult has every number on the way from rewards to the loss.
// Matrices (B, T) have null where there is no token.
type WalkthroughResult struct {
	Rewards       []float64 `json:"rewards"`
	Mean          float64   `json:"mean"`
	Std           float64   `json:"std"`            // sample
	PopulationStd float64   `json:"population_std"` // divisor n; for the note only
	Eps           float64   `json:"eps"`
	UseStd        bool      `json:"use_std_normalization"`
	Advantages    []float64 `json:"advantages"`
	// PopulationAdvantages are what some texts print.
	PopulationAdvantages []float64 `json:"population_advantages"`

	Mask        [][]int     `json:"mask"`
	LogProbs    [][]float64 `json:"logps"`
	OldLogProbs [][]float64 `json:"old_logps"`
	Ratio       [][]float64 `json:"ratio"`
	Clipped     [][]float64 `json:"clipped_ratio"`
	Unclipped   [][]float64 `json:"ratio_times_advantage"`
	Bounded     [][]float64 `json:"clipped_ratio_times_advantage"`
	TokenLoss   [][]float64 `json:"token_loss"`
	Weights     [][]float64 `json:"weights"`
	Gradient    [][]float64 `json:"grad_logps"`

	Aggregation rl.Aggregation `json:"aggregation"`
	Constant    float64        `json:"constant,omitempty"`
	PerSequence []float64      `json:"loss_per_sequence"` // each sequence's share of the loss
	Loss        float64        `json:"loss"`
	// ClipFraction is the share of Tokens that lost their gradient to the clip.
	ClipFraction  *float64 `json:"clip_fraction"`
	ClippedTokens int      `json:"clipped_tokens"`
	Tokens        int      `json:"tokens"`

	epsilon, epsilonHigh float64
}

// Walkthrough computes one group's loss step by step: advantages, ratios, the
// clipped objective of each token, the weights of the aggregation, the loss and
// its gradient. Rewards become advantages by [rl.GroupAdvantages], token losses
// are [rl.TokenLosses], weights [rl.Aggregate], loss and gradient [rl.Loss].
func Walkthrough(o WalkthroughOptions) (WalkthroughResult, error) {
	fail := func(err error) (WalkthroughResult, error) {
		return WalkthroughResult{}, fmt.Errorf("explain walkthrough: %w", err)
	}
	s, mask, logps, old, err := o.matrices()
	if err != nil {
		return fail(err)
	}
	if err := finite("a reward", o.Rewards...); err != nil {
		return fail(err)
	}
	if o.EpsilonHigh == 0 {
		o.EpsilonHigh = o.Epsilon
	}
	out := WalkthroughResult{
		Rewards: o.Rewards, Eps: o.Eps, UseStd: o.UseStd, Aggregation: o.Aggregation,
		epsilon: o.Epsilon, epsilonHigh: o.EpsilonHigh,
	}
	opt := rl.AssignmentAdvantages(rl.GRPOClip, o.UseStd, o.Eps)
	adv, st, err := rl.GroupAdvantages(o.Rewards, len(o.Rewards), opt)
	if err != nil {
		return fail(err)
	}
	out.Advantages, out.Mean, out.Std = adv, st.RewardMean, st.RewardStd
	out.population()
	if err := computed("the mean, the standard deviation or an advantage", slices.Concat(adv, out.PopulationAdvantages, []float64{out.Mean, out.Std, out.PopulationStd})...); err != nil {
		return fail(err)
	}

	cfg := rl.LossConfig{Loss: rl.GRPOClip, Aggregation: o.Aggregation, NormalizeConstant: o.constant(s), Epsilon: o.Epsilon, EpsilonHigh: o.EpsilonHigh}
	batch := rl.Batch{Shape: s, LogProbs: logps, OldLogProbs: old, Advantages: adv, Mask: mask}
	loss, err := rl.Loss(cfg, batch)
	if err != nil {
		return fail(err)
	}
	tokens, weights := make([]float64, s.Len()), make([]float64, s.Len())
	if err := rl.TokenLosses(cfg, batch, tokens); err != nil {
		return fail(err)
	}
	if _, err := rl.Aggregate(cfg.Aggregation, cfg.NormalizeConstant, s, tokens, mask, rl.Totals{}, weights); err != nil {
		return fail(err)
	}
	// The ratio is minus the unclipped loss at an advantage of 1.
	ratio := make([]float64, s.Len())
	ones := batch
	ones.Advantages = repeat(1, s.B)
	if err := rl.TokenLosses(rl.LossConfig{Loss: rl.GRPONoClip}, ones, ratio); err != nil {
		return fail(err)
	}
	clipped, unclipped, bounded := make([]float64, s.Len()), make([]float64, s.Len()), make([]float64, s.Len())
	out.PerSequence = make([]float64, s.B)
	for i := range ratio {
		a := adv[i/s.T]
		ratio[i] = -ratio[i]
		clipped[i] = min(max(ratio[i], 1-o.Epsilon), 1+o.EpsilonHigh)
		unclipped[i], bounded[i] = ratio[i]*a, clipped[i]*a
		out.PerSequence[i/s.T] += weights[i] * tokens[i]
	}
	if err := computed("a ratio, a token's loss or its gradient", slices.Concat(ratio, unclipped, bounded, tokens, weights, loss.Grad, out.PerSequence, []float64{loss.Loss})...); err != nil {
		return fail(err)
	}
	masked := func(x []float64) [][]float64 {
		for i := range x {
			if !mask[i] {
				x[i] = math.NaN()
			}
		}
		return rows(s, x)
	}
	out.LogProbs, out.OldLogProbs = masked(logps), masked(old)
	out.Ratio, out.Clipped, out.Unclipped, out.Bounded = masked(ratio), masked(clipped), masked(unclipped), masked(bounded)
	out.TokenLoss, out.Weights, out.Gradient = masked(tokens), masked(weights), masked(loss.Grad)
	out.Loss, out.Constant, out.ClipFraction = loss.Loss, cfg.NormalizeConstant, loss.Stats.ClipFraction()
	out.ClippedTokens, out.Tokens = loss.Stats.ClippedLow+loss.Stats.ClippedHigh, loss.Stats.Tokens
	for b := range s.B {
		row := make([]int, s.T)
		for t := range row {
			if mask[b*s.T+t] {
				row[t] = 1
			}
		}
		out.Mask = append(out.Mask, row)
	}
	return out, nil
}

// constant is Z where the aggregation has one, 0 elsewhere.
func (o WalkthroughOptions) constant(s rl.Shape) float64 {
	switch o.Aggregation {
	case rl.MaskedNormalizeSeq, rl.Constant, rl.SeqMeanTokenSumNorm:
		if o.Constant == 0 {
			return float64(s.T)
		}
		return o.Constant
	}
	return 0
}

// population computes what a deviation with divisor n would give, which the
// formula of GRPO does not ask for.
func (r *WalkthroughResult) population() {
	n := float64(len(r.Rewards))
	r.PopulationStd = r.Std * math.Sqrt((n-1)/n)
	for i, reward := range r.Rewards {
		a := r.Advantages[i]
		if r.UseStd && r.PopulationStd > 0 {
			a = (reward - r.Mean) / (r.PopulationStd + r.Eps)
		}
		r.PopulationAdvantages = append(r.PopulationAdvantages, a)
	}
}

// matrices lays the rows out as matrices with a mask.
func (o WalkthroughOptions) matrices() (s rl.Shape, mask []bool, logps, old []float64, err error) {
	if len(o.LogProbs) != len(o.Rewards) || len(o.OldLogProbs) != len(o.Rewards) {
		return s, nil, nil, nil, fmt.Errorf("%d rewards, %d rows of log-probabilities and %d of old ones (give a row of each for each reward)",
			len(o.Rewards), len(o.LogProbs), len(o.OldLogProbs))
	}
	lengths := make([]int, len(o.LogProbs))
	for b, row := range o.LogProbs {
		lengths[b] = len(row)
		if len(o.OldLogProbs[b]) != len(row) {
			return s, nil, nil, nil, fmt.Errorf("completion %d has %d log-probabilities and %d old ones", b, len(row), len(o.OldLogProbs[b]))
		}
	}
	if s, mask, err = lengthMask(lengths, 0); err != nil {
		return s, nil, nil, nil, err
	}
	logps, old = make([]float64, s.Len()), make([]float64, s.Len())
	for b := range lengths {
		copy(logps[b*s.T:], o.LogProbs[b])
		copy(old[b*s.T:], o.OldLogProbs[b])
	}
	err = finite("a log-probability", append(append([]float64(nil), logps...), old...)...)
	return s, mask, logps, old, err
}
