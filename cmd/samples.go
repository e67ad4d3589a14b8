package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// samplesOptions are the inputs of `grpo samples`.
type samplesOptions struct {
	dir    string
	filter report.SampleFilter
	json   bool
}

func newSamples(s *State) *cobra.Command {
	o := &samplesOptions{}
	var greedy bool
	step := -1
	c := &cobra.Command{
		Use:   "samples RUN",
		Short: "Show how a run's completions of the same problems changed over training",
		Long: `Samples shows the completions that a run kept (samples.jsonl): for each problem the
prompt once, then the completion after each step, with its reward, its length in
tokens, whether the answer is right, and if not, why: the limit of tokens cut the
completion, it has no final answer of the expected form, or the answer is another.

Each evaluation keeps the first problems of its split (eval.save_samples, 8 by
default), so they are the same ones at every step. With --split train they are the
first completions of the step's rollout batch, of other problems at each step.`,
		Example: `  grpo samples results/train-1a2b3c4d
  grpo samples results/train-1a2b3c4d --changed --greedy
  grpo samples results/train-1a2b3c4d --step 100 --wrong
  grpo samples results/sweep-1a2b3c4d/runs/lr-0.001_seed-1-9f2c1ab4 --json`,
		Args: takes("the folder of a run", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir, o.filter.Decoding = args[0], rundir.DecodingSampled
			if greedy {
				o.filter.Decoding = rundir.DecodingGreedy
			}
			if cmd.Flags().Changed("step") {
				o.filter.Step = &step
			}
			switch {
			case step < 0 && o.filter.Step != nil:
				return usagef(cmd, "--step %d: steps are 0 (before training) and more", step)
			case o.filter.Step != nil && o.filter.Changed:
				return usagef(cmd, "--changed compares steps: leave out --step")
			}
			return run(cmd, s, o, runSamples)
		},
	}
	f := c.Flags()
	f.IntVar(&step, "step", -1, "only the completions after this `step` (default all)")
	f.Lookup("step").DefValue = "0" // not shown
	f.BoolVar(&o.filter.Wrong, "wrong", false, "only problems that are wrong after their last step")
	f.BoolVar(&o.filter.Changed, "changed", false, "only problems that were right at one step and wrong at another")
	f.StringVar(&o.filter.Split, "split", rundir.SplitVal,
		"the `set` of problems: val, unseen, test, train or a set of eval.sets")
	complete(c, "split", func() []string { return evalSplits }, cobra.ShellCompDirectiveNoFileComp)
	f.BoolVar(&greedy, "greedy", false, "completions of greedy decoding instead of sampled ones")
	addJSON(c, &o.json)
	return c
}

func runSamples(_ context.Context, s *State, o *samplesOptions) error {
	if sweepdir.IsSweep(o.dir) || sweepdir.IsStudy(o.dir) {
		return config.Invalid(fmt.Errorf("show samples: %s has several runs: give the folder of one, below its %s",
			o.dir, sweepdir.RunsDir))
	}
	r, err := rundir.Open(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return missingInput(fmt.Errorf("%w (samples takes the folder of a run)", err))
	}
	if err != nil {
		return err
	}
	problems, err := report.SampledProblems(r, o.filter)
	if err != nil {
		return fmt.Errorf("show samples: %s: %w", o.dir, err)
	}
	if o.json {
		return printJSON(s.Out, problems)
	}
	return report.WriteSamples(s.Out, problems)
}
