package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
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
	Check      *Check    `json:"-"` // nil if the file has no expected values
}

// rewardFields are the fields that both kinds of case have.
type rewardFields struct {
	NumGenerations int       `json:"num_generations" check:"required"`
	RewardsPerFunc value     `json:"rewards_per_func" check:"required"`
	RewardWeights  []float64 `json:"reward_weights"`
	Expected       []float64 `json:"advantages"`

	perFunc [][]float64 // a slice for each reward function
	sum     []float64
}

// GroupedAdvantages reads a batch in TRL's format, lists "grpo" and "rloo", and
// computes the advantages of each case, in the order of the file. eps is added to
// standard deviations; TRL's is [TRLEps]. A reward of null means that the function
// could not score the completion.
func GroupedAdvantages(file string, data []byte, eps float64) (cases []AdvantageCase, err error) {
	defer named("advantages", &err)
	var f struct {
		GRPO value `json:"grpo"`
		RLOO value `json:"rloo"`
		Beta value `json:"rloo_beta_inputs"`
	}
	root, err := document(file, data, &f)
	if err != nil {
		return nil, err
	}
	kl, err := readKL(f.Beta)
	if err != nil {
		return nil, err
	}
	kinds := map[string]func(value) (AdvantageCase, error){
		"grpo": func(v value) (AdvantageCase, error) { return grpoCase(v, eps) },
		"rloo": func(v value) (AdvantageCase, error) { return rlooCase(v, eps, kl) },
	}
	if cases, err = readCases(kinds, f.GRPO, f.RLOO); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, root.errorf(`no cases: there is neither a list "grpo" nor a list "rloo"`)
	}
	return cases, nil
}

// read reads the rewards, which are one number or one row for each completion.
func (f *rewardFields) read(v value) (err error) {
	at := f.RewardsPerFunc
	x, columns := []float64(nil), 1
	if at.nested() {
		var m [][]float64
		if err := at.decode(&m); err != nil {
			return err
		}
		columns = len(m[0])
		x, _, err = flatten(at, m)
	} else {
		err = at.decode(&x)
	}
	if err != nil {
		return err
	}
	if len(x) == 0 {
		return at.errorf("no rewards")
	}
	f.perFunc = make([][]float64, columns)
	for i, r := range x {
		f.perFunc[i%columns] = append(f.perFunc[i%columns], r)
	}
	weights := v.field("reward_weights")
	switch {
	case f.RewardWeights == nil:
		f.RewardWeights = slices.Repeat([]float64{1}, columns)
	case len(f.RewardWeights) != columns:
		return weights.errorf("%d weights for %d reward functions", len(f.RewardWeights), columns)
	}
	if err := weights.noNull(f.RewardWeights); err != nil {
		return err
	}
	if f.sum, err = rl.CombineRewards(f.perFunc, f.RewardWeights); err != nil {
		return v.errorf("%w", err)
	}
	return nil
}

// result checks the advantages and compares them with the expected ones.
func (f *rewardFields) result(v value, name string, adv []float64, err error) (AdvantageCase, error) {
	c := AdvantageCase{Advantages: adv, Name: name, GroupSize: f.NumGenerations, Rewards: f.sum}
	if err == nil {
		err = computed("an advantage", adv)
	}
	if err != nil {
		return c, v.errorf("%w", err)
	}
	if f.Expected == nil {
		return c, nil
	}
	at := v.field("advantages")
	if len(f.Expected) != len(adv) {
		return c, at.errorf("%d expected advantages for %d rewards", len(f.Expected), len(adv))
	}
	c.Check = &Check{}
	c.Check.addAll("advantages", adv, f.Expected, func(i int) string { return fmt.Sprintf("[%d]", i) })
	return c, at.noNull(f.Expected)
}

// grpoCase computes a case of "grpo": scale_rewards group, batch or none after
// summing the functions, or normalize_then_sum (GDPO).
func grpoCase(v value, eps float64) (AdvantageCase, error) {
	const sumFirst, normalizeFirst = "sum_then_normalize", "normalize_then_sum"
	c := struct {
		rewardFields
		Scale     string `json:"scale_rewards"`
		Aggregate string `json:"multi_objective_aggregation"`
	}{Scale: "group", Aggregate: sumFirst}
	err := v.decode(&c, "std_rewards", "is_std_zero", "frac_reward_zero_std")
	if err == nil {
		err = v.field("scale_rewards").choice(c.Scale, "group", "batch", "none")
	}
	if err == nil {
		err = v.field("multi_objective_aggregation").choice(c.Aggregate, sumFirst, normalizeFirst)
	}
	if err == nil {
		err = c.read(v)
	}
	if err != nil {
		return AdvantageCase{}, err
	}
	if c.Aggregate == normalizeFirst {
		adv, err := rl.NormalizeThenSum(c.perFunc, c.RewardWeights, c.NumGenerations, eps)
		return c.result(v, "grpo, "+c.Aggregate, adv, err)
	}
	opt, err := rl.ScaleRewards(c.Scale, eps)
	if err != nil {
		return AdvantageCase{}, v.errorf("%w", err)
	}
	adv, _, err := rl.GroupAdvantages(c.sum, c.NumGenerations, opt)
	return c.result(v, "grpo, "+c.Scale, adv, err)
}

// rlooCase computes a case of "rloo": clipped rewards minus beta times the KL to the reference
// model, minus the mean of the other completions in the group, optionally whitened over the batch.
func rlooCase(v value, eps float64, kl *klInputs) (AdvantageCase, error) {
	var c struct {
		rewardFields
		Range     []float64 `json:"reward_clip_range"`
		Normalize bool      `json:"normalize_advantages"`
		Beta      float64   `json:"beta"`
	}
	if err := v.decode(&c); err != nil {
		return AdvantageCase{}, err
	}
	if err := c.read(v); err != nil {
		return AdvantageCase{}, err
	}
	name := "rloo"
	opt := rl.AdvantageOptions{Baseline: rl.BaselineLeaveOneOut, Normalizer: rl.NormalizerNone, Eps: eps}
	if c.Normalize {
		opt.Normalizer = rl.NormalizerWhiten
		name += ", normalize_advantages"
	}
	if c.Range != nil {
		if len(c.Range) != 2 || !(c.Range[0] <= c.Range[1]) {
			return AdvantageCase{}, v.field("reward_clip_range").errorf("it must be [lowest, highest] or null")
		}
		rl.ClipRewards(c.sum, c.Range[0], c.Range[1])
		name += ", rewards in " + list(c.Range, short)
	}
	if c.Beta != 0 {
		if kl == nil {
			return AdvantageCase{}, v.errorf("beta is %v, but rloo_beta_inputs is missing", c.Beta)
		}
		var err error
		if c.sum, err = rl.KLInReward(kl.shape, c.sum, kl.old, kl.ref, kl.mask, rl.K1, c.Beta); err != nil {
			return AdvantageCase{}, v.errorf("beta is %v: %w", c.Beta, err)
		}
		name += ", beta " + short(c.Beta)
	}
	adv, _, err := rl.GroupAdvantages(c.sum, c.NumGenerations, opt)
	return c.result(v, name, adv, err)
}

// klInputs are the log-probabilities for the KL in the reward.
type klInputs struct {
	shape    rl.Shape
	mask     []bool
	old, ref []float64
}

// readKL reads "rloo_beta_inputs"; it is nil if the file has none.
func readKL(v value) (*klInputs, error) {
	if v.raw == nil {
		return nil, nil
	}
	var in struct {
		Mask [][]float64 `json:"mask" check:"required"`
		Old  [][]float64 `json:"old_per_token_logps" check:"required"`
		Ref  [][]float64 `json:"ref_per_token_logps" check:"required"`
	}
	if err := v.decode(&in); err != nil {
		return nil, err
	}
	k := &klInputs{}
	var err error
	if k.shape, k.mask, err = readMask(v.field("mask"), in.Mask); err != nil {
		return nil, err
	}
	if k.old, err = readTokens(v.field("old_per_token_logps"), in.Old, k.shape, k.mask); err != nil {
		return nil, err
	}
	k.ref, err = readTokens(v.field("ref_per_token_logps"), in.Ref, k.shape, k.mask)
	return k, err
}

// WriteAdvantages writes a table of the cases, a line for each group.
func WriteAdvantages(w io.Writer, file string, cases []AdvantageCase, eps float64) error {
	p := &page{}
	p.title("%s of %s", textutil.Count(len(cases), "case"), file)
	reward := func(x float64) string {
		if math.IsNaN(x) {
			return "n/a"
		}
		return short(round(x, 4))
	}
	signed := func(x float64) string { return fmt.Sprintf("%7s", num(x)) }
	table := [][]string{{"case", "configuration", "group", "rewards", "advantages"}}
	var checks []*Check
	for i, c := range cases {
		number, name, check := strconv.Itoa(i), c.Name, c.Check
		for g := 0; g*c.GroupSize < len(c.Rewards); g++ {
			lo, hi := g*c.GroupSize, (g+1)*c.GroupSize
			table = append(table, []string{
				number, name, strconv.Itoa(g),
				each(c.Rewards[lo:hi], " ", reward), each(c.Advantages[lo:hi], " ", signed),
			})
			checks = append(checks, check)
			number, name, check = "", "", nil // only in the first line of a case
		}
	}
	p.caseTable("llllll", table, checks)
	p.paragraph(`eps %s; standard deviations are sample standard deviations. A reward of n/a was not scored by any
		function: it is left out of the baseline, and its advantage is 0.`, short(eps))
	p.checks(checksOf(cases))
	return p.writeTo(w)
}
