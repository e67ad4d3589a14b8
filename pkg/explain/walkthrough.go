package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/pkg/rl"
)

// WalkthroughOptions are the inputs of [Walkthrough].
type WalkthroughOptions struct {
	Rewards []float64 // one group
	// LogProbs and OldLogProbs have a row for each completion with its tokens'
	// log-probabilities, now and at sampling time. Rows can differ in length.
	LogProbs, OldLogProbs [][]float64
	UseStd                bool // divide by the group's standard deviation
	Eps                   float64
	Epsilon, EpsilonHigh  float64 // bounds of the ratio; EpsilonHigh 0 = Epsilon
	Aggregation           rl.Aggregation
	Constant              float64 // Z of the aggregations that divide by one; 0 = the longest completion
}

// DefaultWalkthrough is three completions with rewards 1, 0 and 0.5. Two tokens of
// the first have become too likely and one of the second too rare, so both sides
// are clipped.
func DefaultWalkthrough() WalkthroughOptions {
	return WalkthroughOptions{
		Rewards:     []float64{1, 0, 0.5},
		OldLogProbs: [][]float64{{-1.20, -0.70, -2.30, -0.40}, {-0.90, -1.60, -1.10}, {-0.50, -2.00}},
		LogProbs:    [][]float64{{-1.00, -0.75, -1.80, -0.40}, {-1.30, -1.50, -1.10}, {-0.45, -2.60}},
		UseStd:      true, Eps: 1e-6, Epsilon: 0.2, Aggregation: rl.MaskedMeanSeq,
	}
}

// WalkthroughResult has every number between the rewards and the loss. Matrices
// (B, T) have null where there is no token.
type WalkthroughResult struct {
	Rewards       []float64 `json:"rewards"`
	Mean          float64   `json:"mean"`
	Std           float64   `json:"std"`            // sample
	PopulationStd float64   `json:"population_std"` // divisor n; for the note only
	Eps           float64   `json:"eps"`
	UseStd        bool      `json:"use_std_normalization"`
	Advantages    []float64 `json:"advantages"`
	// PopulationAdvantages are the advantages with the population std, as printed by some texts.
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
	PerSequence []float64      `json:"loss_per_sequence"` // contribution of each sequence to the loss
	Loss        float64        `json:"loss"`
	// ClipFraction is the share of Tokens that lost their gradient to the clip.
	ClipFraction  *float64 `json:"clip_fraction"`
	ClippedTokens int      `json:"clipped_tokens"`
	Tokens        int      `json:"tokens"`

	epsilon, epsilonHigh float64
}

// Walkthrough computes one group's loss step by step: advantages, ratios, the
// clipped objective of each token, the weights of the aggregation, the loss and its
// gradient. Advantages are those of [rl.GroupAdvantages], token losses of
// [rl.TokenLosses], weights of [rl.Aggregate], loss and gradient of [rl.Loss].
func Walkthrough(o WalkthroughOptions) (out WalkthroughResult, err error) {
	defer named("walkthrough", &err)
	s, mask, logps, old, err := o.matrices()
	if err != nil {
		return out, err
	}
	if err := finite("a reward", o.Rewards...); err != nil {
		return out, err
	}
	o.EpsilonHigh = cmp.Or(o.EpsilonHigh, o.Epsilon)
	out = WalkthroughResult{
		Rewards: o.Rewards, Eps: o.Eps, UseStd: o.UseStd, Aggregation: o.Aggregation, Mask: maskRows(s, mask),
		epsilon: o.Epsilon, epsilonHigh: o.EpsilonHigh,
	}
	opt := rl.AssignmentAdvantages(rl.GRPOClip, o.UseStd, o.Eps)
	adv, st, err := rl.GroupAdvantages(o.Rewards, len(o.Rewards), opt)
	if err != nil {
		return out, err
	}
	out.Advantages, out.Mean, out.Std = adv, st.RewardMean, st.RewardStd
	out.population()
	if err := computed("the mean, the standard deviation or an advantage",
		adv, out.PopulationAdvantages, []float64{out.Mean, out.Std, out.PopulationStd}); err != nil {
		return out, err
	}

	cfg := rl.LossConfig{
		Loss: rl.GRPOClip, Aggregation: o.Aggregation, Epsilon: o.Epsilon, EpsilonHigh: o.EpsilonHigh,
	}
	switch o.Aggregation {
	case rl.MaskedNormalizeSeq, rl.Constant, rl.SeqMeanTokenSumNorm:
		cfg.NormalizeConstant = cmp.Or(o.Constant, float64(s.T))
	}
	batch := rl.Batch{Shape: s, LogProbs: logps, OldLogProbs: old, Advantages: adv, Mask: mask}
	loss, err := rl.Loss(cfg, batch)
	if err != nil {
		return out, err
	}
	zeros := func() []float64 { return make([]float64, s.Len()) }
	tokens, weights := zeros(), zeros()
	if err := rl.TokenLosses(cfg, batch, tokens); err != nil {
		return out, err
	}
	_, err = rl.Aggregate(cfg.Aggregation, cfg.NormalizeConstant, s, tokens, mask, rl.Totals{}, weights)
	if err != nil {
		return out, err
	}
	// The ratio is the negative unclipped loss with advantage 1.
	ratio := zeros()
	batch.Advantages = slices.Repeat([]float64{1}, s.B)
	if err := rl.TokenLosses(rl.LossConfig{Loss: rl.GRPONoClip}, batch, ratio); err != nil {
		return out, err
	}
	clipped, unclipped, bounded := zeros(), zeros(), zeros()
	out.PerSequence = make([]float64, s.B)
	for i := range ratio {
		a := adv[i/s.T]
		ratio[i] = -ratio[i]
		clipped[i] = min(max(ratio[i], 1-o.Epsilon), 1+o.EpsilonHigh)
		unclipped[i], bounded[i] = ratio[i]*a, clipped[i]*a
		out.PerSequence[i/s.T] += weights[i] * tokens[i]
	}
	if err := computed("a ratio, a token's loss or its gradient", ratio, unclipped, bounded, tokens, weights,
		loss.Grad, out.PerSequence, []float64{loss.Loss}); err != nil {
		return out, err
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
	out.Ratio, out.Clipped = masked(ratio), masked(clipped)
	out.Unclipped, out.Bounded = masked(unclipped), masked(bounded)
	out.TokenLoss, out.Weights, out.Gradient = masked(tokens), masked(weights), masked(loss.Grad)
	out.Loss, out.Constant, out.ClipFraction = loss.Loss, cfg.NormalizeConstant, loss.Stats.ClipFraction()
	out.ClippedTokens, out.Tokens = loss.Stats.ClippedLow+loss.Stats.ClippedHigh, loss.Stats.Tokens
	return out, nil
}

// population computes std and advantages with divisor n, which GRPO's formula does
// not use.
func (r *WalkthroughResult) population() {
	n := float64(len(r.Rewards))
	r.PopulationStd = r.Std * math.Sqrt((n-1)/n)
	r.PopulationAdvantages = slices.Clone(r.Advantages)
	if r.UseStd && r.PopulationStd > 0 {
		for i, reward := range r.Rewards {
			r.PopulationAdvantages[i] = (reward - r.Mean) / (r.PopulationStd + r.Eps)
		}
	}
}

// matrices converts the rows into matrices with a mask.
func (o WalkthroughOptions) matrices() (s rl.Shape, mask []bool, logps, old []float64, err error) {
	if len(o.LogProbs) != len(o.Rewards) || len(o.OldLogProbs) != len(o.Rewards) {
		return s, nil, nil, nil, fmt.Errorf(
			"%d rewards, %d rows of log-probabilities and %d of old ones (give a row of each for each reward)",
			len(o.Rewards), len(o.LogProbs), len(o.OldLogProbs))
	}
	lengths := make([]int, len(o.LogProbs))
	for b, row := range o.LogProbs {
		lengths[b] = len(row)
		if len(o.OldLogProbs[b]) != len(row) {
			return s, nil, nil, nil, fmt.Errorf("completion %d has %d log-probabilities and %d old ones",
				b, len(row), len(o.OldLogProbs[b]))
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
	return s, mask, logps, old, finite("a log-probability", slices.Concat(logps, old)...)
}

// WriteText writes the steps with their matrices.
func (r WalkthroughResult) WriteText(w io.Writer) error {
	page := struct {
		WalkthroughResult
		Lower, Upper string   // bounds of the ratio
		None         []string // completions without an advantage
	}{
		WalkthroughResult: r,
		Lower:             short(round(1-r.epsilon, 9)), Upper: short(round(1+r.epsilonHigh, 9)),
	}
	for b, a := range r.Advantages {
		if a == 0 {
			page.None = append(page.None, strconv.Itoa(b))
		}
	}
	return writePage(w, "walkthrough", page)
}
