package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// trainKeys are the keys with flags of their own.
var trainKeys = []keyFlag{
	{"seed", "seed", "seed of problem order and sampling"},
	{"lr", "train.learning_rate", "learning rate"},
	{"steps", "train.n_grpo_steps", "number of rollout batches"},
	skipBad,
}

// skipBad is a flag without a value.
var skipBad = keyFlag{"skip-bad", "data.skip_bad", "count broken lines of the problem files and go on"}

// trainOptions are the inputs of `grpo train`.
type trainOptions struct {
	state   *State
	cfg     config.Config
	dir     string
	threads int
	json    bool
	quiet   bool
	profile profileFlag
}

func newTrain(s *State) *cobra.Command {
	var cf configFlags
	var of outFlags
	var pf profileFlag
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy: rollouts, rewards, updates, validation, curves",
		Long: `Train makes one run. Its folder holds the resolved configuration, metrics,
evaluations, samples, checkpoints, the result, and the validation curve as PNG.

The same command again continues an interrupted run, or shows the result of a
finished one; --fresh begins anew beside it. The same configuration gives the
same numbers, bit for bit, on any number of threads.`,
		Example: `  grpo train
  grpo train --lr 3e-4 --seed 2
  grpo train -c smoke --out /tmp/smoke --json
  grpo train --set algorithm.loss_type=no_baseline --set length_normalization=masked_normalize
  grpo train -c results/train-1a2b3c4d/config.yaml --fresh    repeats that run`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pf.check(); err != nil {
				return err
			}
			r, err := config.Load(cf.options(cmd, s, trainKeys))
			if err != nil {
				return err
			}
			o := &trainOptions{state: s, cfg: r.Config, threads: of.threads, json: of.json, quiet: of.quiet, profile: pf}
			if o.dir, err = of.resolve("train", config.Hash(r.Config)); err != nil {
				return err
			}
			return runTrain(cmd.Context(), o)
		},
	}
	cf.add(c, config.Names())
	addKeyFlags(c, trainKeys)
	of.add(c.Flags())
	pf.add(c.Flags(), "the run's folder")
	return c
}

func runTrain(ctx context.Context, o *trainOptions) error {
	s := o.state
	p := newProgress(s, o.quiet)
	p.line("run folder %s", o.dir)
	var res *rundir.Result
	err := o.profile.during(s, o.dir, func() (err error) {
		res, err = train.Run(ctx, o.cfg, train.Options{Dir: o.dir, Threads: o.threads, Now: s.Now, Observer: p, Meta: build(s)})
		p.done()
		return err
	})
	if err != nil {
		return err
	}
	run, err := rundir.Open(o.dir)
	if err != nil {
		return err
	}
	figures, err := drawRuns(o.dir, []*rundir.Run{run}, "")
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, struct {
			Dir     string         `json:"dir"`
			Figures []string       `json:"figures"`
			Result  *rundir.Result `json:"result"`
		}{o.dir, figures, res})
	}
	return report.WriteSummary(s.Out, run, figures...)
}
