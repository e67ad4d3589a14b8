package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

var evalKeys = []keyFlag{{"seed", "seed", "seed of sampling"}, deviceKey, skipBad}

// evalOptions are the inputs of `grpo eval`.
type evalOptions struct {
	state   *State
	cfg     config.Config
	split   string
	samples int
	threads int
	json    bool
}

func newEval(s *State) *cobra.Command {
	var cf configFlags
	var o evalOptions
	var quiet bool
	var which string
	o.state = s
	c := &cobra.Command{
		Use:   "eval [RUN|CHECKPOINT]",
		Short: "Evaluate a checkpoint: counts of right, wrong and unformatted answers",
		Long: `Eval decodes a split, sampled at the configured temperature and greedily, and
counts. Its argument is a run's folder (whose configuration and checkpoint it
takes) or a safetensors file; without one it evaluates the configuration's
initial weights, the embedded base model by default.`,
		Example: `  grpo eval
  grpo eval results/train-1a2b3c4d --split unseen
  grpo eval my-base/model.safetensors --json
  grpo eval --set data.source=gsm8k --set data.train_file=train.jsonl --set data.val_file=test.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := cf.options(cmd, s, evalKeys)
			if len(args) == 1 {
				init, err := useCheckpoint(args[0], which, &opts)
				if err != nil {
					return err
				}
				opts.Flags = append(opts.Flags, config.Flag{Key: "model.init", Name: "the argument", Value: init})
			}
			r, err := config.Load(opts)
			if err != nil {
				return err
			}
			o.cfg = r.Config
			return runEval(cmd.Context(), &o)
		},
	}
	cf.add(c, config.Names())
	addKeyFlags(c, evalKeys)
	c.Flags().StringVar(&o.split, "split", "val", "val, test, unseen or train")
	c.Flags().StringVar(&which, "which", "last", "checkpoint of a run: last or best")
	c.Flags().IntVar(&o.samples, "samples", 0, "print the first n completions too")
	c.Flags().IntVar(&o.threads, "threads", 0, "worker threads (0 = one for each core)")
	c.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no effect: there is no progress to show")
	_ = c.RegisterFlagCompletionFunc("split", cobra.FixedCompletions([]string{"val", "test", "unseen", "train"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("which", cobra.FixedCompletions([]string{"last", "best"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// useCheckpoint turns the argument into a checkpoint's path; of a run it takes
// the configuration too, unless -c names one.
func useCheckpoint(arg, which string, opts *config.LoadOptions) (string, error) {
	if !slices.Contains([]string{"last", "best"}, which) {
		return "", fmt.Errorf("%w: --which %q is unknown (last or best)", config.ErrConfig, which)
	}
	info, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("evaluate %s: no such file or folder; give the folder of a run, as `grpo train` names it, or a safetensors file", arg)
	}
	if err != nil {
		return "", fmt.Errorf("evaluate: %w", err)
	}
	if !info.IsDir() {
		return arg, nil
	}
	if opts.Path == "" {
		opts.Path = filepath.Join(arg, rundir.ConfigFile)
	}
	return filepath.Join(arg, rundir.CheckpointDir, which+".safetensors"), nil
}

func runEval(_ context.Context, o *evalOptions) error {
	e, samples, err := train.EvaluateCheckpoint(o.cfg, o.split, o.samples, o.threads, o.state.checkMemory)
	if err != nil {
		return err
	}
	out := o.state.Out
	if o.json {
		return printJSON(out, struct {
			Checkpoint string          `json:"checkpoint"`
			Eval       rundir.Eval     `json:"eval"`
			Samples    []rundir.Sample `json:"samples,omitempty"`
		}{o.cfg.Model.Init, e, samples})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "split\tdecoding\tanswer reward\t95% interval\tcorrect_num\terror_num\tformatted, right\tformatted, wrong\tunformatted\tlength")
	row := func(name string, c rundir.Counts) {
		lo, hi := report.Wilson(c.CorrectNum, c.N, 0.95)
		fmt.Fprintf(w, "%s\t%s\t%.4f\t[%.4f, %.4f]\t%d\t%d\t%d\t%d\t%d\t%.1f\n", e.Split, name, c.AnswerReward, lo, hi,
			c.CorrectNum, c.ErrorNum, c.FormattedRight, c.FormattedWrong, c.Unformatted, c.Length)
	}
	row("sampled", e.Sampled)
	if e.Greedy != nil {
		row("greedy", *e.Greedy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "always answering %s: %.4f\n", e.MajorityAnswer, e.MajorityBaseline)
	for _, x := range samples {
		if _, err := fmt.Fprintf(out, "\n%s (%s, gold %s, reward %g)\n%s%s\n", x.Problem, x.Decoding, x.Gold, x.AnswerReward, x.Prompt, x.Completion); err != nil {
			return err
		}
	}
	return nil
}
