package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/cores"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/explain"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/kernel"
	"grpo/pkg/plots"
	"grpo/pkg/policy"
	"grpo/pkg/report"
)

func newExplain(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Work through the math on small examples or on your own numbers",
		Long: `Explain computes small worked examples with the functions that training uses:
length normalization, advantages, clipping, aggregation, overlong filtering, pass@k,
a whole loss step by step, the losses of preference pairs and of reward models, and the tests
behind a verdict. Flags change the numbers. It writes no files, except that advantages, clip, aggregation and
dpo plot a figure with --out.

--batch computes losses and gradients, advantages, rewards or tests of your own file.
"logprobs" prints the log-probability of each token of a completion.`,
		Example: `  grpo explain lengthnorm
  grpo explain advantages --group 1,1,0,0 --group 1,0,0,0
  grpo explain clip --old-logp -3.9 --logp -2.3
  grpo explain walkthrough --rewards 1,0,0.5
  grpo explain dpo --beta 0.5 --loss-type ipo
  grpo explain loss --batch my-cases.json --json`,
	}
	c.AddCommand(newExplainLengthNorm(s), newExplainAdvantages(s), newExplainClip(s),
		newExplainAggregation(s), newExplainOverlong(s), newExplainPassK(s), newExplainWalkthrough(s),
		newExplainDPO(s), newExplainRewardModel(s), newExplainVerdict(s), newExplainLoss(s), newExplainReward(s),
		newExplainLogProbs(s))
	return c
}

// explainOptions are the inputs of a worked example.
type explainOptions[N any] struct {
	numbers N
	json    bool
	out     string // folder or file of the figure; empty: none
}

// explained is the result of a worked example or of a batch.
type explained interface{ WriteText(io.Writer) error }

// drawable is a result with a figure.
type drawable interface {
	Figure() (plots.ExplainFigure, error)
}

// worked gives c the flags that worked examples share, and the function that computes one; numbers are
// the defaults of its own flags. Numbers that compute refuses are usage errors.
func worked[N any, R explained](s *State, c *cobra.Command, numbers N, compute func(N) (R, error)) *N {
	o := &explainOptions[N]{numbers: numbers}
	addJSON(c, &o.json)
	var r R
	if _, draws := any(r).(drawable); draws {
		c.Flags().StringVar(&o.out, "out", "", "also plot the figure, to this `folder`, or PNG, SVG or PDF file")
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, s, o, func(_ context.Context, s *State, o *explainOptions[N]) error {
			r, err := compute(o.numbers)
			var path string
			if err == nil {
				path, err = figureFile(o.out, cmd.Name())
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := showExplained(s, o.json, r, r); err != nil || o.out == "" {
				return err
			}
			figure, err := any(r).(drawable).Figure()
			if err != nil {
				return &usageError{cmd, err}
			}
			if err := report.MakeFolder(filepath.Dir(path), ""); err != nil {
				return fmt.Errorf("draw %s: %w", path, err)
			}
			if err := writeExplainFigure(path, figure); err != nil {
				return err
			}
			_, err = textutil.Fprintf(s.Err, "wrote %s\n", path)
			return err
		})
	}
	return &o.numbers
}

// showExplained prints a result as text, or its data as JSON.
func showExplained(s *State, asJSON bool, r explained, data any) error {
	if asJSON {
		return printJSON(s.Out, data)
	}
	return r.WriteText(s.Out)
}

// figureFile is the file of a figure: out, or for a folder one of this name in it. What looks like
// a file of another format is refused; a folder of such a name exists or ends in a slash.
func figureFile(out, name string) (path string, err error) {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), ".")
	info, err := os.Stat(out)
	switch {
	case slices.Contains(config.FigureFormats, format):
		return out, nil
	case format == "" || err == nil && info.IsDir():
		return filepath.Join(out, name+".png"), nil
	}
	return "", fmt.Errorf("--out %s: the formats of figures are %s (the name of a folder ends in /)", out,
		strings.Join(config.FigureFormats, ", "))
}

func writeExplainFigure(path string, figure plots.ExplainFigure) error {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	err := plots.WriteFigure(path, func(w io.Writer) error { return plots.ExplainPlot(w, figure, format) })
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

// batchOptions are the inputs of a command that computes a file of cases.
type batchOptions struct {
	file string // "-" = standard input
	eps  float64
	json bool

	example, edition string // prints an example in this form in place of reading a file
}

// addExample gives c the flags that print a file to start from.
func addExample(c *cobra.Command, o *batchOptions) {
	f := c.Flags()
	f.StringVar(&o.example, "example", "", "print a file of calls to start from; =torch: a PyTorch script "+
		"that runs your functions and prints such a file (`json|torch`)")
	f.Lookup("example").NoOptDefVal = explain.ExampleForms[0]
	f.StringVar(&o.edition, "edition", explain.Editions[0], "`year` of the assignment whose functions --example has: "+
		strings.Join(explain.Editions, " or "))
	complete(c, "example", func() []string { return explain.ExampleForms }, cobra.ShellCompDirectiveNoFileComp)
	complete(c, "edition", func() []string { return explain.Editions }, cobra.ShellCompDirectiveNoFileComp)
}

func printExample(c *cobra.Command, s *State, o *batchOptions) error {
	if o.file != "" {
		return usagef(c, "--example prints a file for --batch; leave one of them out")
	}
	return run(c, s, o, func(_ context.Context, s *State, o *batchOptions) error {
		text, err := explain.Example(o.example, o.edition)
		if err != nil {
			return &usageError{c, err}
		}
		_, err = io.WriteString(s.Out, text)
		return err
	})
}

// addBatch gives c the flag --batch, which computes a file of cases.
func addBatch(
	s *State, c *cobra.Command, format string, compute func(explain.File) (explain.Batch, error),
) *batchOptions {
	o := &batchOptions{}
	c.Flags().StringVar(&o.file, "batch", "", "`file` of cases in "+format+" (\"-\" = standard input)")
	addJSON(c, &o.json)
	c.RunE = func(cmd *cobra.Command, _ []string) error { return runBatch(cmd, s, o, compute) }
	return o
}

// runBatch reads the file, computes its cases and prints them as text or JSON.
func runBatch(c *cobra.Command, s *State, o *batchOptions, compute func(explain.File) (explain.Batch, error)) error {
	switch {
	case o.example != "":
		return printExample(c, s, o)
	case c.Flags().Changed("edition"):
		return usagef(c, "--edition is the assignment's of --example; a file of --batch may have functions of both")
	case o.file == "":
		return usagef(c, "no file: give one with --batch FILE")
	}
	return run(c, s, o, func(_ context.Context, s *State, o *batchOptions) error {
		file, err := explain.ReadFile(o.file, s.In)
		if err != nil {
			return config.Invalid(err)
		}
		b, err := compute(file)
		if err != nil {
			return config.Invalid(err)
		}
		return cmp.Or(showExplained(s, o.json, b, b.Cases), b.Disagreement())
	})
}

func newExplainLoss(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "loss --batch FILE",
		Short: "Loss, gradient and metrics of your own cases, in the assignment's, TRL's or verl's names",
		Long: `Loss computes each case of a file: the loss, its gradient with respect to the
log-probabilities, and the metrics under the source's names.

CS336 assignment 5: "calls", each with a function, its arguments under the assignment's
names, and what yours returned: result, or loss of a train step, and
policy_log_probs_grad, the gradient of the loss or of the sum of a loss per token.
Functions, of 2025 and 2026 (grpo_train_step begins at the log-probabilities):
` + callFunctions() + `
What differs is shown with the first element, expected (computed here) and got (yours),
loss and gradient apart, and with the mistake, if yours are the numbers of a common one.
--example prints such a file, and --example=torch a script that fills it from your
functions. The same files are for "grpo explain advantages --batch".

TRL and verl: "inputs" holds the matrices (B completions by T tokens) that all cases
share: mask (0 or 1), per_token_logps, old_per_token_logps (missing = on-policy),
ref_per_token_logps (for beta), entropies (for entropy_coef and
top_entropy_quantile), and advantages, one per completion or one per token. Values
where the mask is 0 are ignored and can be null.

TRL's format: "cases", each with a "config" of GRPOConfig's fields: loss_type,
epsilon, epsilon_high, delta, beta, importance_sampling_level,
top_entropy_quantile, entropy_coef, off_policy_mask_threshold,
use_bias_correction_kl, max_completion_length, gradient_accumulation_steps and
on_policy, with the defaults of TRL 1.16 (use_bias_correction_kl is true since 1.10).
loss_expr is a formula for the policy loss (docs/algorithms.md#formulas).
verl's format: "policy_losses", each with loss_mode, loss_agg_mode and a
"config" of clip_ratio, clip_ratio_low, clip_ratio_high, clip_ratio_c,
loss_scale_factor.

--json prints a list of {"loss", "grad_per_token_logps", "metrics"} in the order of
the cases, of calls {"function", "expected", "differences"}. Expected values in a case
(loss, gradient, metrics) are compared; a difference ends the command with exit code 1.`,
		Example: `  grpo explain loss --example > calls.json && grpo explain loss --batch calls.json
  grpo explain loss --example=torch > check.py
  python check.py > batch.json; grpo explain loss --batch batch.json
  grpo explain loss --batch cases.json --json | jq '.[0].loss'`,
	}
	addExample(c, addBatch(s, c, "the assignment's, TRL's or verl's names", explain.Losses))
	return c
}

// callFunctions lists the assignment's functions for a help text, two on a line.
func callFunctions() string {
	var lines []string
	for pair := range slices.Chunk(explain.CallFunctions(), 2) {
		lines = append(lines, "  "+strings.Join(pair, ", "))
	}
	return strings.Join(lines, ",\n")
}

func newExplainReward(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "reward",
		Short: "How a completion is graded, step by step; your own responses by the assignment's graders",
		Long: `Reward grades --completion as training and evaluations do, and shows what was
extracted, normalized and compared with --gold. --answer, --ignore-case and --extract
are data.answer, data.ignore_case and reward.extract of a run.

With --batch it grades each case of a file: "cases", each with a response, a
ground_truth (a string, a number, or a list of accepted answers) and fn
(r1_zero_reward_fn, the default, or question_only_reward_fn). --json prints a list of
{"format_reward", "answer_reward", "reward"} in the order of the cases. Expected values
in a case are compared; a difference ends the command with exit code 1.`,
		Example: `  grpo explain reward --completion '7+5=12 #### 12.0' --gold 12
  grpo explain reward --answer math --extract boxed --gold '\frac{1}{2}' --completion 'So \boxed{0.5}'
  grpo explain reward --answer countdown --gold '98 from 44 19 35' --completion '#### 44+19+35'
  grpo explain reward --batch answers.json
  echo '{"cases":[{"response":"x </think> <answer>72</answer>","ground_truth":"72"}]}' |
    grpo explain reward --batch -`,
	}
	o := worked(s, c, explain.AnswerOptions{}, explain.Answer)
	one, f := c.RunE, c.Flags()
	f.StringVar(&o.Completion, "completion", "", "`text` to grade, without its end token")
	f.StringVar(&o.Gold, "gold", "", "right `answer`; of countdown a target and numbers, as in '98 from 44 19 35'")
	f.BoolVar(&o.Cut, "cut", false, "the limit of tokens ended the completion")
	f.StringVar(&o.Template, "template", "plain", "`name` of the prompt template, on which extract auto depends")
	addAnswerFlags(c, &o.AnswerOptions)
	cases := &batchOptions{}
	f.StringVar(&cases.file, "batch", "", "`file` of the assignment's grader cases (\"-\" = standard input)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.Changed("batch") && (f.Changed("completion") || f.Changed("gold")):
			return usagef(cmd, "--batch has its own completions; leave out --completion and --gold")
		case f.Changed("batch"):
			cases.json, _ = f.GetBool("json")
			return runBatch(cmd, s, cases, explain.Rewards)
		case !f.Changed("completion"):
			return usagef(cmd, "no completion: give one with --completion TEXT, or a file with --batch FILE")
		case !f.Changed("gold") && o.Kind != gsm8k.KindNone:
			return usagef(cmd, "no right answer: give it with --gold ANSWER")
		}
		return one(cmd, args)
	}
	return c
}

// logProbsOptions are the inputs of `grpo explain logprobs`.
type logProbsOptions struct {
	model, prompt, completion string
	json                      bool
}

func newExplainLogProbs(s *State) *cobra.Command {
	o := &logProbsOptions{}
	c := &cobra.Command{
		Use:   "logprobs --prompt TEXT --completion TEXT",
		Short: "Log-probability and entropy of each token of a completion",
		Long: `Logprobs computes the log-probability of each token of a completion and the entropy
of each token's distribution, at temperature 1. Both texts are taken exactly as given,
without a prompt template: for TinyLM, type the newline that ends a question in the
default template. Special tokens in them are parsed, such as <|im_end|> of a Hugging
Face or GGUF model. The prompt gets the model's start tokens (<bos>) unless it begins
with them. TinyLM's completions get its <eos>, which no text can stand for.`,
		Example: `  grpo explain logprobs --prompt $'Tom has 7 pens and gets 5 more. How many?\n' \
    --completion $'7+5=12\n#### 12'
  grpo explain logprobs --model my-run --prompt 'Tom' --completion ' has' --json
  grpo explain logprobs --model SmolLM2-135M-Instruct.Q4_1.gguf --completion 'Paris.<|im_end|>' \
    --prompt $'<|im_start|>user\nCapital of France?<|im_end|>\n<|im_start|>assistant\n'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"prompt", "completion"} {
				if !cmd.Flags().Changed(name) {
					return usagef(cmd, "no %s: give one with --%s TEXT", name, name)
				}
			}
			return run(cmd, s, o, runLogProbs)
		},
	}
	const names = "a Hugging Face `folder`, a GGUF or safetensors file, a run's folder, " +
		"or base for the embedded base model"
	c.Flags().StringVar(&o.model, "model", "base", names)
	c.Flags().StringVar(&o.model, "checkpoint", "base", names)
	_ = c.Flags().MarkHidden("checkpoint") // the name in earlier versions; an error means that it does not exist
	c.Flags().StringVar(&o.prompt, "prompt", "", "`text` before the completion, exactly as given")
	c.Flags().StringVar(&o.completion, "completion", "", "`text` whose tokens are scored")
	addJSON(c, &o.json)
	return c
}

func runLogProbs(_ context.Context, s *State, o *logProbsOptions) error {
	pool := kernel.NewPool(cores.Threads())
	defer pool.Close()
	policy, err := policy.Open(o.model, pool)
	if err != nil {
		return missingInput(err)
	}
	r, err := explain.LogProbs(policy, o.prompt, o.completion)
	if err != nil {
		return err
	}
	return showExplained(s, o.json, r, r)
}
