package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
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
	deviceKey,
	skipBad,
	stopDiverged,
}

// deviceKey chooses between the CPU and a GPU.
var deviceKey = keyFlag{"device", "model.device", "where the arithmetic runs: cpu, cuda or auto"}

// skipBad and stopDiverged are flags without a value.
var (
	skipBad      = keyFlag{"skip-bad", "data.skip_bad", "count broken lines of the problem files and go on"}
	stopDiverged = keyFlag{"stop-on-divergence", "train.stop_on_divergence", "end a run when its validation reward has collapsed"}
)

// trainOptions are the inputs of `grpo train`.
type trainOptions struct {
	state   *State
	cfg     config.Config
	dir     string
	resume  bool // dir was given by --resume, and cfg is its own
	threads int
	json    bool
	quiet   bool
	profile profileFlag
}

func newTrain(s *State) *cobra.Command {
	var cf configFlags
	var of outFlags
	var pf profileFlag
	var resume string
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy: rollouts, rewards, updates, validation, curves",
		Long: `Train makes one run. Its folder holds the resolved configuration, metrics,
evaluations, samples, checkpoints, the result, and the validation curve as PNG.

The same command again continues an interrupted run, or shows the result of a
finished one; so does --resume with the run's folder, which needs no other flag.
--fresh begins anew beside it. SIGINT, SIGTERM and SIGHUP end a run after its
step, with a checkpoint. Another signal, half a second later or more, ends it at
once, and it continues from the previous checkpoint. A damaged checkpoint falls
back to the one before it, and says so.

The same configuration gives the same numbers, bit for bit, on any number of
threads. On a GPU (--device cuda) it does so on the same card; a run that moves
between devices goes on and says so.

Settings that need more memory than this machine has are refused before anything
is written; GRPO_MEMORY=16GB says how much there is, GRPO_MEMORY=off tries it all
the same.`,
		Example: `  grpo train
  grpo train --lr 3e-4 --seed 2
  grpo train -c smoke --out /tmp/smoke --json
  grpo train --set algorithm.loss_type=no_baseline --set length_normalization=masked_normalize
  grpo train --resume results/train-1a2b3c4d
  grpo train -c results/train-1a2b3c4d/config.yaml --fresh    repeats that run`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pf.check(); err != nil {
				return err
			}
			o := &trainOptions{state: s, dir: resume, resume: cmd.Flags().Changed("resume"), threads: of.threads, json: of.json, quiet: of.quiet, profile: pf}
			opts := cf.options(cmd, s, trainKeys)
			if o.resume {
				var err error
				if opts, err = resumed(cmd, resume); err != nil {
					return err
				}
			}
			r, err := config.Load(opts)
			if err != nil {
				return err
			}
			o.cfg = r.Config
			if !o.resume {
				if o.dir, err = of.resolve("train", config.Hash(r.Config)); err != nil {
					return err
				}
			}
			return runTrain(cmd.Context(), o)
		},
		Annotations: saves,
	}
	cf.add(c, config.Names())
	addKeyFlags(c, trainKeys)
	of.add(c.Flags())
	pf.add(c.Flags(), "the run's folder")
	c.Flags().StringVar(&resume, "resume", "", "continue the run in this folder, under the configuration that stands there")
	return c
}

// resumed returns the source of the configuration of the run in dir: its own,
// and nothing over it, the environment included, but the device: a run may move.
// Flags that would say otherwise are refused.
func resumed(c *cobra.Command, dir string) (config.LoadOptions, error) {
	if dir == "" {
		return config.LoadOptions{}, &usageError{c, errors.New("--resume needs the folder of a run")}
	}
	names := []string{"config", "set", "out", "fresh"}
	for _, k := range trainKeys {
		if k != deviceKey {
			names = append(names, k.flag)
		}
	}
	for _, name := range names {
		if c.Flags().Changed(name) {
			return config.LoadOptions{}, &usageError{c, fmt.Errorf("--resume continues the run in %s as it was begun, so --%s has no place beside it", dir, name)}
		}
	}
	path := filepath.Join(dir, rundir.ConfigFile)
	switch err := regular.Check(path, regular.MaxDocument); {
	case errors.Is(err, fs.ErrNotExist):
		return config.LoadOptions{}, fmt.Errorf("%w: resume %s: there is no run in this folder: %w", config.ErrConfig, dir, err)
	case err != nil:
		return config.LoadOptions{}, fmt.Errorf("resume %s: %w", dir, err)
	}
	return config.LoadOptions{Path: path, Flags: keyValues(c, []keyFlag{deviceKey})}, nil
}

func runTrain(ctx context.Context, o *trainOptions) error {
	s := o.state
	p := newProgress(s, o.quiet)
	p.line("run folder %s", o.dir)
	var res *rundir.Result
	err := o.profile.during(s, o.dir, func() (err error) {
		res, err = train.Run(ctx, o.cfg, train.Options{Dir: o.dir, Threads: o.threads, Now: s.Now, Observer: p, Meta: build(s), Resume: o.resume, Memory: s.checkMemory})
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
