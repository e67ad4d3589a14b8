package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grpo/pkg/explain"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/train"
)

// batchOptions are the inputs of a command that computes a file of cases.
type batchOptions struct {
	file string // "-" = standard input
	eps  float64
	json bool
}

func (o *batchOptions) add(c *cobra.Command, format string) {
	c.Flags().StringVar(&o.file, "batch", "", "`file` of cases in "+format+" (\"-\" = standard input)")
}

// batch gives c the flags and the function of a command that computes a file.
func batch[T any](s *State, c *cobra.Command, format string,
	compute func(file string, data []byte) ([]T, error), write func(w io.Writer, file string, cases []T) error,
) *cobra.Command {
	o := &batchOptions{}
	o.add(c, format)
	addJSON(c, &o.json)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.file == "" {
			return usagef(cmd, "no file: give one with --batch FILE")
		}
		return run(cmd, s, o, func(_ context.Context, s *State, o *batchOptions) error {
			return runBatch(s, o, compute, write)
		})
	}
	return c
}

// runBatch reads the file, computes its cases and prints them as text or JSON.
func runBatch[T any](s *State, o *batchOptions, compute func(file string, data []byte) ([]T, error),
	write func(w io.Writer, file string, cases []T) error,
) error {
	var data []byte
	var err error
	file := o.file
	if file == "-" {
		file = "standard input"
		data, err = explain.Read(file, s.In)
	} else {
		data, err = explain.ReadFile(file)
	}
	if err != nil {
		return missingInput(err)
	}
	cases, err := compute(file, data)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, cases)
	}
	return write(s.Out, file, cases)
}

func newExplainLoss(s *State) *cobra.Command {
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
	}
	return batch(s, c, "TRL's or verl's format", explain.Losses, explain.WriteLosses)
}

func newExplainReward(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "reward --batch FILE",
		Short: "Grade your own responses with the assignment's graders",
		Long: `Reward grades each case of a file: "cases", each with a response, a ground_truth
(a string, a number, or a list of accepted answers) and fn (r1_zero_reward_fn, the
default, or question_only_reward_fn).

--json prints a list of {"format_reward", "answer_reward", "reward"} in the order
of the cases. Expected values in a case are compared.`,
		Example: `  grpo explain reward --batch answers.json
  echo '{"cases":[{"response":"x </think> <answer>72</answer>","ground_truth":"72"}]}' |
    grpo explain reward --batch -`,
	}
	return batch(s, c, "the format of the assignment's grader cases", explain.Rewards, explain.WriteRewards)
}

// logProbsOptions are the inputs of `grpo explain logprobs`.
type logProbsOptions struct {
	checkpoint, prompt, completion string
	json                           bool
}

func newExplainLogProbs(s *State) *cobra.Command {
	o := &logProbsOptions{}
	c := &cobra.Command{
		Use:   "logprobs --prompt TEXT --completion TEXT",
		Short: "Log-probability and entropy of each token of a completion",
		Long: `Logprobs computes the log-probability of each token of a completion, including its
final <eos>, and the entropy of each token's distribution, at temperature 1. The
prompt is <bos> and the text exactly as given: type the newline that ends a
question in the default template.`,
		Example: `  grpo explain logprobs --prompt $'Tom has 7 pens and gets 5 more. How many?\n' \
    --completion $'7+5=12\n#### 12'
  grpo explain logprobs --checkpoint my-run --prompt 'Tom' --completion ' has' --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"prompt", "completion"} {
				if !cmd.Flags().Changed(name) {
					return usagef(cmd, "no %s: give one with --%s TEXT", name, name)
				}
			}
			return run(cmd, s, o, runLogProbs)
		},
	}
	c.Flags().StringVar(&o.checkpoint, "checkpoint", "base",
		"safetensors `file`, folder of a run or of \"grpo sft\", or base for the embedded base model")
	c.Flags().StringVar(&o.prompt, "prompt", "", "`text` after <bos>, exactly as given")
	c.Flags().StringVar(&o.completion, "completion", "", "`text` whose tokens are scored; <eos> is added")
	addJSON(c, &o.json)
	return c
}

func runLogProbs(_ context.Context, s *State, o *logProbsOptions) error {
	weights, err := loadWeights(o.checkpoint)
	if err != nil {
		return missingInput(err)
	}
	r, err := explain.LogProbs(weights, o.prompt, o.completion)
	if err != nil {
		return err
	}
	return showExplained(s, o.json, r)
}

// loadWeights returns the weights of a checkpoint, named as in model.init, or of the
// embedded base model.
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
