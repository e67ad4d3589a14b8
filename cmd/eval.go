package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/internal/words"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/train"
)

var evalKeys = []keyFlag{{"seed", "seed", "uint", "seed of sampling"}, deviceKey, skipBad}

var evalSplits = []string{"val", "test", "unseen", "train"}

// evalOptions are the inputs of `grpo eval`.
type evalOptions struct {
	state   *State
	cfg     config.Config
	split   string
	samples int
	threads int
	json    bool
	quiet   bool
}

func newEval(s *State) *cobra.Command {
	var cf configFlags
	var o evalOptions
	var which string
	o.state = s
	c := &cobra.Command{
		Use:   "eval [RUN|CHECKPOINT]",
		Short: "Evaluate a checkpoint: count right, wrong and unformatted answers",
		Long: `Eval decodes the problems of a split with sampling and greedily and counts right,
wrong and unformatted answers. It uses the settings in the configuration's "eval"
section (temperature 1 by default), not those of the rollouts. The argument is a
run's folder (eval uses its configuration and checkpoint), a folder of "grpo sft",
or a safetensors file; width and depth come from the checkpoint. Without an
argument it evaluates the configuration's initial weights, by default the embedded
base model.`,
		Example: `  grpo eval
  grpo eval results/train-1a2b3c4d --split unseen
  grpo eval my-base/model.safetensors --json
  grpo eval --set data.source=gsm8k --set data.train_file=train.jsonl --set data.val_file=test.jsonl`,
		Args: takes("the folder of a run or a safetensors file", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := cf.options(cmd, s, evalKeys)
			if !slices.Contains(evalSplits, o.split) {
				return &usageError{cmd, fmt.Errorf("--split %s: there is no such split%s (there are %s)", words.Show(o.split), words.DidYouMean(o.split, evalSplits), strings.Join(evalSplits, ", "))}
			}
			if len(args) == 1 {
				init, err := useCheckpoint(args[0], which, cmd.Flags().Changed("which"), &opts, newProgress(s, o.quiet).Note)
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
	c.Flags().StringVar(&o.split, "split", "val", "split: `val|test|unseen|train`")
	c.Flags().StringVar(&which, "which", "last", "checkpoint of a run: `last|best`; best if the run kept no other")
	countVar(c.Flags(), &o.samples, "samples", 0, 0, maxCount, "also print the first n completions")
	addThreads(c.Flags(), &o.threads, "")
	c.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "do not print notes on standard error")
	_ = c.RegisterFlagCompletionFunc("split", cobra.FixedCompletions(evalSplits, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("which", cobra.FixedCompletions([]string{"last", "best"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// useCheckpoint turns the argument into a checkpoint's path; of a run it takes
// the configuration too, unless -c names one. asked says that --which was given.
func useCheckpoint(arg, which string, asked bool, opts *config.LoadOptions, note func(string)) (string, error) {
	if !slices.Contains([]string{"last", "best"}, which) {
		return "", fmt.Errorf("%w: --which %q is unknown (last or best)", config.ErrConfig, which)
	}
	info, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) {
		return "", config.Invalid(fmt.Errorf("evaluate %s: no such file or folder; give the folder of a run, as `grpo train` names it, or a safetensors file", arg))
	}
	if err != nil {
		return "", fmt.Errorf("evaluate: %w", err)
	}
	if !info.IsDir() {
		return arg, nil
	}
	if _, err := os.Stat(filepath.Join(arg, train.SFTModelFile)); err == nil {
		return arg, nil // a folder of grpo sft: its recipe is not the configuration of a run
	}
	path := checkpointIn(arg, which)
	if best := checkpointIn(arg, "best"); which == "last" && missing(path) && !missing(best) {
		if asked {
			return "", fmt.Errorf("evaluate %s: there is no last checkpoint, because the run kept only its best weights (output.keep=best); leave out --which to evaluate these", arg)
		}
		note("the run kept only its best weights (output.keep=best); evaluating these")
		path = best
	}
	own := filepath.Join(arg, rundir.ConfigFile)
	if opts.Path == "" {
		opts.Path = own
		err = regular.Check(own, regular.MaxDocument)
	}
	for _, err := range []error{err, regular.Folder(filepath.Dir(path)), regular.Check(path, regular.MaxCheckpoint)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // what is missing is reported where it is read
			return "", fmt.Errorf("evaluate: %w", err)
		}
	}
	return path, nil
}

func checkpointIn(run, which string) string {
	return filepath.Join(run, rundir.CheckpointDir, which+".safetensors")
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func runEval(_ context.Context, o *evalOptions) error {
	e, samples, err := train.EvaluateCheckpoint(o.cfg, o.split, o.samples, o.threads, newProgress(o.state, o.quiet).Note, o.state.checkMemory)
	if err != nil {
		return err
	}
	out, settings := o.state.Out, analysis.EvalSettings(config.Marshal(o.cfg))
	if o.json {
		return printJSON(out, struct {
			Checkpoint string          `json:"checkpoint"`
			Settings   string          `json:"settings"`
			Eval       rundir.Eval     `json:"eval"`
			Samples    []rundir.Sample `json:"samples,omitempty"`
		}{o.cfg.Model.Init, settings, e, samples})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "split\tdecoding\tanswer reward\t95% interval\tcorrect_num\terror_num\tformatted, right\tformatted, wrong\tunformatted\tlength")
	row := func(name string, c rundir.Counts) {
		lo, hi := stats.Wilson(c.CorrectNum, c.N, 0.95)
		textutil.Fprintf(w, "%s\t%s\t%.4f\t[%.4f, %.4f]\t%d\t%d\t%d\t%d\t%d\t%.1f\n", e.Split, name, c.AnswerReward, lo, hi,
			c.CorrectNum, c.ErrorNum, c.FormattedRight, c.FormattedWrong, c.Unformatted, c.Length)
	}
	row("sampled", e.Sampled)
	if e.Greedy != nil {
		row("greedy", *e.Greedy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	textutil.Fprintf(out, "sampled at %s\n", settings)
	textutil.Fprintf(out, "majority-answer baseline: %.4f (always answering %s)\n", e.MajorityBaseline, e.MajorityAnswer)
	for _, x := range samples {
		if _, err := textutil.Fprintf(out, "\n%s (%s, gold %s, reward %g)\n  %s\n", x.Problem, x.Decoding, x.Gold, x.AnswerReward, textutil.Lines(x.Prompt+x.Completion)); err != nil {
			return err
		}
	}
	return nil
}
