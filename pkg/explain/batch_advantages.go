package explain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"grpo/pkg/rl"
)

// TRLEps is added to standard deviations by TRL.
const TRLEps = 1e-4

// AdvantageCase is one case of a batch and its advantages (N).
type AdvantageCase struct {
	Advantages []float64 `json:"advantages"`
	Name       string    `json:"-"`
	GroupSize  int       `json:"-"`
	Rewards    []float64 `json:"-"` // summed over the reward functions, NaN where not scored
	Check      Check     `json:"-"`
}

type advantageFile struct {
	GRPO []grpoCase `json:"grpo"`
	RLOO []rlooCase `json:"rloo"`
	Beta *klInputs  `json:"rloo_beta_inputs"`
}

// groupedRewards are the fields that both kinds of case have.
type groupedRewards struct {
	NumGenerations int     `json:"num_generations"`
	RewardsPerFunc numbers `json:"rewards_per_func"` // a row or a number for each completion
	RewardWeights  numbers `json:"reward_weights"`
	Expected       numbers `json:"advantages"`
}

// grpoCase has scale_rewards group, batch or none after summing the functions, or
// normalize_then_sum (GDPO).
type grpoCase struct {
	groupedRewards
	Scale     string `json:"scale_rewards"`
	Aggregate string `json:"multi_objective_aggregation"`
	// The reference data has more results.
	Std      jsontext.Value `json:"std_rewards"`
	ZeroStd  jsontext.Value `json:"is_std_zero"`
	FracZero jsontext.Value `json:"frac_reward_zero_std"`
}

const sumFirst, normalizeFirst = "sum_then_normalize", "normalize_then_sum"

// rlooCase is clipped rewards minus beta times the KL to the reference model, minus the mean of the
// other completions in the group, optionally whitened over the batch.
type rlooCase struct {
	groupedRewards
	Range     numbers `json:"reward_clip_range"`
	Normalize bool    `json:"normalize_advantages"`
	Beta      float64 `json:"beta"`
}

// klInputs are the log-probabilities for the KL in the reward.
type klInputs struct {
	Mask numbers `json:"mask"`
	Old  numbers `json:"old_per_token_logps"`
	Ref  numbers `json:"ref_per_token_logps"`

	mask []bool
}

// GroupedAdvantages reads a batch in TRL's format, lists "grpo" and "rloo", and
// computes the advantages of each case, in the order of the file. eps is added to
// standard deviations; TRL's is [TRLEps]. A reward of null means that the function
// could not score the completion. A file with "calls" has calls of the assignment's functions ([Call]).
func GroupedAdvantages(f File, eps float64) (Batch, error) {
	if b, ok, err := called(f, "advantages"); ok {
		return b, err
	}
	cases, err := groupedAdvantages(f, eps)
	table := func(cases []AdvantageCase, _ []Check) caseTable { return advantageTable(cases, eps) }
	return newBatch(f, "case", cases, func(c AdvantageCase) Check { return c.Check }, table), err
}

func groupedAdvantages(f File, eps float64) (cases []AdvantageCase, err error) {
	defer f.wrap("advantages", &err)
	var in advantageFile
	if err := f.decode(&in, defaulted(grpoCase{Scale: "group", Aggregate: sumFirst})); err != nil {
		return nil, err
	}
	if in.Beta != nil {
		if err := in.Beta.check("/rloo_beta_inputs"); err != nil {
			return nil, err
		}
	}
	grpo, err := readCases("grpo", in.GRPO, func(c grpoCase, at path) (AdvantageCase, error) { return c.compute(at, eps) })
	if err != nil {
		return nil, err
	}
	rloo, err := readCases("rloo", in.RLOO, func(c rlooCase, at path) (AdvantageCase, error) {
		return c.compute(at, eps, in.Beta)
	})
	if err != nil {
		return nil, err
	}
	if cases = inOrder(f, "grpo", grpo, "rloo", rloo); len(cases) == 0 {
		return nil, errors.New(`no cases: there is neither a list "grpo" nor a list "rloo"`)
	}
	return cases, nil
}

// rewards returns the rewards of each function, their weights and their weighted sum.
func (g *groupedRewards) rewards(at path) (perFunc [][]float64, weights, sum []float64, err error) {
	in, atWeights := g.RewardsPerFunc, at.field("reward_weights")
	weights = g.RewardWeights.x
	switch {
	case len(in.x) == 0:
		err = at.field("rewards_per_func").errorf("no rewards, or missing")
	case g.NumGenerations == 0:
		err = at.field("num_generations").errorf("missing")
	case weights == nil:
		weights = slices.Repeat([]float64{1}, in.T)
	case !g.RewardWeights.flat || len(weights) != in.T:
		err = atWeights.errorf("%d weights for %d reward functions", len(weights), in.T)
	default:
		err = g.RewardWeights.noNull(atWeights)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	perFunc = make([][]float64, in.T)
	for i, r := range in.x {
		perFunc[i%in.T] = append(perFunc[i%in.T], r)
	}
	if sum, err = rl.CombineRewards(perFunc, weights); err != nil {
		err = at.errorf("%w", err)
	}
	return perFunc, weights, sum, err
}

// result checks the advantages and compares them with the expected ones.
func (g *groupedRewards) result(at path, name string, rewards, adv []float64, err error) (AdvantageCase, error) {
	c := AdvantageCase{Advantages: adv, Name: name, GroupSize: g.NumGenerations, Rewards: rewards}
	if err == nil {
		err = computed("an advantage", adv)
	}
	if err != nil {
		return c, at.errorf("%w", err)
	}
	if g.Expected.x == nil {
		return c, nil
	}
	at = at.field("advantages")
	if !g.Expected.flat || len(g.Expected.x) != len(adv) {
		return c, at.errorf("%d expected advantages for %d rewards", len(g.Expected.x), len(adv))
	}
	c.Check.add("advantages", adv, g.Expected.x)
	return c, g.Expected.noNull(at)
}

func (c grpoCase) compute(at path, eps float64) (AdvantageCase, error) {
	err := at.field("scale_rewards").choice(c.Scale, "group", "batch", "none")
	if err == nil {
		err = at.field("multi_objective_aggregation").choice(c.Aggregate, sumFirst, normalizeFirst)
	}
	if err != nil {
		return AdvantageCase{}, err
	}
	perFunc, weights, sum, err := c.rewards(at)
	if err != nil {
		return AdvantageCase{}, err
	}
	if c.Aggregate == normalizeFirst {
		adv, err := rl.NormalizeThenSum(perFunc, weights, c.NumGenerations, eps)
		return c.result(at, "grpo, "+c.Aggregate, sum, adv, err)
	}
	opt, err := rl.ScaleRewards(c.Scale, eps)
	if err != nil {
		return AdvantageCase{}, at.errorf("%w", err)
	}
	adv, _, err := rl.GroupAdvantages(sum, c.NumGenerations, opt)
	return c.result(at, "grpo, "+c.Scale, sum, adv, err)
}

func (c rlooCase) compute(at path, eps float64, kl *klInputs) (AdvantageCase, error) {
	_, _, sum, err := c.rewards(at)
	if err != nil {
		return AdvantageCase{}, err
	}
	name := "rloo"
	opt := rl.AdvantageOptions{Baseline: rl.BaselineLeaveOneOut, Normalizer: rl.NormalizerNone, Eps: eps}
	if c.Normalize {
		opt.Normalizer = rl.NormalizerWhiten
		name += ", normalize_advantages"
	}
	if r := c.Range.x; r != nil {
		if !c.Range.flat || len(r) != 2 || !(r[0] <= r[1]) {
			return AdvantageCase{}, at.field("reward_clip_range").errorf("it must be [lowest, highest] or null")
		}
		rl.ClipRewards(sum, r[0], r[1])
		name += ", rewards in " + list(r, short)
	}
	if c.Beta != 0 {
		if kl == nil {
			return AdvantageCase{}, at.errorf("beta is %v, but rloo_beta_inputs is missing", c.Beta)
		}
		if sum, err = rl.KLInReward(kl.Mask.Shape, sum, kl.Old.x, kl.Ref.x, kl.mask, rl.K1, c.Beta); err != nil {
			return AdvantageCase{}, at.errorf("beta is %v: %w", c.Beta, err)
		}
		name += ", beta " + short(c.Beta)
	}
	adv, _, err := rl.GroupAdvantages(sum, c.NumGenerations, opt)
	return c.result(at, name, sum, adv, err)
}

// check converts the mask, and returns an error unless both matrices are of its shape.
func (k *klInputs) check(at path) (err error) {
	if k.mask, err = k.Mask.bits(at.field("mask")); err == nil {
		err = k.Old.check(at.field("old_per_token_logps"), k.Mask.Shape, k.mask)
	}
	if err == nil {
		err = k.Ref.check(at.field("ref_per_token_logps"), k.Mask.Shape, k.mask)
	}
	return err
}

// advantageTable has a row for each group.
func advantageTable(cases []AdvantageCase, eps float64) caseTable {
	reward := func(x float64) string {
		if math.IsNaN(x) {
			return "n/a"
		}
		return short(round(x, 4))
	}
	signed := func(x float64) string { return fmt.Sprintf("%7s", num(x)) }
	t := caseTable{columns: "l", rows: [][]string{{"case", "configuration", "group", "rewards", "advantages"}}}
	for i, c := range cases {
		number, name, check := strconv.Itoa(i), c.Name, c.Check
		for g := 0; g*c.GroupSize < len(c.Rewards); g++ {
			lo, hi := g*c.GroupSize, (g+1)*c.GroupSize
			t.rows = append(t.rows, []string{
				number, name, strconv.Itoa(g),
				each(c.Rewards[lo:hi], " ", reward), each(c.Advantages[lo:hi], " ", signed),
			})
			t.checks = append(t.checks, check)
			number, name, check = "", "", Check{} // only in the first line of a case
		}
	}
	t.notes = []string{"eps " + short(eps) + "; standard deviations are sample standard deviations. A reward of n/a was " +
		"not scored by any function: it is left out of the baseline, and its advantage is 0."}
	return t
}
