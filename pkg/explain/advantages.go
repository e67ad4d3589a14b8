package explain

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/rl"
)

// Prompt is a name and the rewards of the completions of one prompt.
type Prompt struct {
	Name    string    `json:"name"`
	Rewards []float64 `json:"rewards"`
}

// AdvantageOptions are the inputs of [Advantages].
type AdvantageOptions struct {
	// Prompts are the groups of one batch, all of equal size.
	Prompts []Prompt
	Nearly  []float64 // a separate group of nearly equal rewards
	Eps     float64   // added to the standard deviation
}

// DefaultAdvantages is a batch of four prompts with decreasing success, and a group
// in which one completion got 0.001 less than the others.
func DefaultAdvantages() AdvantageOptions {
	return AdvantageOptions{
		Prompts: []Prompt{
			{"all right", []float64{1, 1, 1, 1}},
			{"mixed", []float64{1, 0, 1, 0}},
			{"mostly wrong", []float64{1, 0, 0, 0}},
			{"all wrong", []float64{0, 0, 0, 0}},
		},
		Nearly: []float64{1, 1, 1, 0.999},
		Eps:    1e-6,
	}
}

// AdvantageResult is the result of [Advantages].
type AdvantageResult struct {
	Eps     float64         `json:"eps"`
	Prompts []PromptStats   `json:"prompts"`
	Mean    float64         `json:"batch_mean"`
	Std     float64         `json:"batch_std"`
	Forms   []AdvantageForm `json:"forms"`
	// FracRewardZeroStd is the share of groups with equal rewards.
	FracRewardZeroStd float64 `json:"frac_reward_zero_std"`
	// Nearly are a group of equal rewards, the nearly equal one, and one in which a
	// completion failed. Odd is the completion whose reward differs most.
	Nearly []NearlyGroup `json:"nearly_equal,omitempty"`
	Odd    int           `json:"odd"`

	options AdvantageOptions
}

// PromptStats are a group's rewards with their mean and sample standard deviation.
type PromptStats struct {
	Prompt
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// AdvantageForm is one choice of baseline and scale.
type AdvantageForm struct {
	Name       string        `json:"name"` // local, global, hybrid, raw, centered, maxrl
	Baseline   rl.Baseline   `json:"baseline"`
	Normalizer rl.Normalizer `json:"normalizer"`
	Advantages [][]float64   `json:"advantages"` // a row for each prompt
	// ZeroAdvantage counts prompts whose advantages are all 0.
	ZeroAdvantage int `json:"silent_groups"`
}

// NearlyGroup is a separate group, with advantages with and without division.
type NearlyGroup struct {
	Rewards []float64 `json:"rewards"`
	Std     float64   `json:"std"`
	Local   []float64 `json:"local"` // divided by std + eps
	Plain   []float64 `json:"plain"` // not divided
	// Hybrid is divided by the standard deviation of the batch with this group added;
	// nil if the batch has groups of another size.
	Hybrid []float64 `json:"hybrid"`
	// Factor is 1/(std + eps), which multiplies reward differences; 0 for a group of equal rewards.
	Factor float64 `json:"factor"`
}

var advantageForms = []AdvantageForm{
	{Name: "local", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd},
	{Name: "global", Baseline: rl.BaselineBatchMean, Normalizer: rl.NormalizerBatchStd},
	{Name: "hybrid", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerBatchStd},
	{Name: "raw", Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone},
	{Name: "centered", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerNone},
	{Name: "maxrl", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupMean},
}

// Advantages computes the advantages of a batch of groups in these ways:
//
//	local     (r - group mean) / (group std + eps)    GRPO
//	global    (r - batch mean) / (batch std + eps)    REINFORCE++ without tokens
//	hybrid    (r - group mean) / (batch std + eps)    Lite PPO (arXiv:2508.08221)
//	raw       r                                       RFT
//	centered  r - group mean                          Dr. GRPO
//	maxrl     (r - group mean) / (group mean + eps)   MaxRL, without negative rewards only
//
// and, for a nearly equal group, the effect of dividing by its own deviation. All
// deviations are sample deviations.
func Advantages(o AdvantageOptions) (out AdvantageResult, err error) {
	defer named("advantages", &err)
	if len(o.Prompts) == 0 {
		return out, fmt.Errorf("no groups")
	}
	size := len(o.Prompts[0].Rewards)
	for i, p := range o.Prompts {
		if len(p.Rewards) != size {
			return out, fmt.Errorf("group %d has %d rewards, group 0 has %d (groups of a batch have one size)",
				i, len(p.Rewards), size)
		}
		if err := finite(fmt.Sprintf("a reward of group %d", i), p.Rewards...); err != nil {
			return out, err
		}
	}
	out.Eps, out.options = o.Eps, o
	for _, f := range advantageForms {
		if f.Normalizer == rl.NormalizerGroupMean && slices.Min(o.batch()) < 0 {
			continue
		}
		adv, st, err := rl.GroupAdvantages(o.batch(), size,
			rl.AdvantageOptions{Baseline: f.Baseline, Normalizer: f.Normalizer, Eps: o.Eps})
		if err != nil {
			return out, err
		}
		if err := computed("an advantage ("+f.Name+")", adv); err != nil {
			return out, err
		}
		f.Advantages, f.ZeroAdvantage = rows(rl.Shape{B: len(o.Prompts), T: size}, adv), st.ZeroAdvantageGroups
		out.Forms = append(out.Forms, f)
		out.Mean, out.Std, out.FracRewardZeroStd = st.RewardMean, st.RewardStd, st.FracRewardZeroStd
	}
	if err := computed("the mean or the std of the batch", []float64{out.Mean, out.Std}); err != nil {
		return out, err
	}
	for _, p := range o.Prompts {
		st, err := describe(p.Rewards)
		if err != nil {
			return out, err
		}
		out.Prompts = append(out.Prompts, PromptStats{p, st.RewardMean, st.RewardStd})
	}
	if len(o.Nearly) > 0 {
		out.Nearly, out.Odd, err = o.nearly()
	}
	return out, err
}

// nearly compares the nearly equal group with a group of equal rewards and one in which the odd
// completion failed.
func (o AdvantageOptions) nearly() (groups []NearlyGroup, odd int, err error) {
	if err := finite("a reward of the nearly equal group", o.Nearly...); err != nil {
		return nil, 0, err
	}
	n := len(o.Nearly)
	if n < 2 {
		return nil, 0, fmt.Errorf("a nearly equal group of %d has no standard deviation (give 2 rewards)", n)
	}
	st, err := describe(o.Nearly)
	if err != nil {
		return nil, 0, err
	}
	odd = n - 1
	for i, r := range o.Nearly {
		if math.Abs(r-st.RewardMean) > math.Abs(o.Nearly[odd]-st.RewardMean) {
			odd = i
		}
	}
	usual := o.Nearly[(odd+1)%n]
	equal := slices.Repeat([]float64{usual}, n)
	failed := slices.Clone(equal)
	failed[odd] = usual - 1
	for _, r := range [][]float64{equal, o.Nearly, failed} {
		g, err := o.nearlyGroup(r)
		if err != nil {
			return nil, 0, err
		}
		groups = append(groups, g)
	}
	return groups, odd, nil
}

func (o AdvantageOptions) nearlyGroup(r []float64) (g NearlyGroup, err error) {
	st, err := describe(r)
	if err != nil {
		return g, err
	}
	g = NearlyGroup{Rewards: r, Std: st.RewardStd}
	if g.Std > 0 {
		g.Factor = 1 / (g.Std + o.Eps)
	}
	// last returns the advantages of r as the last group of a batch.
	last := func(batch []float64, n rl.Normalizer) []float64 {
		if err != nil {
			return nil
		}
		var adv []float64
		adv, _, err = rl.GroupAdvantages(batch, len(r),
			rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Normalizer: n, Eps: o.Eps})
		return adv[max(0, len(adv)-len(r)):]
	}
	g.Local, g.Plain = last(r, rl.NormalizerGroupStd), last(r, rl.NormalizerNone)
	if len(r) == len(o.Prompts[0].Rewards) {
		g.Hybrid = last(append(o.batch(), r...), rl.NormalizerBatchStd)
	}
	if err != nil {
		return g, err
	}
	return g, computed("a number of the nearly equal group",
		[]float64{g.Std, g.Factor}, g.Local, g.Plain, g.Hybrid)
}

// describe returns the statistics of one group's rewards.
func describe(rewards []float64) (rl.AdvantageStats, error) {
	_, st, err := rl.GroupAdvantages(rewards, len(rewards),
		rl.AdvantageOptions{Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone})
	if err != nil {
		return st, err
	}
	return st, computed("the mean or the standard deviation of a group", []float64{st.RewardMean, st.RewardStd})
}

// batch is the rewards of all prompts.
func (o AdvantageOptions) batch() []float64 {
	var out []float64
	for _, p := range o.Prompts {
		out = append(out, p.Rewards...)
	}
	return out
}
