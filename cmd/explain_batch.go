package cmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"grpo/pkg/explain"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/train"
)

func newExplainAdvantages(s *State) *cobra.Command {
	o := explain.DefaultAdvantages()
	var groups []string
	var asJSON bool
	var fig figureFlag
	var batch batchFlag
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
				eps := explain.TRLEps
				if cmd.Flags().Changed("eps") {
					eps = o.Eps
				}
				return runExplainAdvantages(s, cmd, &batch, eps, asJSON)
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
			if err := showExplained(s, cmd, asJSON, r, err); err != nil || len(o.Nearly) == 0 {
				return err
			}
			return fig.draw(s, "advantages", r.Figure)
		},
	}
	c.Flags().StringArrayVar(&groups, "group", nil, "rewards of one prompt's completions, `floats` such as 1,0,0,1 (repeat for each prompt)")
	c.Flags().Float64SliceVar(&o.Nearly, "nearly", o.Nearly, "rewards of the nearly equal group, as comma-separated `floats`")
	c.Flags().Float64Var(&o.Eps, "eps", o.Eps, "added to the standard deviation (with --batch: TRL's 0.0001 unless given)")
	batch.add(c, "TRL's form")
	fig.add(c)
	jsonFlag(c, &asJSON)
	return c
}

func runExplainAdvantages(s *State, c *cobra.Command, batch *batchFlag, eps float64, asJSON bool) error {
	name, data, err := batch.read(s, c)
	if err != nil {
		return err
	}
	cases, err := explain.GroupedAdvantages(name, data, eps)
	if err != nil {
		return err
	}
	if asJSON {
		out := make([]explain.BatchAdvantages, len(cases))
		for i, c := range cases {
			out[i] = c.Result
		}
		return printJSON(s.Out, out)
	}
	return explain.WriteAdvantages(s.Out, name, cases, eps)
}

// parseRows parses rows of numbers, each separated by commas.
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

func newExplainLoss(s *State) *cobra.Command {
	var batch batchFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "loss --batch FILE",
		Short: "Loss, gradient and metrics of your own cases, in TRL's or verl's format",
		Long: `Loss computes each case of a file: the loss, its gradient with respect to the
log-probabilities, and the metrics under the source's names.

"inputs" holds the matrices (B completions by T tokens) that all cases share:
mask (0 or 1), per_token_logps, old_per_token_logps (missing = on-policy),
ref_per_token_logps (for beta), entropies (for entropy_coef and
top_entropy_quantile), and advantages, one per completion or one per token. Values
where the mask is 0 are ignored and can be null.

TRL's format: "cases", each with a "config" of GRPOConfig's fields: loss_type,
epsilon, epsilon_high, delta, beta, importance_sampling_level,
top_entropy_quantile, entropy_coef, off_policy_mask_threshold,
use_bias_correction_kl, max_completion_length, gradient_accumulation_steps and
on_policy. verl's format: "policy_losses", each with loss_mode, loss_agg_mode and a
"config" of clip_ratio, clip_ratio_low, clip_ratio_high, clip_ratio_c,
loss_scale_factor.

--json prints a list of {"loss", "grad_per_token_logps", "metrics"} in the order of
the cases. Expected values in a case (loss, gradient, metrics) are compared.`,
		Example: `  grpo explain loss --batch cases.json
  grpo explain loss --batch cases.json --json | jq '.[0].loss'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, data, err := batch.read(s, cmd)
			if err != nil {
				return err
			}
			cases, err := explain.Losses(name, data)
			if err != nil {
				return err
			}
			if asJSON {
				out := make([]explain.LossResult, len(cases))
				for i, c := range cases {
					out[i] = c.Result
				}
				return printJSON(s.Out, out)
			}
			return explain.WriteLosses(s.Out, name, cases)
		},
	}
	batch.add(c, "TRL's or verl's form")
	jsonFlag(c, &asJSON)
	return c
}

func newExplainReward(s *State) *cobra.Command {
	var batch batchFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "reward --batch FILE",
		Short: "Grade your own responses with the assignment's graders",
		Long: `Reward grades each case of a file: "cases", each with a response, a ground_truth
(a string, a number, or a list of accepted answers) and fn (r1_zero_reward_fn, the
default, or question_only_reward_fn).

--json prints a list of {"format_reward", "answer_reward", "reward"} in the order
of the cases. Expected values in a case are compared.`,
		Example: `  grpo explain reward --batch answers.json
  echo '{"cases":[{"response":"x </think> <answer>72</answer>","ground_truth":"72"}]}' | grpo explain reward --batch -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, data, err := batch.read(s, cmd)
			if err != nil {
				return err
			}
			cases, err := explain.Rewards(name, data)
			if err != nil {
				return err
			}
			if asJSON {
				out := make([]gsm8k.R1Verdict, len(cases))
				for i, c := range cases {
					out[i] = c.Result
				}
				return printJSON(s.Out, out)
			}
			return explain.WriteRewards(s.Out, name, cases)
		},
	}
	batch.add(c, "the form of the assignment's grader cases")
	jsonFlag(c, &asJSON)
	return c
}

func newExplainLogProbs(s *State) *cobra.Command {
	var checkpoint, prompt, completion string
	var asJSON bool
	c := &cobra.Command{
		Use:   "logprobs --prompt TEXT --completion TEXT",
		Short: "Log-probability and entropy of each token of a completion",
		Long: `Logprobs computes the log-probability of each token of a completion, including its
final <eos>, and the entropy of each token's distribution, at temperature 1. The
prompt is <bos> and the text exactly as given: type the newline that ends a
question in the default template.`,
		Example: `  grpo explain logprobs --prompt $'Tom has 7 pens and gets 5 more. How many?\n' --completion $'7+5=12\n#### 12'
  grpo explain logprobs --checkpoint my-run/checkpoint/last.safetensors --prompt 'Tom' --completion ' has' --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"prompt", "completion"} {
				if !cmd.Flags().Changed(name) {
					return &usageError{cmd, fmt.Errorf("no %s: give one with --%s TEXT", name, name)}
				}
			}
			weights, err := loadWeights(checkpoint)
			if err != nil {
				return missingInput(err)
			}
			r, err := explain.LogProbs(weights, prompt, completion)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(s.Out, r)
			}
			return r.WriteText(s.Out)
		},
	}
	c.Flags().StringVar(&checkpoint, "checkpoint", "base", "safetensors `file`, folder of a run or of \"grpo sft\", or base for the embedded base model")
	c.Flags().StringVar(&prompt, "prompt", "", "`text` after <bos>, exactly as given")
	c.Flags().StringVar(&completion, "completion", "", "`text` whose tokens are scored; <eos> is added")
	jsonFlag(c, &asJSON)
	return c
}

// loadWeights returns the weights of a checkpoint, as model.init names one, or of
// the embedded base model.
func loadWeights(name string) (*tinylm.Weights, error) {
	if name == "base" {
		return base.Weights()
	}
	found, err := train.FindCheckpoint(name)
	if err != nil {
		return nil, fmt.Errorf("load weights: %w", err)
	}
	if found.File == "" {
		found.File = name
	}
	return tinylm.ReadFile(found.File)
}
