package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// OverlongOptions are the inputs of [Overlong].
type OverlongOptions struct {
	Lengths   []int     // tokens of each completion, <eos> included
	EOS       []bool    // whether it ended by itself
	Rewards   []float64 // of one group
	MaxLength int       // the sampling limit
	// Aggregation weighs the completions, with Constant where it divides by one
	// (0 = MaxLength).
	Aggregation rl.Aggregation
	Constant    float64
	// SoftCache is the width of the ramp of the soft punishment, in tokens; 0
	// means a fifth of MaxLength.
	SoftCache int
}

// DefaultOverlong has two completions of the full length, of which one ended by
// itself with its last token.
func DefaultOverlong() OverlongOptions {
	return OverlongOptions{
		Lengths: []int{500, 3000, 8192, 8192, 400}, EOS: []bool{true, true, false, true, true},
		Rewards: []float64{1, 0, 0, 1, 1}, MaxLength: 8192, Aggregation: rl.TokenMean,
	}
}

// OverlongResult is what [Overlong] computes.
type OverlongResult struct {
	MaxLength   int                  `json:"max_length"`
	Aggregation rl.Aggregation       `json:"aggregation"`
	Completions []OverlongCompletion `json:"completions"`
	// Truncated counts completions without <eos>, AtLimit those of full length.
	Truncated int `json:"truncated"`
	AtLimit   int `json:"at_limit"`
	// Tokens and TokensKept are those of the batch and those that the filter keeps.
	Tokens     int `json:"tokens"`
	TokensKept int `json:"tokens_kept"`
	SoftCache  int `json:"soft_cache"`
}

// OverlongCompletion is one completion with and without the filter.
type OverlongCompletion struct {
	Length  int     `json:"length"`
	EOS     bool    `json:"eos"`
	AtLimit bool    `json:"at_limit"`
	Kept    bool    `json:"kept"`
	Reward  float64 `json:"reward"`
	// Advantage is that of the whole group, the truncated ones included.
	Advantage float64 `json:"advantage"`
	// AdvantageLeftOut is what it would be if the truncated ones did not count in
	// the baseline (this is not done); NaN for the truncated ones.
	AdvantageLeftOut float64 `json:"advantage_if_left_out_of_baseline"`
	// TokenWeight is the weight of each of its tokens in the loss; Share that of
	// the completion among all. With the filter, tokens of truncated ones are
	// masked out.
	TokenWeight         float64 `json:"token_weight"`
	TokenWeightFiltered float64 `json:"token_weight_filtered"`
	Share               float64 `json:"share"`
	ShareFiltered       float64 `json:"share_filtered"`
	// SoftPunishment is added to the reward where lengths are shaped instead.
	SoftPunishment float64 `json:"soft_punishment"`
}

// Overlong shows overlong filtering (mask_truncated_completions; DAPO,
// arXiv:2503.14476): a completion that was cut off by the length limit has no
// <eos>, and its tokens are left out of the loss. It still counts in its group's
// baseline. Weights are those of [rl.Aggregate] over both masks, advantages those
// of [rl.GroupAdvantages] with group mean and standard deviation. Next to it is
// the soft overlong punishment, [gsm8k.SoftOverlong].
func Overlong(o OverlongOptions) (OverlongResult, error) {
	fail := func(err error) (OverlongResult, error) {
		return OverlongResult{}, fmt.Errorf("explain overlong: %w", err)
	}
	n := len(o.Lengths)
	if len(o.EOS) != n || len(o.Rewards) != n {
		return fail(fmt.Errorf("%d lengths, %d marks of <eos> and %d rewards (give one of each for each completion)", n, len(o.EOS), len(o.Rewards)))
	}
	for i, l := range o.Lengths {
		if l > o.MaxLength {
			return fail(fmt.Errorf("completion %d has %d tokens, the limit is %d (raise --max-length)", i, l, o.MaxLength))
		}
	}
	s, mask, err := lengthMask(o.Lengths, 0)
	if err != nil {
		return fail(err)
	}
	if err := finite("a reward", o.Rewards...); err != nil {
		return fail(err)
	}
	if o.Constant == 0 {
		o.Constant = float64(o.MaxLength)
	}
	if o.SoftCache == 0 {
		o.SoftCache = max(o.MaxLength/5, 1)
	}
	if o.SoftCache < 0 || o.SoftCache > o.MaxLength {
		return fail(fmt.Errorf("a ramp of %d tokens; it must be from 0 to the limit of %d", o.SoftCache, o.MaxLength))
	}
	filtered := make([]bool, s.Len())
	scored := make([]float64, n)
	for i, in := range mask {
		filtered[i] = in && o.EOS[i/s.T]
	}
	for b := range scored {
		if scored[b] = o.Rewards[b]; !o.EOS[b] {
			scored[b] = math.NaN()
		}
	}
	opt := rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd, Eps: 1e-6}
	adv, _, err := rl.GroupAdvantages(o.Rewards, n, opt)
	if err != nil {
		return fail(err)
	}
	without, _, err := rl.GroupAdvantages(scored, n, opt)
	if err != nil {
		return fail(err)
	}
	if err := computed("an advantage", slices.Concat(adv, without)...); err != nil {
		return fail(err)
	}
	out := OverlongResult{MaxLength: o.MaxLength, Aggregation: o.Aggregation, SoftCache: o.SoftCache}
	before, err := o.weigh(s, mask)
	if err != nil {
		return fail(err)
	}
	after, err := o.weigh(s, filtered)
	if err != nil {
		return fail(err)
	}
	for b, l := range o.Lengths {
		c := OverlongCompletion{
			Length: l, EOS: o.EOS[b], AtLimit: l >= o.MaxLength, Kept: o.EOS[b], Reward: o.Rewards[b],
			Advantage: adv[b], AdvantageLeftOut: without[b],
			TokenWeight: before.token[b], TokenWeightFiltered: after.token[b], Share: before.share[b], ShareFiltered: after.share[b],
			SoftPunishment: gsm8k.SoftOverlong(l, o.MaxLength, o.SoftCache),
		}
		out.Tokens += l
		if c.AtLimit {
			out.AtLimit++
		}
		if c.Kept {
			out.TokensKept += l
		} else {
			out.Truncated++
			c.AdvantageLeftOut = math.NaN()
		}
		out.Completions = append(out.Completions, c)
	}
	return out, nil
}

type weighed struct{ token, share []float64 }

// weigh returns the weight of a token of each completion and the completion's
// share of all weights.
func (o OverlongOptions) weigh(s rl.Shape, mask []bool) (weighed, error) {
	token, err := tokenWeight(o.Aggregation, o.Constant, s, mask)
	if err != nil {
		return weighed{}, err
	}
	w := weighed{token, make([]float64, s.B)}
	total := 0.0
	for b, n := range rowLengths(s, mask) {
		w.share[b] = float64(n) * token[b]
		total += w.share[b]
	}
	for b := range w.share {
		if total > 0 {
			w.share[b] /= total
		}
	}
	return w, computed("a weight under "+string(o.Aggregation), slices.Concat(w.token, w.share)...)
}
