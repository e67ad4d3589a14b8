package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// trainKeys are the keys with flags of their own.
var trainKeys = []keyFlag{
	{"seed", "seed", "uint", "seed of problem order and sampling"},
	{"lr", "train.learning_rate", "float", "learning rate"},
	{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"},
	modelKey,
	deviceKey,
	skipBad,
	stopDiverged,
}

// modelKey names the model that a run starts from.
var modelKey = keyFlag{
	"model", "model.init", "path",
	"start from this Hugging Face folder, GGUF file or checkpoint, or from OWNER/NAME of \"grpo pull model\"",
}

// deviceKey chooses between the CPU and a GPU.
var deviceKey = keyFlag{"device", "model.device", "cpu|cuda|auto", "device to run on"}

// skipBad and stopDiverged need no value.
var (
	skipBad = keyFlag{"skip-bad", "data.skip_bad", "bool",
		"skip and count invalid lines of the problem files"}
	stopDiverged = keyFlag{"stop-on-divergence", "train.stop_on_divergence", "bool",
		"end a run when its validation reward collapses"}
)

// trainOptions are the inputs of `grpo train` and `grpo dpo`.
type trainOptions struct {
	command string // its name, for the default folder
	load    config.LoadOptions
	out     outFlags
	resume  string // the folder of the run to continue; empty without --resume
	profile profileFlag
	gate    gateFlags
}

func newTrain(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy and plot its validation reward",
		Long: `Train runs one training run. All output goes to one folder: the resolved
configuration, metrics, evaluations, samples, checkpoints, the result, PNG figures
and a page, report.html.

Run the same command again to continue an interrupted run or to show the result
of a finished one. "--resume FOLDER" does the same and needs no other flag.
--fresh starts over in a new folder. SIGINT, SIGTERM and SIGHUP end the run after
the current step, with a checkpoint, or in an evaluation of a large network that can
be continued. A second signal, at least half a second later, ends it at once; it then
continues from the previous checkpoint. If a checkpoint is damaged, the run continues
from the one before and reports it.

The same configuration gives the same numbers, bit for bit, on any number of
threads. On a GPU (--device cuda) this holds for the same card; a run that moves
between devices continues and reports it.

Settings that need more memory than this machine has, or more space than the disk
has left, are refused before anything is written. GRPO_MEMORY=16GB sets the
available memory; GRPO_MEMORY=off and GRPO_DISK=off disable the checks.`,
		Example: `  grpo train
  grpo train --lr 3e-4 --seed 2
  grpo train -c smoke --out /tmp/smoke --json
  grpo train -c smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf
  grpo train --set algorithm.loss_type=no_baseline --set length_normalization=masked_normalize
  grpo train --resume results/train-1a2b3c4d
  grpo train -c results/train-1a2b3c4d/config.yaml --fresh    repeats that run`,
	}
	return trains(c, s, trainKeys, nil)
}

// trains completes a command that trains one run: keys have flags of their own, and change, if it is
// not nil, adapts the sources of the configuration of a new run.
func trains(c *cobra.Command, s *State, keys []keyFlag, change func(*config.LoadOptions) error) *cobra.Command {
	o := &trainOptions{command: c.Name()}
	var cf configFlags
	c.Annotations = saves
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o.load = cf.options(cmd, s)
		switch {
		case cmd.Flags().Changed("resume"):
			if err := checkResume(cmd, o.resume, keys); err != nil {
				return err
			}
		case change != nil:
			if err := change(&o.load); err != nil {
				return err
			}
		}
		return run(cmd, s, o, runTrain)
	}
	cf.add(c, config.Names(), keys)
	o.out.add(c.Flags())
	o.profile.add(c, "the run's folder")
	o.gate.add(c.Flags())
	o.gate.addWeights(c.Flags())
	c.Flags().StringVar(&o.resume, "resume", "", "continue the run in this `folder`, with its own configuration")
	return c
}

// checkResume refuses flags that would change the configuration of the run in dir,
// but the device: a run may move.
func checkResume(c *cobra.Command, dir string, keys []keyFlag) error {
	if dir == "" {
		return usagef(c, "--resume needs the folder of a run")
	}
	names := []string{"config", "set", "out", "fresh"}
	for _, k := range keys {
		if k != deviceKey {
			names = append(names, k.flag)
		}
	}
	if name := changed(c, names...); name != "" {
		return usagef(c, "--resume continues the run in %s with its own configuration; "+
			"--%s can't be combined with --resume", dir, name)
	}
	return nil
}

// resumed is the source of the configuration of the run in dir: its own, without
// the environment; flags can only give the device.
func resumed(dir string, flags []config.Flag) (config.LoadOptions, error) {
	path := filepath.Join(dir, rundir.ConfigFile)
	switch err := regular.Check(path, regular.MaxDocument); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return config.LoadOptions{}, fmt.Errorf("%w: resume %s: there is no run in this folder (it has no %s)",
			config.ErrConfig, dir, rundir.ConfigFile)
	case err != nil:
		return config.LoadOptions{}, fmt.Errorf("resume %s: %w", dir, err)
	}
	return config.LoadOptions{Path: path, Flags: flags}, nil
}

// trainOutput is what --json prints.
type trainOutput struct {
	Dir     string         `json:"dir"`
	Figures []string       `json:"figures"`
	Report  string         `json:"report"`
	Result  *rundir.Result `json:"result"`
	Checks  []report.Check `json:"checks"`
}

func runTrain(ctx context.Context, s *State, o *trainOptions) error {
	load, dir := o.load, o.resume
	if err := o.gate.load(rundir.KindRun); err != nil {
		return err
	}
	if o.resume != "" {
		var err error
		if load, err = resumed(dir, load.Flags); err != nil {
			return err
		}
	}
	r, err := config.Load(load)
	if err != nil {
		return err
	}
	if kind := r.Config.Algorithm.Type; o.command == "dpo" && kind != "dpo" {
		return config.Invalid(fmt.Errorf("train on preference pairs: algorithm.type is %s in this configuration "+
			"(put -c dpo before it, add --set algorithm.type=dpo, or use grpo train)", kind))
	}
	if o.resume == "" {
		if dir, err = o.out.resolve(o.command, config.Hash(r.Config)); err != nil {
			return err
		}
	}
	p := newProgress(s, o.out.quiet)
	p.config = &r.Config
	if m, err := policy.Of(r.Config); err == nil { // otherwise the run reports it, unless it is done
		p.headline("run folder %s, up to %s on the disk", dir, budget.Bytes(budget.DiskOf(m, r.Config).Peak))
	}
	var res *rundir.Result
	err = o.profile.during(s, dir, func() (err error) {
		defer p.stopping(ctx, "interrupted: the run saves and ends, after this step and its evaluation at the latest; "+
			"a second signal (Ctrl-C) ends it at once, and it continues from the last checkpoint")()
		res, err = train.Run(ctx, r.Config, train.Options{
			Dir: dir, Threads: o.out.threads, Now: s.Now, Observer: p, Meta: build(s),
			Resume: o.resume != "", Chosen: r.Chosen, Memory: s.checkMemory, Available: s.available, Disk: s.checkDisk,
			Progress: p.Doing,
		})
		p.done()
		return err
	})
	if err != nil {
		return err
	}
	run, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	figures, others, err := report.DrawRuns(dir, []*rundir.Run{run}, "", report.Output{})
	if err != nil {
		return err
	}
	checks := o.gate.Run("", res)
	if o.out.json {
		err = printJSON(s.Out, trainOutput{dir, figures, others[0], res, checks})
	} else {
		err = report.WriteSummary(s.Out, run, append(figures, others[0])...)
	}
	return errors.Join(err, report.Failed(checks))
}

// dpoKeys are the keys with flags of their own.
var dpoKeys = append([]keyFlag{
	{"pairs", "algorithm.dpo.pairs_file", "file", "train on the pairs in this JSONL file instead of rollouts"},
	{"eval-pairs", "algorithm.dpo.eval_pairs_file", "file", "score the held-out pairs in this file with each evaluation"},
	onlineKey,
	{"beta", "algorithm.dpo.beta", "float", "scale of the log-ratio to the reference model"},
	{"loss-type", "algorithm.dpo.loss_type", "names", "loss, or several joined by commas"},
}, trainKeys...)

// onlineKey needs no value: it is then 1.
var onlineKey = keyFlag{"online", "rollout.resample_every_n_steps", "k",
	"sample from the current policy, renewed every k steps (1 without =k), instead of the initial one"}

func newDPO(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "dpo",
		Short: "Train a policy on preference pairs",
		Long: `Dpo trains one run by direct preference optimization: on pairs of completions of a
prompt, of which one is preferred, with the losses of TRL's DPOTrainer. It is "grpo
train" with the configuration "dpo", and everything else works as there: the folder,
--resume, evaluation by the verifier, reports, sweeps.

Without --pairs, each step samples groups of completions, grades them, and pairs
right with wrong ones (algorithm.dpo.pairs). The initial policy samples, which is
offline training on as many samples as GRPO takes; with --online the current policy
samples, or with --online=k a copy of it that is renewed every k steps.

With --pairs, the pairs are those of a JSONL file: "grpo data pairs" writes one, and
docs/dpo.md describes it. Their log-probabilities under the reference model, the
initial weights, are computed once and kept in the run's folder.`,
		Example: `  grpo dpo
  grpo dpo --online
  grpo dpo --online=4 --loss-type ipo --beta 0.05
  grpo data pairs --out pairs.jsonl && grpo dpo --pairs pairs.jsonl
  grpo dpo -c dpo -c smoke
  grpo dpo -c dpo-smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf
  grpo dpo --resume results/dpo-1a2b3c4d`,
	}
	c = trains(c, s, dpoKeys, func(load *config.LoadOptions) error {
		load.Path = cmp.Or(load.Path, "dpo")
		if !c.Flags().Changed("pairs") {
			return nil
		}
		if c.Flags().Changed("online") {
			return usagef(c, "--pairs trains on the pairs of a file and samples nothing; it can't be combined with --online")
		}
		// The configuration "dpo" sets this key to 0, which is refused with pairs of a file: 1 is the default.
		load.Flags = append(load.Flags, config.Flag{Key: onlineKey.key, Name: "--pairs", Value: "1"})
		return nil
	})
	c.Flags().Lookup(onlineKey.flag).NoOptDefVal = "1"
	return c
}
