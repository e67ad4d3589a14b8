package explain

import (
	"fmt"
	"math"
	"strings"

	"grpo/pkg/rl"
)

// TRLEps is what TRL adds to a standard deviation.
const TRLEps = 1e-4

// BatchAdvantages are the advantages (N) of one case of a batch.
type BatchAdvantages struct {
	Advantages []float64 `json:"advantages"`
}

// AdvantageCase is one case of a batch and what it gives.
type AdvantageCase struct {
	Name      string
	GroupSize int
	Rewards   []float64 // summed over the reward functions, NaN where unscored
	Result    BatchAdvantages
	// Check compares with the values that stand in the file, nil without any.
	Check *Check
}

// GroupedAdvantages reads a batch in TRL's form, lists "grpo" and "rloo", and
// computes the advantages of each case, in the order of the file. eps is added to
// standard deviations; TRL's is [TRLEps]. A reward of null means that the
// function could not score the completion.
//
// Errors name the file, the case and the field.
func GroupedAdvantages(file string, data []byte, eps float64) ([]AdvantageCase, error) {
	out, err := groupedAdvantages(file, data, eps)
	if err != nil {
		return nil, fmt.Errorf("explain advantages: %w", err)
	}
	return out, nil
}

func groupedAdvantages(file string, data []byte, eps float64) ([]AdvantageCase, error) {
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	kl := readPenalty(root)
	var out []AdvantageCase
	read := map[string]func(node) (AdvantageCase, error){
		"grpo": func(n node) (AdvantageCase, error) { return readGRPO(n, eps) },
		"rloo": func(n node) (AdvantageCase, error) { return readRLOO(n, eps, kl) },
	}
	for _, name := range root.order {
		f, known := read[name]
		if !known {
			continue
		}
		list, ok := root.must(name)
		if !ok {
			break
		}
		err := list.each(maxCases, func(_ int, n node) error {
			c, err := f(n)
			out = append(out, c)
			return err
		})
		if err != nil {
			root.fail(err)
		}
	}
	if len(out) == 0 {
		root.fail(root.at.errorf("no cases: there is neither a list \"grpo\" nor one \"rloo\""))
	}
	root.ignore("grpo", "rloo")
	return out, root.done()
}

// rewardTable are the rewards of a case, a slice for each function.
type rewardTable struct {
	perFunc [][]float64
	weights []float64
	group   int
}

// readRewards reads the fields that both lists have.
func readRewards(f *fields) (t rewardTable) {
	t.group = f.integer("num_generations", 0, 1, maxNumbers)
	if t.group == 0 {
		f.must("num_generations")
	}
	n, ok := f.must("rewards_per_func")
	if !ok || f.err != nil {
		return t
	}
	x, columns, err := []float64(nil), 1, error(nil)
	if n.nested() {
		x, _, columns, err = n.matrix(true)
	} else {
		x, err = n.numbers(true)
	}
	switch {
	case err != nil:
		f.fail(err)
		return t
	case len(x) == 0:
		f.fail(n.errorf("no rewards"))
		return t
	}
	t.perFunc = make([][]float64, columns)
	for i, r := range x {
		t.perFunc[i%columns] = append(t.perFunc[i%columns], r)
	}
	t.weights = repeat(1, columns)
	if n, ok := f.get("reward_weights"); ok {
		if t.weights, err = n.numbers(false); err != nil {
			f.fail(err)
		} else if len(t.weights) != columns {
			f.fail(n.errorf("%d weights for %d reward functions", len(t.weights), columns))
		}
	}
	return t
}

// readGRPO reads and computes a case of "grpo": scale_rewards group, batch or
// none after summing the functions, or normalize_then_sum (GDPO).
func readGRPO(n node, eps float64) (AdvantageCase, error) {
	f := n.fields()
	t := readRewards(f)
	scale := f.choice("scale_rewards", "group", "group", "batch", "none")
	multi := f.choice("multi_objective_aggregation", "sum_then_normalize", "sum_then_normalize", "normalize_then_sum")
	want := readVector(f, "advantages")
	f.ignore("std_rewards", "is_std_zero", "frac_reward_zero_std")
	out := AdvantageCase{Name: "grpo, " + scale, GroupSize: t.group}
	if multi == "normalize_then_sum" {
		out.Name = "grpo, " + multi
	}
	if err := f.done(); err != nil {
		return out, err
	}
	sum, err := rl.CombineRewards(t.perFunc, t.weights)
	if err != nil {
		return out, n.errorf("%w", err)
	}
	out.Rewards = sum
	if multi == "normalize_then_sum" {
		out.Result.Advantages, err = rl.NormalizeThenSum(t.perFunc, t.weights, t.group, eps)
	} else {
		var opt rl.AdvantageOptions
		if opt, err = rl.ScaleRewards(scale, eps); err == nil {
			out.Result.Advantages, _, err = rl.GroupAdvantages(sum, t.group, opt)
		}
	}
	if err != nil {
		return out, n.errorf("%w", err)
	}
	if err := computed("an advantage", out.Result.Advantages...); err != nil {
		return out, n.errorf("%w", err)
	}
	out.Check, err = want.check(n, out.Result.Advantages)
	return out, err
}

// readRLOO reads and computes a case of "rloo": rewards clipped to a range, less
// beta times the KL to the reference, minus the mean of the others of the group,
// whitened over the batch if asked for.
func readRLOO(n node, eps float64, kl *penalty) (AdvantageCase, error) {
	f := n.fields()
	t := readRewards(f)
	beta := f.float("beta", 0)
	opt := rl.AdvantageOptions{Baseline: rl.BaselineLeaveOneOut, Normalizer: rl.NormalizerNone, Eps: eps}
	name := []string{"rloo"}
	if f.boolean("normalize_advantages") {
		opt.Normalizer = rl.NormalizerWhiten
		name = append(name, "normalize_advantages")
	}
	var bounds []float64
	if m, ok := f.get("reward_clip_range"); ok {
		var err error
		if bounds, err = m.numbers(false); err != nil {
			f.fail(err)
		} else if len(bounds) != 2 || bounds[0] > bounds[1] {
			f.fail(m.errorf("it must be [lowest, highest] or null"))
		} else {
			name = append(name, "rewards in "+listShort(bounds))
		}
	}
	want := readVector(f, "advantages")
	if beta != 0 {
		name = append(name, "beta "+short(beta))
	}
	out := AdvantageCase{Name: strings.Join(name, ", "), GroupSize: t.group}
	if err := f.done(); err != nil {
		return out, err
	}
	sum, err := rl.CombineRewards(t.perFunc, t.weights)
	if err != nil {
		return out, n.errorf("%w", err)
	}
	if bounds != nil {
		rl.ClipRewards(sum, bounds[0], bounds[1])
	}
	if beta != 0 {
		if sum, err = kl.subtract(sum, beta); err != nil {
			return out, n.errorf("beta is %v: %w", beta, err)
		}
	}
	out.Rewards = sum
	if out.Result.Advantages, _, err = rl.GroupAdvantages(sum, t.group, opt); err != nil {
		return out, n.errorf("%w", err)
	}
	if err := computed("an advantage", out.Result.Advantages...); err != nil {
		return out, n.errorf("%w", err)
	}
	out.Check, err = want.check(n, out.Result.Advantages)
	return out, err
}

// penalty are the log-probabilities that a KL in the reward is taken from,
// "rloo_beta_inputs" of a file; nil if it has none.
type penalty struct {
	in tokenInputs
}

func readPenalty(root *fields) *penalty {
	n, ok := root.get("rloo_beta_inputs")
	if !ok {
		return nil
	}
	f := n.fields()
	p := &penalty{}
	p.in.readMask(f)
	p.in.old = p.in.tokens(f, "old_per_token_logps", true)
	p.in.ref = p.in.tokens(f, "ref_per_token_logps", true)
	if err := f.done(); err != nil {
		root.fail(err)
	}
	return p
}

// subtract takes beta times the k1 estimate off each reward, as TRL's RLOO does.
func (p *penalty) subtract(rewards []float64, beta float64) ([]float64, error) {
	switch {
	case p == nil:
		return nil, fmt.Errorf("the file has no rloo_beta_inputs to take the KL from")
	case p.in.mask == nil || p.in.old == nil || p.in.ref == nil:
		return nil, fmt.Errorf("rloo_beta_inputs could not be read")
	}
	return rl.KLInReward(p.in.shape, rewards, p.in.old, p.in.ref, p.in.mask, rl.K1, beta)
}

// vector are expected values, nil if the file has none.
type vector []float64

func readVector(f *fields, name string) vector {
	n, ok := f.get(name)
	if !ok {
		return nil
	}
	x, err := n.numbers(true)
	if err != nil {
		f.fail(err)
	}
	return x
}

func (want vector) check(at node, got []float64) (*Check, error) {
	if want == nil {
		return nil, nil
	}
	if len(want) != len(got) {
		return nil, at.errorf("%d expected advantages for %d rewards", len(want), len(got))
	}
	c := &Check{}
	for i, w := range want {
		if math.IsNaN(w) {
			return nil, at.errorf("advantages[%d] is null; an expected advantage is a number", i)
		}
		c.add(fmt.Sprintf("advantages[%d]", i), got[i], w)
	}
	return c, nil
}
