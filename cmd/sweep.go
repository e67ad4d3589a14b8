package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// sweepKeys are the keys with flags of their own; the seed is not among them,
// because a sweep has several.
var sweepKeys = []keyFlag{
	{"lr", "train.learning_rate", "float", "learning rate of all arms"},
	{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"},
	stopDiverged,
}

// sweepOptions are the inputs of `grpo sweep` and `grpo ablate`.
type sweepOptions struct {
	state *State
	plan  *sweep.Plan
	dir   string
	flags sweepFlags
	json  bool
	quiet bool
	// dryRun only says what would be done; prepare freezes it and starts nothing.
	dryRun, prepare bool
	siblings        []string // folders of sweeps whose finished runs are copied
}

// sweepCommand holds the flags that sweep and ablate share.
type sweepCommand struct {
	state  *State
	config configFlags
	out    outFlags
	run    sweepFlags
	seeds  string

	dryRun, prepare bool
}

func (o *sweepCommand) add(c *cobra.Command) {
	o.config.add(c, config.Names())
	addKeyFlags(c, sweepKeys)
	fs := c.Flags()
	fs.StringVar(&o.seeds, "seeds", "", "`N` for seeds 1 to N, or a list such as 1,2,5 (default 4, or the ablation's own)")
	o.addOut(fs)
	o.run.add(fs)
	fs.BoolVar(&o.dryRun, "dry-run", false, "list the runs with a time estimate and write nothing")
	fs.BoolVar(&o.prepare, "prepare", false, "write the list of runs and start none, for an array job of \"grpo task\" on a cluster")
}

// addOut is [outFlags.add] without --threads: the number of jobs decides that.
func (o *sweepCommand) addOut(fs *pflag.FlagSet) {
	fs.StringVar(&o.out.dir, "out", "", "`folder` of the sweep (default results/<command>-<hash of its runs>: the same command finds it again)")
	fs.BoolVar(&o.out.fresh, "fresh", false, "start over in a new folder, without copying finished runs of other folders")
	o.out.addShow(fs)
}

// options resolves the request; nothing is written.
func (o *sweepCommand) options(c *cobra.Command, command string, req sweep.Request) (*sweepOptions, error) {
	if err := o.run.check(); err != nil {
		return nil, err
	}
	load := o.config.options(c, o.state, sweepKeys)
	opts := sweep.PlanOptions{Command: command, Path: load.Path, Env: load.Env, Set: load.Set, Flags: load.Flags, Argv: o.state.Args, Fresh: o.out.fresh}
	if c.Flags().Changed("seeds") {
		var err error
		if opts.Seeds, err = sweep.ParseSeeds(o.seeds); err != nil {
			return nil, err
		}
	}
	plan, err := sweep.NewPlan(req, opts)
	if err != nil {
		return nil, err
	}
	dir, err := o.out.resolve(command, plan.Manifest.Hash)
	if err != nil {
		return nil, err
	}
	siblings := sweep.Siblings(dir, plan)
	if plan, err = sweep.Find(dir, plan, siblings); err != nil {
		return nil, err
	}
	if plan.Manifest.Fresh {
		siblings = nil
	}
	return &sweepOptions{
		state: o.state, plan: plan, dir: dir, flags: o.run, json: o.out.json, quiet: o.out.quiet, dryRun: o.dryRun, prepare: o.prepare, siblings: siblings,
	}, nil
}

func newSweep(s *State) *cobra.Command {
	o := &sweepCommand{state: s}
	var values string
	var axes []string
	c := &cobra.Command{
		Use:   "sweep [KEY]",
		Short: "Train several values of a key, or a grid of keys, with several seeds",
		Long: `Sweep trains one run per value and seed, each in its own process, one per core,
and compares them in tables, figures and a verdict about what the data support.
With the same seed, every arm sees the same problems in the same order, so
differences are paired.

KEY is any configuration key, by its full path, its last part or its alias (lr).
Run the same command again after Ctrl-C, a crash or a fixed error: it does only
what is missing. With more --seeds it adds those seeds. Any other change to a
sweep in the same folder is an error. Finished runs of the same configuration are
copied from neighbouring folders unless --fresh is given.

--dry-run estimates the time: it measures a few steps of each kind of run, with
the sweep's number of parallel runs, and multiplies. If two steps take longer
than a minute, it stops there and reports a lower bound.`,
		Example: `  grpo sweep lr                                       TinyLM's five learning rates, seeds 1 to 4
  grpo sweep lr --values 1e-5,3e-5,5e-5,1e-4 --seeds 4
  grpo sweep group_size --values 4,8,16 --lr 3e-4
  grpo sweep --axis lr=3e-4,1e-3 --axis loss_type=no_baseline,reinforce_with_baseline
  grpo sweep lr --values 1e-3,3e-3 --seeds 1,2 -c smoke --out /tmp/rates
  grpo sweep lr --dry-run`,
		Args: takes("one KEY, or several with --axis", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := axesOf(cmd, args, values, axes)
			if err != nil {
				return err
			}
			req, err := sweep.AxesRequest(list)
			if err != nil {
				return err
			}
			opts, err := o.options(cmd, "sweep", req)
			if err != nil {
				return err
			}
			return runSweepCommand(cmd.Context(), opts)
		},
		Annotations: saves,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return sweepableKeys(""), cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.add(c)
	c.Flags().StringVar(&values, "values", "", "values of KEY, `V1,V2`, e.g. 1e-4,1e-3 (default for lr: 1e-4,3e-4,1e-3,3e-3,1e-2)")
	c.Flags().StringArrayVar(&axes, "axis", nil, "axis of a grid, `KEY=V1,V2` (repeatable)")
	_ = c.RegisterFlagCompletionFunc("axis", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return sweepableKeys("="), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// sweepableKeys lists what can be an axis, for the shell.
func sweepableKeys(suffix string) []string {
	out := []string{"lr" + suffix + "\tthe learning rate"}
	for _, k := range config.Keys() {
		if k.Path != "seed" && k.Path != "name" {
			out = append(out, k.Path+suffix+"\t"+k.Doc)
		}
	}
	return out
}

// axesOf reads the axes of the command line.
func axesOf(cmd *cobra.Command, args []string, values string, axes []string) ([]sweep.AxisRequest, error) {
	var out []sweep.AxisRequest
	given := cmd.Flags().Changed("values")
	switch {
	case len(args) == 0 && given:
		return nil, &usageError{cmd, errors.New("--values are those of KEY, which is missing (grpo sweep lr --values 1e-3,3e-3)")}
	case len(args) == 0 && len(axes) == 0:
		return nil, &usageError{cmd, errors.New("name the key to sweep, or give axes (grpo sweep lr; grpo sweep --axis lr=1e-3,3e-3)")}
	case len(args) == 1:
		a := sweep.AxisRequest{Key: args[0], From: "--values", Values: sweep.DefaultRates()}
		if given {
			var err error
			if a.Values, err = sweep.SplitValues(values); err != nil {
				return nil, &usageError{cmd, fmt.Errorf("--values: %w", err)}
			}
		} else if _, err := sweep.AxesRequest([]sweep.AxisRequest{a}); err != nil {
			return nil, err
		} else if !slices.Contains([]string{"lr", "learning_rate", "train.learning_rate"}, args[0]) {
			return nil, &usageError{cmd, fmt.Errorf("give the values of %s (--values V1,V2)", args[0])}
		}
		out = append(out, a)
	}
	for _, arg := range axes {
		a, err := sweep.ParseAxis(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// runSweepCommand does the sweep, or says what it would do, and reports.
func runSweepCommand(ctx context.Context, o *sweepOptions) error {
	switch {
	case o.dryRun:
		return runDry(ctx, o)
	case o.prepare:
		return prepareOnly(o)
	}
	s := o.state
	jobs := o.flags.jobs
	if cores := runtime.GOMAXPROCS(0); jobs <= 0 || jobs > cores {
		jobs = cores
	}
	t := newSweepTable(s, o.quiet, o.plan.Manifest, jobs)
	t.line("sweep folder %s", o.dir)
	if added := o.addedSeeds(); len(added) > 0 {
		t.Note(addedLine(added))
	}
	sw, err := runSweep(ctx, s, o.dir, o.plan, o.flags, t, nil, o.siblings)
	if sw == nil {
		t.erase()
		return err
	}
	t.done()
	if errors.Is(err, train.ErrInterrupted) {
		return err // who stops it does not want to wait for figures; grpo report draws them
	}
	if rerr := reportSweep(o, sw); rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}

// prepareOnly writes the sweep's folder without its runs and says how to make
// them.
func prepareOnly(o *sweepOptions) error {
	if err := sweep.Prepare(o.dir, o.plan); err != nil {
		return err
	}
	n := len(o.plan.Manifest.Runs)
	if o.json {
		return printJSON(o.state.Out, struct {
			Dir  string `json:"dir"`
			Runs int    `json:"runs"`
		}{o.dir, n})
	}
	_, err := textutil.Fprintf(o.state.Out, "prepared %s in %s; for each N from 0 to %d: grpo task --sweep %s --index N\n", textutil.Count(n, "run"), o.dir, n-1, textutil.CommandLine([]string{o.dir}))
	return err
}

// reportSweep writes tables and figures into the sweep's folder and shows the
// verdict.
func reportSweep(o *sweepOptions, sw *sweepdir.Sweep) error {
	analysis, files, err := report.WriteSweep(o.dir, sw, report.SweepOptions{})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(o.state.Out, struct {
			Dir      string         `json:"dir"`
			Files    []string       `json:"files"`
			Analysis *report.Report `json:"analysis"`
		}{o.dir, files, analysis})
	}
	if err := report.WriteSweepSummary(o.state.Out, analysis); err != nil {
		return err
	}
	if !o.quiet {
		for _, f := range files {
			textutil.Fprintf(o.state.Err, "wrote %s\n", filepath.ToSlash(f))
		}
	}
	return nil
}
