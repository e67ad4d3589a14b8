package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// OverlongOptions are the inputs of [Overlong].
type OverlongOptions struct {
	Lengths     []int     // tokens of each completion, <eos> included
	EOS         []bool    // whether it ended with <eos>
	Rewards     []float64 // of one group
	MaxLength   int       // the sampling limit
	Aggregation rl.Aggregation
	Constant    float64 // Z of the aggregations that divide by one; 0 = MaxLength
	SoftCache   int     // ramp of the soft punishment, in tokens; 0 = a fifth of MaxLength
}

// DefaultOverlong has two completions of the full length; one of them ended with
// its last token.
func DefaultOverlong() OverlongOptions {
	return OverlongOptions{
		Lengths: []int{500, 3000, 8192, 8192, 400}, EOS: []bool{true, true, false, true, true},
		Rewards: []float64{1, 0, 0, 1, 1}, MaxLength: 8192, Aggregation: rl.TokenMean,
	}
}

// OverlongResult is the result of [Overlong].
type OverlongResult struct {
	MaxLength   int                  `json:"max_length"`
	Aggregation rl.Aggregation       `json:"aggregation"`
	Completions []OverlongCompletion `json:"completions"`
	Truncated   int                  `json:"truncated"` // completions without <eos>
	AtLimit     int                  `json:"at_limit"`  // completions of full length
	Tokens      int                  `json:"tokens"`
	TokensKept  int                  `json:"tokens_kept"` // by the filter
	SoftCache   int                  `json:"soft_cache"`
}

// OverlongCompletion is one completion with and without the filter.
type OverlongCompletion struct {
	Length  int     `json:"length"`
	EOS     bool    `json:"eos"`
	AtLimit bool    `json:"at_limit"`
	Kept    bool    `json:"kept"`
	Reward  float64 `json:"reward"`
	// Advantage is computed with the whole group, truncated completions included.
	Advantage float64 `json:"advantage"`
	// AdvantageLeftOut is the advantage if the baseline excluded truncated completions (training
	// does not do this); NaN for these.
	AdvantageLeftOut float64 `json:"advantage_if_left_out_of_baseline"`
	// TokenWeight is the weight of each of its tokens in the loss, Share its part of all weights.
	// The filter masks out truncated completions.
	TokenWeight         float64 `json:"token_weight"`
	TokenWeightFiltered float64 `json:"token_weight_filtered"`
	Share               float64 `json:"share"`
	ShareFiltered       float64 `json:"share_filtered"`
	// SoftPunishment is the alternative to the filter, added to the reward.
	SoftPunishment float64 `json:"soft_punishment"`
}

// Overlong shows overlong filtering (mask_truncated_completions; DAPO,
// arXiv:2503.14476): a completion that the length limit truncated has no <eos>, and
// its tokens are masked out of the loss. It still counts in its group's baseline.
// Weights are those of [rl.Aggregate] over both masks, advantages those of
// [rl.GroupAdvantages] with group mean and standard deviation. The soft overlong
// punishment, [gsm8k.SoftOverlong], is shown for comparison.
func Overlong(o OverlongOptions) (out OverlongResult, err error) {
	defer named("overlong", &err)
	n := len(o.Lengths)
	if len(o.EOS) != n || len(o.Rewards) != n {
		return out, fmt.Errorf("%d lengths, %d marks of <eos> and %d rewards (give one of each for each completion)",
			n, len(o.EOS), len(o.Rewards))
	}
	for i, l := range o.Lengths {
		if l > o.MaxLength {
			return out, fmt.Errorf("completion %d has %d tokens, the limit is %d (raise --max-length)", i, l, o.MaxLength)
		}
	}
	s, mask, err := lengthMask(o.Lengths, 0)
	if err != nil {
		return out, err
	}
	if err := finite("a reward", o.Rewards...); err != nil {
		return out, err
	}
	o.Constant, o.SoftCache = cmp.Or(o.Constant, float64(o.MaxLength)), cmp.Or(o.SoftCache, max(o.MaxLength/5, 1))
	if o.SoftCache < 0 || o.SoftCache > o.MaxLength {
		return out, fmt.Errorf("a ramp of %d tokens; it must be from 0 to the limit of %d", o.SoftCache, o.MaxLength)
	}
	filtered, kept := make([]bool, s.Len()), make([]float64, n)
	for i, in := range mask {
		filtered[i] = in && o.EOS[i/s.T]
	}
	for b, ended := range o.EOS {
		kept[b] = math.NaN() // leaves the completion out of the baseline
		if ended {
			kept[b] = o.Rewards[b]
		}
	}
	opt := rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd, Eps: 1e-6}
	adv, _, err := rl.GroupAdvantages(o.Rewards, n, opt)
	if err != nil {
		return out, err
	}
	without, _, err := rl.GroupAdvantages(kept, n, opt)
	if err != nil {
		return out, err
	}
	if err := computed("an advantage", adv, without); err != nil {
		return out, err
	}
	weight, share, _, err := tokenWeights(o.Aggregation, o.Constant, s, mask)
	if err != nil {
		return out, err
	}
	weightFiltered, shareFiltered, _, err := tokenWeights(o.Aggregation, o.Constant, s, filtered)
	if err != nil {
		return out, err
	}
	out = OverlongResult{MaxLength: o.MaxLength, Aggregation: o.Aggregation, SoftCache: o.SoftCache}
	for b, l := range o.Lengths {
		c := OverlongCompletion{
			Length: l, EOS: o.EOS[b], AtLimit: l >= o.MaxLength, Kept: o.EOS[b], Reward: o.Rewards[b],
			Advantage: adv[b], AdvantageLeftOut: without[b],
			TokenWeight: weight[b], TokenWeightFiltered: weightFiltered[b],
			Share: share[b], ShareFiltered: shareFiltered[b],
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

// WriteText writes the table and the conclusions.
func (r OverlongResult) WriteText(w io.Writer) error {
	page := struct {
		OverlongResult
		First          *OverlongCompletion // that is kept
		Early          *OverlongCompletion // truncated below the limit
		Changed        *OverlongCompletion // kept, with another baseline
		Complete       int                 // complete at the limit
		TruncatedShare float64
	}{OverlongResult: r}
	for i := range r.Completions {
		c := &r.Completions[i]
		switch {
		case !c.Kept:
			page.TruncatedShare += c.Share
			if page.Early == nil && !c.AtLimit {
				page.Early = c
			}
			continue
		case c.AtLimit:
			page.Complete++
		}
		page.First = cmp.Or(page.First, c)
		if page.Changed == nil && math.Abs(c.Advantage-c.AdvantageLeftOut) > 1e-9 {
			page.Changed = c
		}
	}
	return writePage(w, "overlong", page)
}
