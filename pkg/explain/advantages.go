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
	// Nearly is a group on its own whose rewards are almost equal.
	Nearly []float64
	// Eps is added to the standard deviation.
	Eps float64
}

// DefaultAdvantages is a batch of four prompts of falling success, and a group
// of which one completion got 0.001 less than the others.
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

// AdvantageResult is what [Advantages] computes.
type AdvantageResult struct {
	Eps     float64         `json:"eps"`
	Prompts []PromptStats   `json:"prompts"`
	Mean    float64         `json:"batch_mean"`
	Std     float64         `json:"batch_std"`
	Forms   []AdvantageForm `json:"forms"`
	// FracRewardZeroStd is the share of groups of equal rewards.
	FracRewardZeroStd float64 `json:"frac_reward_zero_std"`
	// Nearly are a quite equal group, the nearly equal one, and one of which a
	// completion failed; Odd is the completion that is unlike the others.
	Nearly []NearlyGroup `json:"nearly_equal,omitempty"`
	Odd    int           `json:"odd"`
}

// PromptStats are a group's rewards with their mean and sample standard deviation.
type PromptStats struct {
	Prompt
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// AdvantageForm is one choice of baseline and scale.
type AdvantageForm struct {
	Name       string        `json:"name"` // local, global, hybrid
	Baseline   rl.Baseline   `json:"baseline"`
	Normalizer rl.Normalizer `json:"normalizer"`
	Advantages [][]float64   `json:"advantages"` // a row for each prompt
	// Silent counts prompts whose advantages are all 0.
	Silent int `json:"silent_groups"`
}

// NearlyGroup is a group on its own, divided by its standard deviation and not.
type NearlyGroup struct {
	Rewards []float64 `json:"rewards"`
	Std     float64   `json:"std"`
	// Local divides by std + eps, Plain does not divide, Hybrid divides by the
	// standard deviation of the batch with this group added to it.
	Local  []float64 `json:"local"`
	Plain  []float64 `json:"plain"`
	Hybrid []float64 `json:"hybrid"`
	// Factor is 1/(std + eps), what the difference of rewards is multiplied with;
	// 0 for a group of equal rewards, whose advantages are 0.
	Factor float64 `json:"factor"`
}

var advantageForms = []AdvantageForm{
	{Name: "local", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd},
	{Name: "global", Baseline: rl.BaselineBatchMean, Normalizer: rl.NormalizerBatchStd},
	{Name: "hybrid", Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerBatchStd},
}

// Advantages computes the advantages of a batch of groups under three choices:
//
//	local   (r - group mean) / (group std + eps)   GRPO
//	global  (r - batch mean) / (batch std + eps)   REINFORCE++ without tokens
//	hybrid  (r - group mean) / (batch std + eps)   Lite PPO (arXiv:2508.08221)
//
// and, for a nearly equal group, what dividing by its own deviation does. All
// deviations are those of a sample.
func Advantages(o AdvantageOptions) (AdvantageResult, error) {
	fail := func(err error) (AdvantageResult, error) {
		return AdvantageResult{}, fmt.Errorf("explain advantages: %w", err)
	}
	if len(o.Prompts) == 0 {
		return fail(fmt.Errorf("no groups"))
	}
	size := len(o.Prompts[0].Rewards)
	for i, p := range o.Prompts {
		if len(p.Rewards) != size {
			return fail(fmt.Errorf("group %d has %d rewards, group 0 has %d (the groups of a batch are of one size)", i, len(p.Rewards), size))
		}
		if err := finite(fmt.Sprintf("a reward of group %d", i), p.Rewards...); err != nil {
			return fail(err)
		}
	}
	out := AdvantageResult{Eps: o.Eps}
	batch := flatten(o.Prompts)
	for _, f := range advantageForms {
		adv, st, err := rl.GroupAdvantages(batch, size, rl.AdvantageOptions{Baseline: f.Baseline, Normalizer: f.Normalizer, Eps: o.Eps})
		if err != nil {
			return fail(err)
		}
		f.Advantages, f.Silent = rows(rl.Shape{B: len(o.Prompts), T: size}, adv), st.ZeroAdvantageGroups
		out.Forms = append(out.Forms, f)
		out.Mean, out.Std, out.FracRewardZeroStd = st.RewardMean, st.RewardStd, st.FracRewardZeroStd
		if err := computed("an advantage ("+f.Name+")", adv...); err != nil {
			return fail(err)
		}
	}
	if err := computed("the mean or the standard deviation of the batch", out.Mean, out.Std); err != nil {
		return fail(err)
	}
	for _, p := range o.Prompts {
		st, err := describe(p.Rewards)
		if err != nil {
			return fail(err)
		}
		if err := computed("the mean or the standard deviation of a group", st.RewardMean, st.RewardStd); err != nil {
			return fail(err)
		}
		out.Prompts = append(out.Prompts, PromptStats{p, st.RewardMean, st.RewardStd})
	}
	if len(o.Nearly) > 0 {
		var err error
		if out.Nearly, out.Odd, err = o.nearly(); err != nil {
			return fail(err)
		}
	}
	return out, nil
}

// nearly compares the nearly equal group with one that is quite equal and one
// in which the odd completion failed.
func (o AdvantageOptions) nearly() (groups []NearlyGroup, odd int, err error) {
	if err := finite("a reward of the nearly equal group", o.Nearly...); err != nil {
		return nil, 0, err
	}
	n := len(o.Nearly)
	if n < 2 {
		return nil, 0, fmt.Errorf("a nearly equal group of %d has no standard deviation (give 2 rewards or more)", n)
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
	equal, failed := repeat(usual, n), repeat(usual, n)
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

func (o AdvantageOptions) nearlyGroup(r []float64) (NearlyGroup, error) {
	st, err := describe(r)
	if err != nil {
		return NearlyGroup{}, err
	}
	g := NearlyGroup{Rewards: r, Std: st.RewardStd}
	if g.Std > 0 {
		g.Factor = 1 / (g.Std + o.Eps)
	}
	for _, f := range []struct {
		to         *[]float64
		normalizer rl.Normalizer
	}{{&g.Local, rl.NormalizerGroupStd}, {&g.Plain, rl.NormalizerNone}} {
		*f.to, _, err = rl.GroupAdvantages(r, len(r), rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Normalizer: f.normalizer, Eps: o.Eps})
		if err != nil {
			return g, err
		}
	}
	// In a batch with groups of another size there is no hybrid form.
	if len(r) == len(o.Prompts[0].Rewards) {
		batch := append(flatten(o.Prompts), r...)
		adv, _, err := rl.GroupAdvantages(batch, len(r), rl.AdvantageOptions{Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerBatchStd, Eps: o.Eps})
		if err != nil {
			return g, err
		}
		g.Hybrid = adv[len(adv)-len(r):]
	}
	return g, computed("a number of the nearly equal group", slices.Concat([]float64{g.Std, g.Factor}, g.Local, g.Plain, g.Hybrid)...)
}

// describe returns the statistics of one group's rewards.
func describe(rewards []float64) (rl.AdvantageStats, error) {
	_, st, err := rl.GroupAdvantages(rewards, len(rewards), rl.AdvantageOptions{Baseline: rl.BaselineNone, Normalizer: rl.NormalizerNone})
	return st, err
}

func flatten(prompts []Prompt) []float64 {
	var out []float64
	for _, p := range prompts {
		out = append(out, p.Rewards...)
	}
	return out
}

func repeat(x float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = x
	}
	return out
}
