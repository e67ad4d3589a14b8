package cmd

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/audit"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/sweepdir"
)

// auditOptions are the inputs of `grpo audit`.
type auditOptions struct {
	ask       audit.Request
	drawn     string // the folder of an audit, to draw its page again
	placebo   bool
	noPlacebo bool
	out       outFlags
	jobs      int
}

func newAudit(s *State) *cobra.Command {
	o := &auditOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use:   "audit RUN...|SWEEP|AUDIT",
		Short: "Ask where the gain of a recipe comes from",
		Long: `Audit compares trained policies with the initial one and writes a page (audit.html,
audit.md, audit.json, pass_at_k.png) that answers, each with an interval: is the trained
policy above at every k of pass@k, does it solve problems that the initial policy did not,
beyond what two draws of the initial policy differ by; would a majority vote do; is the
gain format or answers; what do other sets of problems say; would a placebo reward have
done the same; how far did the weights move. A sentence at the top sums up: "more
reliable, not more capable", "new problems solved", "mostly format", "nothing that a
placebo did not do", "no gain shown". docs/audit.md has the rules.

Give finished runs that differ in their seed alone, or a sweep (--arm, if it has several),
or weights: --model DIR --base DIR -c CONFIG. Each policy completes each problem --samples
times. Then the recipe is trained again with the same seeds and two rewards that say
nothing about the answer: random ones and a constant one. For a Llama or Qwen network
that takes long, so --placebo asks for it.

The same command again does only what is missing; with more seeds and the same --out, it
samples only these. The folder of an audit as the argument draws its page again.`,
		Example: `  grpo audit results/train-1a2b3c4d
  grpo audit results/sweep-1a2b3c4d --arm lr=1e-3 --out results/audit
  grpo audit runs/seed=1 runs/seed=2 runs/seed=3 runs/seed=4 --samples 64
  grpo audit results/train-1a2b3c4d --split unseen --no-placebo
  grpo audit gsm8k-run --problems 128 --samples 16
  grpo audit --model tuned --base SmolLM2-135M-Instruct -c smollm2 --set data.val_size=128
  grpo audit results/audit-1a2b3c4d`,
		Args: takes("folders of runs, or of one sweep or audit", 0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ofWeights := o.ask.Model != ""
			o.ask.Dirs, o.ask.Load = analysis.Distinct(args), cf.options(cmd, s)
			switch name := changed(cmd, "config", "set", "base"); {
			case len(args) == 0 && !ofWeights:
				return usagef(cmd, "give finished runs or a sweep, or weights with --model")
			case len(args) > 0 && ofWeights:
				return usagef(cmd, "--model is for weights without a run: leave it or the folders out")
			case !ofWeights && name != "":
				return usagef(cmd, "--%s is for weights of --model: runs have their own configuration", name)
			case ofWeights && changed(cmd, "arm", "which", "placebo") != "":
				return usagef(cmd, "--%s is for runs, and --model is not one", changed(cmd, "arm", "which", "placebo"))
			case o.placebo && o.noPlacebo:
				return usagef(cmd, "--placebo and --no-placebo exclude each other")
			}
			if len(args) == 1 && report.IsAudit(args[0]) {
				if name := changed(cmd, "arm", "which", "placebo", "samples", "problems", "split", "out", "fresh"); name != "" {
					return usagef(cmd, "%s is an audit, whose page is drawn again: leave out --%s", args[0], name)
				}
				o.drawn = args[0]
			}
			return run(cmd, s, o, runAudit)
		},
		Annotations: saves,
	}
	cf.add(c, config.Names(), nil)
	c.Flags().StringVar(&o.ask.Arm, "arm", "", "`name` of the arm to audit, if the sweep has several")
	completeWith(c, "arm", completeArms)
	c.Flags().StringVar(&o.ask.Model, "model", "", "trained weights, a `path` as in model.init, instead of runs")
	c.Flags().StringVar(&o.ask.Base, "base", "", "initial weights of --model, a `path` (default model.init of -c)")
	addSplit(c, &o.ask.Split, rundir.SplitVal, "problems to sample")
	addWhich(c, &o.ask.Which, "last", "; best if the run kept no other")
	countVar(c.Flags(), &o.ask.Samples, "samples", 64, 2, stats.MaxChoose, "completions of each problem")
	countVar(c.Flags(), &o.ask.Problems, "problems", 0, 0, maxCount, "the first problems of the split (0 = all)")
	c.Flags().BoolVar(&o.placebo, "placebo", false, "train the placebos (the default for TinyLM)")
	c.Flags().BoolVar(&o.noPlacebo, "no-placebo", false, "do not train placebos")
	countVar(c.Flags(), &o.jobs, "jobs", 0, 0, maxCount, "placebo runs in parallel (0 = one per core)")
	o.out.addFolder(c.Flags(), "of the audit (default results/audit-<hash of what is audited>", "")
	o.out.addShow(c.Flags())
	addThreads(c.Flags(), &o.out.threads, "; does not affect the results")
	return c
}

func runAudit(ctx context.Context, s *State, o *auditOptions) error {
	if o.drawn != "" {
		a, err := report.OpenAudit(o.drawn)
		if err != nil {
			return err
		}
		paths, err := a.Write(o.drawn)
		return o.show(s, a, paths, err)
	}
	p := newProgress(s, o.out.quiet)
	defer p.done()
	subject, err := o.ask.Find(p.Note)
	if err != nil {
		return err
	}
	dir, err := o.out.resolve("audit", subject.Hash)
	if err != nil {
		return err
	}
	p.headline("audit folder %s", filepath.ToSlash(dir))
	a, paths, err := subject.Run(ctx, dir, audit.Options{
		Infer:   infer.Options{Threads: o.out.threads, Note: p.Note, Memory: s.checkMemory, Progress: p.Doing},
		Command: s.Args, Placebo: o.placebo || !o.noPlacebo && !subject.Decoder,
		Launch: launch.Options{
			Options: sweep.Options{Jobs: o.jobs, Version: version, Memory: s.available(), Disk: s.checkDisk, Now: s.Now},
			Note:    p.Note, Print: func(string) {}, Args: s.Args, Env: s.Env,
		},
		Table: func(m sweepdir.Manifest) launch.Observer {
			p.done()
			p.line("training %s, a placebo for each seed and reward", textutil.Count(len(m.Runs), "run"))
			return newSweepTable(s, o.out.quiet, m, o.jobs)
		},
	})
	p.done()
	return o.show(s, a, paths, err)
}

// show prints an audit and the files that were written.
func (o *auditOptions) show(s *State, a *report.Audit, paths []string, err error) error {
	if err != nil {
		return err
	}
	wrote(s, paths...)
	if o.out.json {
		return printJSON(s.Out, a)
	}
	_, err = io.WriteString(s.Out, textutil.Text(a.Text()))
	return err
}
