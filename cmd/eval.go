package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
)

var evalKeys = []keyFlag{{"seed", "seed", "uint", "seed of sampling"}, modelKey,
	{"sets", "eval.sets", "list", "evaluate on validation, unseen, svamp and files"},
	{samplesFlag, "eval.samples", "int", "completions of each problem, for pass@k and maj@k"},
	{"pass-at", "eval.pass_at", "list", "each k of pass@k"},
	{"majority-at", "eval.majority_at", "list", "each k of maj@k"}, deviceKey, skipBad}

// samplesFlag is not called samples, which are the completions to print.
const samplesFlag = "samples-per-problem"

// evalOptions are the inputs of `grpo eval`.
type evalOptions struct {
	load       config.LoadOptions
	checkpoint string // a run's folder or a file; empty: the configuration's initial weights
	which      string // checkpoint of a run: last or best
	whichGiven bool
	split      string
	samples    int
	threads    int
	json       bool
	quiet      bool
}

func newEval(s *State) *cobra.Command {
	o := &evalOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use: "eval [RUN|CHECKPOINT]", SuggestFor: []string{"evaluate", "test", "validate"},
		Short: "Evaluate a checkpoint: count right, wrong and unformatted answers",
		Long: `Eval decodes the problems of the sets in eval.sets (by default the validation and
unseen problems), or of one split, with sampling and greedily and counts right,
wrong and unformatted answers. It uses the settings in the configuration's "eval"
section (temperature 1 by default), not those of the rollouts. The argument is a
run's folder (eval uses its configuration and checkpoint), a folder of "grpo sft",
or a safetensors file; width and depth come from the checkpoint. Without an
argument it evaluates the configuration's initial weights, by default the embedded
base model.

Of a run, greedy counts are those that it recorded. Sampled ones are a new draw
with the random numbers of step 0, so they differ by chance.

--samples-per-problem 64 samples each problem 64 times, and a second table has
pass@k, the chance that at least one of k completions is right, and maj@k, the
accuracy of their most frequent answer, with 95% intervals over the problems.

SIGINT, SIGTERM or SIGHUP end an evaluation: it prints the counts of the completions
that are complete, marked as partial, and exits with 130. If problems come from files,
only the file of the evaluated split must be named. eval.max_tokens is by default 256
for a Llama or Qwen model (a quarter of a shorter context), and else that of rollouts.`,
		Example: `  grpo eval
  grpo eval results/train-1a2b3c4d --split unseen
  grpo eval my-base/model.safetensors --json
  grpo eval results/train-1a2b3c4d --sets validation,unseen,hard/problems.jsonl
  grpo eval results/train-1a2b3c4d --samples-per-problem 64 --pass-at 1,4,16,64
  grpo eval --set data.source=gsm8k --set data.val_file=test.jsonl`,
		Args: takes("the folder of a run, a model or a safetensors file", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.load = cf.options(cmd, s)
			o.whichGiven = cmd.Flags().Changed("which")
			if o.split != "" && cmd.Flags().Changed("sets") {
				return usagef(cmd, "--split and --sets exclude each other: --split evaluates one split only")
			}
			if len(args) == 1 {
				o.checkpoint = args[0]
			}
			o.load.Only = cmp.Or(o.split, rundir.SplitVal)
			if cmd.Flags().Changed(samplesFlag) { // in place of what a run takes at its last evaluation
				o.load.Flags = append(o.load.Flags, config.Flag{Key: "eval.final_samples", Name: "--" + samplesFlag, Value: "1"})
			}
			return run(cmd, s, o, runEval)
		},
		Annotations: saves, // prints what it has when it is interrupted
	}
	cf.add(c, config.Names(), evalKeys)
	addSplit(c, &o.split, "", "only this split")
	addWhich(c, &o.which, "last", "; best if the run kept no other")
	countVar(c.Flags(), &o.samples, "samples", 0, 0, maxCount,
		"also print the first n completions of each set and decoding")
	addThreads(c.Flags(), &o.threads, "")
	addJSON(c, &o.json)
	addQuiet(c.Flags(), &o.quiet)
	return c
}

// useCheckpoint returns the path of the checkpoint to evaluate. The configuration of
// a run is taken from its folder, unless -c names one.
func useCheckpoint(o *evalOptions, note func(string)) (string, error) {
	arg := o.checkpoint
	path, ofRun, err := policy.WeightsAt(arg, o.which)
	if err != nil {
		return "", fmt.Errorf("evaluate %s: %w", arg, err)
	}
	if !ofRun {
		return path, nil // without the configuration of a run: that of grpo sft is a recipe
	}
	if best, only := policy.OnlyBest(arg, path); only && o.which == "last" {
		if o.whichGiven {
			return "", fmt.Errorf("evaluate %s: there is no last checkpoint, because the run kept only its "+
				"best weights (output.keep=best); leave out --which to evaluate these", arg)
		}
		note("the run kept only its best weights (output.keep=best); evaluating these")
		path = best
	}
	own := filepath.Join(arg, rundir.ConfigFile)
	if o.load.Path == "" {
		o.load.Path = own
		err = regular.Check(own, regular.MaxDocument)
	}
	checks := []error{err}
	if filepath.Ext(path) != "" { // not the folder of the best weights
		checks = append(checks, regular.Check(path, regular.MaxCheckpoint))
	}
	for _, err := range checks {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is reported where it is read
			return "", fmt.Errorf("evaluate: %w", err)
		}
	}
	return path, nil
}

// evalOutput is what --json prints.
type evalOutput struct {
	Checkpoint string        `json:"checkpoint"`
	Settings   string        `json:"settings"`
	Eval       rundir.Eval   `json:"eval"` // the first of Evals, for readers of earlier versions
	Evals      []rundir.Eval `json:"evals"`
	// Partial: the evaluation was interrupted, and the counts have fewer problems (n) than the sets.
	Partial  bool               `json:"partial"`
	Warnings []string           `json:"warnings"`
	Samples  []infer.EvalSample `json:"samples,omitempty"`
}

// runEval is interrupted at once, unless there are tokens: then it ends with what it has.
func runEval(ctx context.Context, s *State, o *evalOptions) error {
	var began atomic.Bool
	return orStopped(ctx, began.Load, func() error { return evaluate(ctx, s, o, &began) })
}

// evaluate sets began while an interrupted evaluation would have a part of its results.
func evaluate(ctx context.Context, s *State, o *evalOptions, began *atomic.Bool) error {
	p := newProgress(s, o.quiet)
	if o.checkpoint != "" {
		init, err := useCheckpoint(o, p.Note)
		if err != nil {
			return err
		}
		o.load.Flags = append(o.load.Flags, config.Flag{Key: "model.init", Name: "the argument", Value: init})
	}
	r, err := config.Load(o.load)
	if err != nil {
		return err
	}
	out, err := infer.EvaluateCheckpoint(ctx, infer.EvalOptions{
		Split: o.split, Samples: o.samples,
		Options: infer.Options{Config: r.Config, Threads: o.threads, Note: p.Note, Memory: s.checkMemory,
			Progress: func(a model.Activity) {
				began.Store(began.Load() || a.Tokens > 0)
				p.Doing(a)
			}},
	})
	p.done()
	if err != nil {
		return err
	}
	began.Store(out.Partial)
	if err := showEval(s, o, r.Config, out); err != nil {
		return err
	}
	if out.Partial {
		return errStopped
	}
	return nil
}

func showEval(s *State, o *evalOptions, cfg config.Config, out *infer.Evaluated) error {
	settings := analysis.EvalSettings(config.Marshal(cfg))
	if o.json {
		return printJSON(s.Out, evalOutput{
			cfg.Model.Init, settings, out.Evals[0], out.Evals, out.Partial, out.Warnings, out.Samples})
	}
	w := newTable(s.Out)
	last := "majority answer"
	if cfg.Eval.Reward != "" {
		last = "mean of " + cfg.Eval.Reward
	}
	textutil.Fprintf(w, "split\tdecoding\tanswer reward\t95%% interval\tcorrect_num\terror_num\t"+
		"formatted, right\tformatted, wrong\tunformatted\tcut\tlength\t%s\n", last)
	for _, e := range out.Evals {
		row := func(name string, c *rundir.Counts) {
			lo, hi := analysis.ProblemInterval(&e, c)
			textutil.Fprintf(w, "%s\t%s\t%.4f\t[%.4f, %.4f]\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\n",
				e.Split, name, c.AnswerReward, lo, hi, c.CorrectNum, c.ErrorNum,
				c.FormattedRight, c.FormattedWrong, c.Unformatted, c.Truncated, c.Length, levelOf(&e, c))
		}
		for _, name := range []string{rundir.DecodingSampled, rundir.DecodingGreedy} {
			if c := analysis.DecodedCounts(&e, name); c != nil && c.N > 0 {
				row(name, c)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	textutil.Fprintf(s.Out, "sampled at %s; unformatted includes cut\n", settings)
	if t := report.AtKTable(out.Evals); len(t.Rows) > 0 {
		textutil.Fprintf(s.Out, "\n")
		for line := range strings.SplitSeq(strings.TrimRight(t.String(), "\n"), "\n") {
			textutil.Fprintf(s.Out, "%s\n", line)
		}
	}
	for _, warning := range out.Warnings {
		textutil.Fprintf(s.Out, "warning: %s\n", warning)
	}
	for _, x := range out.Samples {
		textutil.Fprintf(s.Out, "\n%s (%s, %s, gold %s): %s\n  question: %s\n  completion: %s\n",
			x.Problem, x.Split, x.Decoding, x.Gold, report.Outcomes[x.Why()],
			textutil.Lines(x.Question), textutil.Lines(x.Completion))
	}
	return nil
}

// levelOf is the mean of eval.reward, or the majority-answer baseline; "none" where there is neither.
func levelOf(e *rundir.Eval, c *rundir.Counts) string {
	switch {
	case c.Score != nil:
		return textutil.Rounded(*c.Score)
	case e.MajorityAnswer == "":
		return "none"
	}
	return fmt.Sprintf("%.4f (always %s)", e.MajorityBaseline, e.MajorityAnswer)
}
