package cmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/pkg/explain"
	"grpo/pkg/rl"
)

// Help of flags of several worked examples.
const (
	lengthsHelp  = "tokens of each completion"
	epsHelp      = "added to the standard deviation"
	epsilonHelp  = "lower bound of the ratio is 1 - epsilon (cliprange)"
	constantHelp = "constant divisor Z of the aggregations that have one "
)

func newExplainLengthNorm(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "lengthnorm",
		Short: "masked_mean and masked_normalize: the weight of a token",
		Example: `  grpo explain lengthnorm
  grpo explain lengthnorm --lengths 50,400 --constant 512
  grpo explain lengthnorm --masks 1111000,1111111 --advantages 1,-1 --json`,
	}
	o := worked(s, c, explain.DefaultLengthNorm(), explain.LengthNorm)
	f := c.Flags()
	f.IntSliceVar(&o.Lengths, "lengths", o.Lengths, lengthsHelp)
	f.IntVar(&o.MaxLength, "max-length", 0, "tokens per row (0 = the longest completion)")
	listVar(f, &o.Masks, "masks", "masks instead of lengths, as `bits` such as 1111000,1111111", parseMasks)
	f.Float64SliceVar(&o.Advantages, "advantages", o.Advantages,
		"advantages of the completions, as comma-separated `floats`, or one for all")
	f.Float64Var(&o.Ratio, "ratio", o.Ratio, "importance ratio of every token")
	f.Float64Var(&o.Constant, "constant", 0, "divisor of masked_normalize (0 = tokens per row)")
	c.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if len(o.Masks) > 0 && (f.Changed("lengths") || f.Changed("max-length")) {
			return usagef(cmd, "--masks sets the lengths; leave out --lengths and --max-length")
		}
		return nil
	}
	return c
}

func parseMasks(text string) (masks [][]bool, err error) {
	for n, s := range strings.Split(text, ",") {
		var row []bool
		for i, r := range s {
			if r != '0' && r != '1' {
				return nil, fmt.Errorf("mask %d: character %d is %q; a mask is written in 0 and 1", n, i, r)
			}
			row = append(row, r == '1')
		}
		masks = append(masks, row)
	}
	return masks, nil
}

func newExplainAdvantages(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "advantages",
		Short: "Advantages of GRPO, Dr. GRPO, RFT, MaxRL and others; a group with a tiny std; your own cases",
		Long: `Advantages shows four prompts with four rewards each under several baselines and
normalizations, how much each prompt weighs, and the effect of dividing by the std on
a group of nearly equal rewards.

With --batch it computes the advantages of a file. CS336 assignment 5: "calls" of
compute_group_normalized_rewards with raw_rewards, group_size, advantage_eps and
normalize_by_std (2025) or baseline and advantage_normalizer (2026), and yours as
advantages or normalized_rewards; "grpo explain loss --help" has the other functions,
which may be in the same file. TRL: lists "grpo" and "rloo": each case has
rewards_per_func (a row of rewards for each completion, null = not scorable) and
num_generations; grpo cases may have reward_weights, scale_rewards (group, batch,
none) and multi_objective_aggregation (sum_then_normalize, normalize_then_sum); rloo
cases reward_weights, reward_clip_range, normalize_advantages and beta. --json prints a list of
{"advantages"} in the order of the cases. Expected advantages in a case are
compared; a difference ends the command with exit code 1.`,
		Example: `  grpo explain advantages
  grpo explain advantages --group 1,1,0,0 --group 1,0,0,0 --nearly 0.5,0.5,0.5,0.49
  grpo explain advantages --example > calls.json && grpo explain advantages --batch calls.json
  grpo explain advantages --batch cases.json --json`,
	}
	o := worked(s, c, explain.DefaultAdvantages(), explain.Advantages)
	example, f := c.RunE, c.Flags()
	cases := &batchOptions{}
	f.StringVar(&cases.file, "batch", "", "`file` of cases in the assignment's or TRL's names (\"-\" = standard input)")
	addExample(c, cases)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if changed(cmd, "batch", "example", "edition") == "" {
			return example(cmd, args)
		}
		if other := changed(cmd, "group", "nearly", "out"); other != "" {
			return usagef(cmd, "a file of --batch or --example has its own rewards; leave out --%s", other)
		}
		cases.eps = explain.TRLEps
		cases.json, _ = f.GetBool("json")
		if f.Changed("eps") {
			cases.eps = o.Eps
		}
		return runBatch(cmd, s, cases, func(file explain.File) (explain.Batch, error) {
			b, err := explain.GroupedAdvantages(file, cases.eps)
			if err == nil && f.Changed("eps") && b.HasCalls() {
				return b, usagef(cmd, "the calls of %s have their own advantage_eps; leave out --eps", file.Name)
			}
			return b, err
		})
	}
	listVar(f, &o.Prompts, "group",
		"rewards of one prompt's completions, `floats` such as 1,0,0,1 (repeat for each prompt)", parseGroup())
	f.Float64SliceVar(&o.Nearly, "nearly", o.Nearly,
		"rewards of the nearly equal group, as comma-separated `floats`")
	f.Float64Var(&o.Eps, "eps", o.Eps, epsHelp+" (with --batch: TRL's 0.0001 unless given)")
	return c
}

// parseGroup returns a function that names the groups in their order.
func parseGroup() func(string) ([]explain.Prompt, error) {
	n := -1
	return func(text string) ([]explain.Prompt, error) {
		n++
		rewards, err := parseRow(text)
		return []explain.Prompt{{Name: "prompt " + strconv.Itoa(n), Rewards: rewards}}, err
	}
}

// parseRow parses numbers separated by commas.
func parseRow(text string) (row []float64, err error) {
	for x := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", x)
		}
		row = append(row, v)
	}
	return row, nil
}

func newExplainClip(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "clip",
		Short: "The clipped objective for both signs of the advantage; plots a figure with --out",
		Example: `  grpo explain clip
  grpo explain clip --logp -4.2 --epsilon-high 0.2,0.28,0.5 --out clip.png`,
	}
	o := worked(s, c, explain.DefaultClip(), explain.Clip)
	f := c.Flags()
	f.Float64Var(&o.OldLogProb, "old-logp", o.OldLogProb, "log-probability of the token at sampling time")
	f.Float64Var(&o.LogProb, "logp", o.LogProb, "its log-probability now")
	f.Float64Var(&o.Epsilon, "epsilon", o.Epsilon, epsilonHelp)
	f.Float64SliceVar(&o.EpsilonHigh, "epsilon-high", o.EpsilonHigh,
		"`floats` to compare; the upper bound of the ratio is 1 + epsilon_high")
	f.Float64Var(&o.Advantage, "advantage", o.Advantage, "absolute value of the advantage")
	f.Float64Var(&o.DualClip, "dual-clip", o.DualClip, "verl's clip_ratio_c (0 = none)")
	return c
}

func newExplainAggregation(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "aggregation",
		Short: "The weight of completions of different lengths under each aggregation",
		Example: `  grpo explain aggregation
  grpo explain aggregation --lengths 20,200,2000 --constant 4096`,
	}
	o := worked(s, c, explain.DefaultAggregation(), explain.Aggregation)
	f := c.Flags()
	f.IntSliceVar(&o.Lengths, "lengths", o.Lengths, lengthsHelp)
	f.Float64Var(&o.Constant, "constant", 0, constantHelp+"(0 = the longest completion)")
	return c
}

func newExplainOverlong(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "overlong",
		Short: "Overlong filtering: completions truncated at the length limit",
		Example: `  grpo explain overlong
  grpo explain overlong --lengths 100,512,512 --eos yes,yes,no --rewards 1,1,0 --max-length 512`,
	}
	o := worked(s, c, explain.DefaultOverlong(), explain.Overlong)
	f := c.Flags()
	f.IntSliceVar(&o.Lengths, "lengths", o.Lengths, lengthsHelp+" of one group")
	listVar(f, &o.EOS, "eos",
		"whether each completion ended with <eos>: `yes|no` (default yes,yes,no,yes,yes)", parseYesNo)
	f.Float64SliceVar(&o.Rewards, "rewards", o.Rewards,
		"rewards of the completions, as comma-separated `floats`")
	f.IntVar(&o.MaxLength, "max-length", o.MaxLength, "maximum tokens of a completion")
	f.Float64Var(&o.Constant, "constant", 0, constantHelp+"(0 = the limit)")
	f.IntVar(&o.SoftCache, "soft-cache", 0, "ramp of the soft punishment, in tokens (0 = a fifth of the limit)")
	aggregationVar(c, &o.Aggregation)
	return c
}

func newExplainPassK(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "passk",
		Short: "pass@k from n completions, and why 1 - (1 - c/n)^k is biased",
		Example: `  grpo explain passk
  grpo explain passk --n 16 --correct 3 --k 1,4,16 --json`,
	}
	o := worked(s, c, explain.DefaultPassK(), explain.PassK)
	f := c.Flags()
	f.IntVar(&o.N, "n", o.N, "completions of a problem")
	f.IntVar(&o.Correct, "correct", o.Correct, "how many of them are right")
	f.IntSliceVar(&o.K, "k", o.K, "each k of pass@k")
	return c
}

func parseYesNo(text string) (list []bool, err error) {
	for s := range strings.SplitSeq(text, ",") {
		switch strings.ToLower(s) {
		case "yes", "y", "true", "1":
			list = append(list, true)
		case "no", "n", "false", "0":
			list = append(list, false)
		default:
			return nil, fmt.Errorf("%q is neither yes nor no", s)
		}
	}
	return list, nil
}

func aggregationVar(c *cobra.Command, to *rl.Aggregation) {
	names := rl.Aggregations()
	c.Flags().StringVar((*string)(to), "aggregation", string(*to),
		"`name` of the aggregation: "+strings.Join(names, ", "))
	complete(c, "aggregation", func() []string { return names }, cobra.ShellCompDirectiveNoFileComp)
}

func newExplainWalkthrough(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "walkthrough",
		Short: "From rewards to the scalar loss, matrix by matrix",
		Example: `  grpo explain walkthrough
  grpo explain walkthrough --rewards 1,0,0 --aggregation token-mean --epsilon-high 0.28
  grpo explain walkthrough --rewards 1,0 --logp -0.1,-2 --logp -1 --old-logp -0.2,-2 --old-logp -1.5`,
	}
	o := worked(s, c, explain.DefaultWalkthrough(), explain.Walkthrough)
	f := c.Flags()
	f.Float64SliceVar(&o.Rewards, "rewards", o.Rewards, "rewards of the group, as comma-separated `floats`")
	rowVar(f, &o.LogProbs, "logp",
		"log-probabilities of one completion's tokens, `floats` such as -0.1,-2.5 (repeat for each completion)")
	rowVar(f, &o.OldLogProbs, "old-logp",
		"log-probabilities at sampling time, as `floats` (repeat for each completion)")
	f.BoolFunc("no-std", "do not divide by the group's standard deviation", func(text string) error {
		no, err := strconv.ParseBool(text)
		o.UseStd = !no
		return err
	})
	f.Float64Var(&o.Eps, "eps", o.Eps, epsHelp+" (advantage_eps)")
	f.Float64Var(&o.Epsilon, "epsilon", o.Epsilon, epsilonHelp)
	f.Float64Var(&o.EpsilonHigh, "epsilon-high", 0, "upper bound is 1 + epsilon_high (0 = epsilon)")
	f.Float64Var(&o.Constant, "constant", 0, constantHelp+"(0 = the longest completion)")
	aggregationVar(c, &o.Aggregation)
	return c
}

func newExplainDPO(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "dpo",
		Short: "The loss of preference pairs: rewards, margins and gradients; plots a figure with --out",
		Long: `Dpo computes the loss of preference pairs from the log-probabilities of their tokens
under the policy and the reference: log-ratios, implicit rewards, margins, the loss
and its gradient, and the same pairs under every loss. Options have TRL's names.

Each of the four rows is given once for each pair. "grpo explain logprobs --json"
prints the log-probabilities of a completion under a checkpoint.`,
		Example: `  grpo explain dpo
  grpo explain dpo --loss-type sigmoid,sft --loss-weights 1,0.5 --beta 0.5
  grpo explain dpo --chosen -1.2,-0.4 --ref-chosen -1.5,-0.4 --rejected -0.9 --ref-rejected -0.6 --json`,
	}
	o := worked(s, c, explain.DefaultDPO(), explain.DPO)
	f := c.Flags()
	const row = "log-probabilities of the %s completion's tokens under the %s, " +
		"`floats` such as -0.1,-2.5 (repeat for each pair)"
	for _, r := range []struct {
		name, completion, model string
		to                      *[][]float64
	}{
		{"chosen", "chosen", "policy", &o.Chosen}, {"ref-chosen", "chosen", "reference", &o.RefChosen},
		{"rejected", "rejected", "policy", &o.Rejected}, {"ref-rejected", "rejected", "reference", &o.RefRejected},
	} {
		rowVar(f, r.to, r.name, fmt.Sprintf(row, r.completion, r.model))
	}
	preferenceVars(c, f, &o.Config)
	return c
}

// preferenceVars adds the flags of the loss.
func preferenceVars(c *cobra.Command, f *pflag.FlagSet, cfg *rl.PreferenceConfig) {
	listVar(f, &cfg.Losses, "loss-type",
		"`names` of the losses: "+strings.Join(rl.PreferenceLosses(), ", ")+" (default sigmoid)",
		func(text string) (list []rl.PreferenceLoss, err error) {
			for name := range strings.SplitSeq(text, ",") {
				list = append(list, rl.PreferenceLoss(name))
			}
			return list, nil
		})
	listVar(f, &cfg.Weights, "loss-weights", "weight of each loss, as comma-separated `floats` (default 1 each)", parseRow)
	f.Float64Var(&cfg.Beta, "beta", cfg.Beta, "factor of the log-ratios in the rewards")
	f.Float64Var(&cfg.LabelSmoothing, "label-smoothing", 0,
		"probability of a wrong label, for exo_pair, robust, aot and aot_unpaired")
	f.StringVar(&cfg.Divergence, "f-divergence-type", cfg.Divergence,
		"`name` of the divergence: "+strings.Join(rl.Divergences(), ", "))
	f.Float64Var(&cfg.AlphaCoef, "f-alpha-divergence-coef", cfg.AlphaCoef, "alpha of alpha_divergence")
	f.Float64Var(&cfg.LDAlpha, "ld-alpha", cfg.LDAlpha,
		"weight of the tokens beyond the shorter completion's length (1 = off)")
	f.Float64Var(&cfg.DiscoPOPTau, "discopop-tau", 0, "temperature of discopop (0 = 0.05)")
	complete(c, "loss-type", rl.PreferenceLosses, cobra.ShellCompDirectiveNoFileComp)
	complete(c, "f-divergence-type", rl.Divergences, cobra.ShellCompDirectiveNoFileComp)
}

func newExplainRewardModel(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "reward-model",
		Short: "The Bradley-Terry loss of a reward model's scores, with margin and centering",
		Example: `  grpo explain reward-model
  grpo explain reward-model --chosen 1.2,0.3 --rejected 0.4,0.9 --margin 0.5,0 --centering 0 --json`,
	}
	o := worked(s, c, explain.DefaultRewardModel(), explain.RewardModel)
	f := c.Flags()
	f.Float64SliceVar(&o.Chosen, "chosen", o.Chosen, "scores of the chosen completions, as comma-separated `floats`")
	f.Float64SliceVar(&o.Rejected, "rejected", o.Rejected,
		"scores of the rejected completions, as comma-separated `floats`")
	listVar(f, &o.Margins, "margin", "margin of each pair, as comma-separated `floats` (default 0 each)", parseRow)
	f.Float64Var(&o.Centering, "centering", o.Centering,
		"center_rewards_coefficient: weight of the squared sum of a pair's scores")
	return c
}

// listVar adds a repeatable flag, a value of which gives one or more elements.
// Together they replace the default.
func listVar[T any](fs *pflag.FlagSet, to *[]T, name, usage string, parse func(text string) ([]T, error)) {
	n := 0
	fs.Func(name, usage, func(text string) error {
		more, err := parse(text)
		if err != nil {
			return err
		}
		*to = append((*to)[:n:n], more...)
		n = len(*to)
		return nil
	})
}

// rowVar is [listVar] for rows of numbers: each value is a row.
func rowVar(fs *pflag.FlagSet, to *[][]float64, name, usage string) {
	listVar(fs, to, name, usage, func(text string) ([][]float64, error) {
		row, err := parseRow(text)
		return [][]float64{row}, err
	})
}
