package cmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"grpo/pkg/explain"
	"grpo/pkg/rl"
)

func newExplainLengthNorm(s *State) *cobra.Command {
	o := explain.DefaultLengthNorm()
	var masks []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "lengthnorm",
		Short: "masked_mean and masked_normalize: the weight of a token",
		Example: `  grpo explain lengthnorm
  grpo explain lengthnorm --lengths 50,400 --constant 512
  grpo explain lengthnorm --masks 1111000,1111111 --advantages 1,-1 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for i, m := range masks {
				row, err := parseMask(m)
				if err != nil {
					return &usageError{cmd, fmt.Errorf("--masks: mask %d: %w", i, err)}
				}
				o.Masks = append(o.Masks, row)
			}
			if len(masks) > 0 && (cmd.Flags().Changed("lengths") || cmd.Flags().Changed("max-length")) {
				return &usageError{cmd, fmt.Errorf("--masks sets the lengths; leave out --lengths and --max-length")}
			}
			r, err := explain.LengthNorm(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			return s.result(asJSON, r)
		},
	}
	c.Flags().IntSliceVar(&o.Lengths, "lengths", o.Lengths, "tokens of each completion")
	c.Flags().IntVar(&o.MaxLength, "max-length", 0, "tokens per row (0 = the longest completion)")
	c.Flags().StringSliceVar(&masks, "masks", nil, "masks instead of lengths, e.g. 1111000,1111111")
	c.Flags().Float64SliceVar(&o.Advantages, "advantages", o.Advantages,
		"advantages of the completions, as comma-separated `floats`, or one for all")
	c.Flags().Float64Var(&o.Ratio, "ratio", o.Ratio, "importance ratio of every token")
	c.Flags().Float64Var(&o.Constant, "constant", 0, "divisor of masked_normalize (0 = tokens per row)")
	jsonFlag(c, &asJSON)
	return c
}

func parseMask(s string) ([]bool, error) {
	var row []bool
	for i, r := range s {
		if r != '0' && r != '1' {
			return nil, fmt.Errorf("character %d is %q; a mask is written in 0 and 1", i, r)
		}
		row = append(row, r == '1')
	}
	return row, nil
}

func newExplainAdvantages(s *State) *cobra.Command {
	o := explain.DefaultAdvantages()
	var groups []string
	var fig figureFlag
	var batch batchFlags
	c := &cobra.Command{
		Use:   "advantages",
		Short: "Local, global and hybrid advantages; a group with a tiny std; your own cases",
		Long: `Advantages shows four prompts with four rewards each under three normalizations,
and the effect of dividing by the std on a group of nearly equal rewards.

With --batch it computes the advantages of a file with lists "grpo" and "rloo" in
TRL's format: each case has rewards_per_func (a row of rewards for each completion,
null = not scorable) and num_generations; grpo cases may have reward_weights,
scale_rewards (group, batch, none) and multi_objective_aggregation
(sum_then_normalize, normalize_then_sum); rloo cases reward_weights,
reward_clip_range, normalize_advantages and beta. --json prints a list of
{"advantages"} in the order of the cases.`,
		Example: `  grpo explain advantages
  grpo explain advantages --group 1,1,0,0 --group 1,0,0,0 --nearly 0.5,0.5,0.5,0.49
  grpo explain advantages --batch cases.json --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("batch") {
				for _, other := range []string{"group", "nearly", "out"} {
					if cmd.Flags().Changed(other) {
						return &usageError{cmd, fmt.Errorf("--batch has its own rewards; leave out --%s", other)}
					}
				}
				if !cmd.Flags().Changed("eps") {
					o.Eps = explain.TRLEps
				}
				return runBatch(s, cmd, batch, func(file string, data []byte) ([]explain.AdvantageCase, error) {
					return explain.GroupedAdvantages(file, data, o.Eps)
				}, func(w io.Writer, file string, cases []explain.AdvantageCase) error {
					return explain.WriteAdvantages(w, file, cases, o.Eps)
				})
			}
			if len(groups) > 0 {
				rows, err := parseRows(groups)
				if err != nil {
					return &usageError{cmd, fmt.Errorf("--group: %w", err)}
				}
				o.Prompts = nil
				for i, r := range rows {
					o.Prompts = append(o.Prompts, explain.Prompt{Name: "prompt " + strconv.Itoa(i), Rewards: r})
				}
			}
			r, err := explain.Advantages(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := s.result(batch.asJSON, r); err != nil || len(o.Nearly) == 0 {
				return err
			}
			return fig.draw(s, "advantages", r.Figure)
		},
	}
	c.Flags().StringArrayVar(&groups, "group", nil,
		"rewards of one prompt's completions, `floats` such as 1,0,0,1 (repeat for each prompt)")
	c.Flags().Float64SliceVar(&o.Nearly, "nearly", o.Nearly,
		"rewards of the nearly equal group, as comma-separated `floats`")
	c.Flags().Float64Var(&o.Eps, "eps", o.Eps,
		"added to the standard deviation (with --batch: TRL's 0.0001 unless given)")
	batch.add(c, "TRL's format")
	fig.add(c)
	return c
}

// parseRows parses rows of numbers separated by commas.
func parseRows(rows []string) ([][]float64, error) {
	out := make([][]float64, len(rows))
	for i, row := range rows {
		for x := range strings.SplitSeq(row, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
			if err != nil {
				return nil, fmt.Errorf("row %d: %q is not a number", i, x)
			}
			out[i] = append(out[i], v)
		}
	}
	return out, nil
}

func newExplainClip(s *State) *cobra.Command {
	o := explain.DefaultClip()
	var asJSON bool
	var fig figureFlag
	c := &cobra.Command{
		Use:   "clip",
		Short: "The clipped objective for both signs of the advantage; plots a figure with --out",
		Example: `  grpo explain clip
  grpo explain clip --logp -4.2 --epsilon-high 0.2,0.28,0.5 --out clip.png`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := explain.Clip(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := s.result(asJSON, r); err != nil {
				return err
			}
			return fig.draw(s, "clip", r.Figure)
		},
	}
	c.Flags().Float64Var(&o.OldLogProb, "old-logp", o.OldLogProb, "log-probability of the token at sampling time")
	c.Flags().Float64Var(&o.LogProb, "logp", o.LogProb, "its log-probability now")
	c.Flags().Float64Var(&o.Epsilon, "epsilon", o.Epsilon, "lower bound of the ratio is 1 - epsilon (cliprange)")
	c.Flags().Float64SliceVar(&o.EpsilonHigh, "epsilon-high", o.EpsilonHigh,
		"`floats` to compare; the upper bound of the ratio is 1 + epsilon_high")
	c.Flags().Float64Var(&o.Advantage, "advantage", o.Advantage, "absolute value of the advantage")
	c.Flags().Float64Var(&o.DualClip, "dual-clip", o.DualClip, "verl's clip_ratio_c (0 = none)")
	fig.add(c)
	jsonFlag(c, &asJSON)
	return c
}

func newExplainAggregation(s *State) *cobra.Command {
	o := explain.DefaultAggregation()
	var asJSON bool
	var fig figureFlag
	c := &cobra.Command{
		Use:   "aggregation",
		Short: "The weight of completions of different lengths under each aggregation",
		Example: `  grpo explain aggregation
  grpo explain aggregation --lengths 20,200,2000 --constant 4096`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := explain.Aggregation(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := s.result(asJSON, r); err != nil || len(o.Lengths) < 2 {
				return err
			}
			return fig.draw(s, "aggregation", r.Figure)
		},
	}
	c.Flags().IntSliceVar(&o.Lengths, "lengths", o.Lengths, "tokens of each completion")
	c.Flags().Float64Var(&o.Constant, "constant", 0,
		"constant divisor Z of the aggregations that have one (0 = the longest completion)")
	fig.add(c)
	jsonFlag(c, &asJSON)
	return c
}

func newExplainOverlong(s *State) *cobra.Command {
	o := explain.DefaultOverlong()
	eos := []string{"yes", "yes", "no", "yes", "yes"}
	aggregation := string(o.Aggregation)
	var asJSON bool
	c := &cobra.Command{
		Use:   "overlong",
		Short: "Overlong filtering: completions truncated at the length limit",
		Example: `  grpo explain overlong
  grpo explain overlong --lengths 100,512,512 --eos yes,yes,no --rewards 1,1,0 --max-length 512`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.EOS, o.Aggregation = nil, rl.Aggregation(aggregation)
			for _, e := range eos {
				switch strings.ToLower(e) {
				case "yes", "y", "true", "1":
					o.EOS = append(o.EOS, true)
				case "no", "n", "false", "0":
					o.EOS = append(o.EOS, false)
				default:
					return &usageError{cmd, fmt.Errorf("--eos: %q is neither yes nor no", e)}
				}
			}
			r, err := explain.Overlong(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			return s.result(asJSON, r)
		},
	}
	c.Flags().IntSliceVar(&o.Lengths, "lengths", o.Lengths, "tokens of each completion of one group")
	c.Flags().StringSliceVar(&eos, "eos", eos, "whether each completion ended with <eos>: yes or no")
	c.Flags().Float64SliceVar(&o.Rewards, "rewards", o.Rewards,
		"rewards of the completions, as comma-separated `floats`")
	c.Flags().IntVar(&o.MaxLength, "max-length", o.MaxLength, "maximum tokens of a completion")
	c.Flags().Float64Var(&o.Constant, "constant", 0,
		"constant divisor Z of the aggregations that have one (0 = the limit)")
	c.Flags().IntVar(&o.SoftCache, "soft-cache", 0,
		"ramp of the soft punishment, in tokens (0 = a fifth of the limit)")
	aggregationFlag(c, &aggregation)
	jsonFlag(c, &asJSON)
	return c
}

func aggregationFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "aggregation", *to, "`name` of the aggregation: "+strings.Join(rl.Aggregations(),
		", "))
	_ = c.RegisterFlagCompletionFunc("aggregation",
		cobra.FixedCompletions(rl.Aggregations(), cobra.ShellCompDirectiveNoFileComp))
}

func newExplainWalkthrough(s *State) *cobra.Command {
	o := explain.DefaultWalkthrough()
	aggregation := string(o.Aggregation)
	var logps, old []string
	var noStd, asJSON bool
	c := &cobra.Command{
		Use:   "walkthrough",
		Short: "From rewards to the scalar loss, matrix by matrix",
		Example: `  grpo explain walkthrough
  grpo explain walkthrough --rewards 1,0,0 --aggregation token-mean --epsilon-high 0.28
  grpo explain walkthrough --rewards 1,0 --logp -0.1,-2 --logp -1 --old-logp -0.2,-2 --old-logp -1.5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.UseStd, o.Aggregation = !noStd, rl.Aggregation(aggregation)
			for _, x := range []struct {
				name string
				rows []string
				to   *[][]float64
			}{{"logp", logps, &o.LogProbs}, {"old-logp", old, &o.OldLogProbs}} {
				if len(x.rows) == 0 {
					continue
				}
				var err error
				if *x.to, err = parseRows(x.rows); err != nil {
					return &usageError{cmd, fmt.Errorf("--%s: %w", x.name, err)}
				}
			}
			r, err := explain.Walkthrough(o)
			if err != nil {
				return &usageError{cmd, err}
			}
			return s.result(asJSON, r)
		},
	}
	c.Flags().Float64SliceVar(&o.Rewards, "rewards", o.Rewards,
		"rewards of the group, as comma-separated `floats`")
	c.Flags().StringArrayVar(&logps, "logp", nil,
		"log-probabilities of one completion's tokens, `floats` such as -0.1,-2.5 (repeat for each completion)")
	c.Flags().StringArrayVar(&old, "old-logp", nil,
		"log-probabilities at sampling time, as `floats` (repeat for each completion)")
	c.Flags().BoolVar(&noStd, "no-std", false, "do not divide by the group's standard deviation")
	c.Flags().Float64Var(&o.Eps, "eps", o.Eps, "added to the standard deviation (advantage_eps)")
	c.Flags().Float64Var(&o.Epsilon, "epsilon", o.Epsilon, "lower bound of the ratio is 1 - epsilon (cliprange)")
	c.Flags().Float64Var(&o.EpsilonHigh, "epsilon-high", 0, "upper bound is 1 + epsilon_high (0 = epsilon)")
	c.Flags().Float64Var(&o.Constant, "constant", 0,
		"constant divisor Z of the aggregations that have one (0 = the longest completion)")
	aggregationFlag(c, &aggregation)
	jsonFlag(c, &asJSON)
	return c
}
