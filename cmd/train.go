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
	{"seed", "seed", "uint", "seed of problem order and sampling"},
	{"lr", "train.learning_rate", "float", "learning rate"},
	{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"},
	deviceKey,
	skipBad,
	stopDiverged,
}

// deviceKey chooses between the CPU and a GPU.
var deviceKey = keyFlag{"device", "model.device", "cpu|cuda|auto", "device to run on"}

// skipBad and stopDiverged need no value.
var (
	skipBad      = keyFlag{"skip-bad", "data.skip_bad", "bool", "skip and count invalid lines of the problem files"}
	stopDiverged = keyFlag{"stop-on-divergence", "train.stop_on_divergence", "bool", "end a run when its validation reward collapses"}
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
		Short: "Train a policy and plot its validation reward",
		Long: `Train runs one training run. All output goes to one folder: the resolved
configuration, metrics, evaluations, samples, checkpoints, the result, and PNG
figures.

Run the same command again to continue an interrupted run or to show the result
of a finished one. "--resume FOLDER" does the same and needs no other flag.
--fresh starts over in a new folder. SIGINT, SIGTERM and SIGHUP end the run after
the current step, with a checkpoint. A second signal, at least half a second
later, ends it at once; it then continues from the previous checkpoint. If a
checkpoint is damaged, the run continues from the one before and reports it.

The same configuration gives the same numbers, bit for bit, on any number of
threads. On a GPU (--device cuda) this holds for the same card; a run that moves
between devices continues and reports it.

Settings that need more memory than this machine has are refused before anything
is written. GRPO_MEMORY=16GB sets the available memory; GRPO_MEMORY=off disables
the check.`,
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
	c.Flags().StringVar(&resume, "resume", "", "continue the run in this `folder`, with its own configuration")
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
			return config.LoadOptions{}, &usageError{c, fmt.Errorf("--resume continues the run in %s with its own configuration; --%s can't be combined with --resume", dir, name)}
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
