package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
)

// sweepKeys are the keys with flags of their own; the seed is not among them,
// because a sweep has several.
var sweepKeys = []keyFlag{
	{"lr", "train.learning_rate", "float", "learning rate of all arms"},
	{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"},
	modelKey,
	stopDiverged,
}

// sweepFlags are the flags that sweep, ablate and assignment share.
type sweepFlags struct {
	config    configFlags
	out       outFlags
	seeds     string
	reuse     []string
	jobs      int
	keepGoing bool
	failFast  bool
	dryRun    bool
	reused    bool // compare on the seeds of a choice
	continued bool // a job of the sweep or the study calls it
	gate      gateFlags
	launcher  launcherFlags
}

func (f *sweepFlags) add(c *cobra.Command, keys []keyFlag, seeds, folder string) {
	f.config.add(c, config.Names(), keys)
	f.launcher.add(c)
	fs := c.Flags()
	fs.StringVar(&f.seeds, "seeds", "", "`N` for seeds 1 to N, a list such as 1,2,5, or 4..16: looks at 4, 8 and 16 seeds, planned "+
		"before the first result, that end the sweep or stop arms as soon as the results answer (default "+seeds+")")
	f.out.addFolder(fs, folder, ", without copying finished runs of other folders")
	fs.StringArrayVar(&f.reuse, "reuse", nil,
		"copy finished runs of the same configuration from this `folder` of a run, a sweep or a study (repeatable)")
	f.out.addShow(fs)
	f.gate.add(fs)
	countVar(fs, &f.jobs, "jobs", 0, 0, maxCount,
		"parallel runs (0 = one per core, which is also the maximum; fewer if memory is short, "+
			"1 for a Llama or Qwen network on a GPU)")
	fs.BoolVar(&f.failFast, "fail-fast", false,
		"if a run fails, save the others and stop (default: the others continue)")
	// --keep-going, the default, remains for scripts that pass it. It is hidden and not
	// marked as deprecated, because cobra writes that note to stdout.
	fs.BoolVar(&f.keepGoing, "keep-going", false, "run the others if a run fails (the default)")
	fs.Lookup("keep-going").Hidden = true
	// For the job that continues a study, or a sweep with planned looks: it submits no run again that failed.
	fs.BoolVar(&f.continued, "continued", false, "submit only runs that were not submitted before")
	fs.Lookup("continued").Hidden = true
	fs.BoolVar(&f.dryRun, "dry-run", false, "list the runs with a time estimate and write nothing")
}

// planOptions are what the command line adds to a request.
func (f *sweepFlags) planOptions(c *cobra.Command, s *State) (sweep.PlanOptions, error) {
	load := f.config.options(c, s)
	opts := sweep.PlanOptions{
		Command: c.Name(), Path: load.Path, Over: load.Over, Env: load.Env, Set: load.Set, Flags: load.Flags,
		Argv: s.Args, Fresh: f.out.fresh, Reuse: f.reuse, ReuseChoice: f.reused,
	}
	opts.Flags = append(opts.Flags, f.launcher.options(c)...)
	if f.out.fresh && len(f.reuse) > 0 {
		return opts, usagef(c, "--fresh trains all runs again, and --reuse copies finished runs: give one of them")
	}
	if f.keepGoing && f.failFast {
		return opts, usagef(c, "--keep-going and --fail-fast exclude each other")
	}
	if c.Flags().Changed("seeds") {
		var err error
		var isPlan bool
		if opts.Seeds, opts.Looks, isPlan, err = sweep.ParseLooks(f.seeds); err == nil && !isPlan {
			opts.Seeds, err = sweep.ParseSeeds(f.seeds)
		}
		if err != nil {
			return opts, usagef(c, "%v", err)
		}
	}
	return opts, nil
}

// sweepOptions are the inputs of `grpo sweep` and `grpo ablate`.
type sweepOptions struct {
	sweepFlags
	axes     []sweep.AxisRequest // of sweep
	ablation string              // of ablate: the name of an embedded one, or a file
	plan     sweep.PlanOptions
	prepare  bool // freeze the sweep and start no run
	halving  bool
}

func (o *sweepOptions) add(c *cobra.Command) {
	const folder = "of the sweep (default results/<command>-<hash of its runs>"
	o.sweepFlags.add(c, sweepKeys, "4, or the ablation's own", folder)
	c.Flags().BoolVar(&o.prepare, "prepare", false,
		"write the list of runs and start none, for an array job of \"grpo task\" on a cluster")
	c.Flags().BoolVar(&o.halving, "halving", false,
		"after a quarter and a half of the steps, continue only the better half of the arms")
}

// planOptions are those of the shared flags and --halving.
func (o *sweepOptions) planOptions(c *cobra.Command, s *State) (sweep.PlanOptions, error) {
	if o.halving && o.prepare {
		return sweep.PlanOptions{}, usagef(c, "--halving compares the arms while they are trained, which --prepare "+
			"leaves to others: give one of them")
	}
	opts, err := o.sweepFlags.planOptions(c, s)
	opts.Halving = o.halving
	return opts, err
}

// noMore completes a first argument and no others.
func noMore(first func() []string, others cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return first(), others
	}
}

func newSweep(s *State) *cobra.Command {
	o := &sweepOptions{}
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
  grpo sweep lr --values "log(1e-4,1e-2,n=5)"
  grpo sweep --axis lr=3e-4,1e-3 --axis loss_type=no_baseline,reinforce_with_baseline
  grpo sweep loss_expr --values "-A*logp,-min(ratio*A, clip(ratio, 1-eps, 1+eps)*A)" --set train_batch_size=128
  grpo sweep lr --values 1e-3,3e-3 --seeds 1,2 -c smoke --out /tmp/rates
  grpo sweep lr --dry-run`,
		Args: takes("one KEY, or several with --axis", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.axes, err = axesOf(cmd, args, values, axes); err != nil {
				return err
			}
			if o.plan, err = o.planOptions(cmd, s); err != nil {
				return err
			}
			return run(cmd, s, o, runSweep)
		},
		Annotations:       saves,
		ValidArgsFunction: noMore(func() []string { return sweepableKeys("") }, cobra.ShellCompDirectiveNoFileComp),
	}
	o.add(c)
	c.Flags().StringVar(&values, "values", "",
		"values `V1,V2` of KEY, e.g. 1e-4,1e-3, or log(1e-5,1e-2,n=8): 8 values, evenly spaced on a "+
			"logarithmic scale; commas in brackets separate nothing (default for lr: 1e-4,3e-4,1e-3,3e-3,1e-2, "+
			"and for a checkpoint these in proportion to its train.learning_rate)")
	c.Flags().StringArrayVar(&axes, "axis", nil,
		"axis `KEY=V1,V2` of a grid; values as for --values (repeatable)")
	completeSettings(c, "axis", func() []string { return sweepableKeys("=") })
	completeWith(c, "values", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return valuesOf(strings.Join(args, ""), ""), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// runSweep runs and reports the sweep, or only previews or prepares it.
func runSweep(ctx context.Context, s *State, o *sweepOptions) error {
	req, err := sweep.AxesRequest(o.axes)
	if o.ablation != "" {
		req, err = sweep.LoadRequest(o.ablation)
	}
	if err != nil {
		return err
	}
	plan, err := sweep.NewPlan(req, o.plan)
	if err != nil {
		return err
	}
	if len(plan.Manifest.Arms) == 1 && !o.out.quiet {
		textutil.Fprintf(s.Err, "note: one arm: there is nothing to compare; "+
			"give two values or more, or train it with grpo train\n")
	}
	for _, note := range plan.Notes {
		if !o.out.quiet {
			noteTo(s)(note)
		}
	}
	dir, err := o.out.resolve(o.plan.Command, plan.Manifest.Hash)
	if err != nil {
		return err
	}
	l, err := sweep.Locate(dir, plan)
	if err != nil {
		return err
	}
	return o.start(ctx, s, &launch.Job{Dir: dir, Sweep: l}, o.prepare)
}

// prepareOutput is what --prepare --json prints.
type prepareOutput struct {
	Dir  string `json:"dir"`
	Runs int    `json:"runs"`
	// Indices are the runs that are due, of a sweep with planned looks; null without looks: all runs.
	Indices []int `json:"indices"`
}

// prepareSweep writes the sweep's folder without its runs and prints how to train them. Of a sweep with planned
// looks it takes the look that is due, and prints the runs up to the next one.
func (f *sweepFlags) prepareSweep(s *State, l *sweep.Located) error {
	err := l.Prepare(noteTo(s))
	hasLooks, atMost := len(l.Manifest.Looks) > 0, ""
	var due []int
	if err == nil && hasLooks {
		due, err = l.Due(noteTo(s))
		atMost = " at most"
	}
	if err != nil {
		return err
	}
	n := len(l.Manifest.Runs)
	if f.out.json {
		return printJSON(s.Out, prepareOutput{l.Dir, n, due})
	}
	text := fmt.Sprintf("prepared %s%s in %s; ", textutil.Count(n, "run"), atMost, l.Dir)
	folder := textutil.CommandLine([]string{l.Dir})
	next := l.Manifest.NextLook()
	switch {
	case !hasLooks:
		text += fmt.Sprintf("for each N from 0 to %d: grpo task --sweep %s --index N", n-1, folder)
	case len(due) == 0:
		text += fmt.Sprintf("no run is left: grpo report %s", folder)
	case next < 0:
		text += fmt.Sprintf("for each N of %s: grpo task --sweep %s --index N", textutil.Ranges(due), folder)
	default:
		text += fmt.Sprintf("for each N of %s: grpo task --sweep %s --index N; when these have ended, the same command "+
			"takes the look at %d seeds and prints the next runs", textutil.Ranges(due), folder, l.Manifest.Looks[next].Seeds)
	}
	_, err = textutil.Fprintf(s.Out, "%s\n", text)
	return err
}

// sweepableKeys lists what can be an axis, for the shell.
func sweepableKeys(suffix string) []string {
	out := []string{"lr" + suffix + "\tthe learning rate"}
	for _, k := range config.Keys() {
		if k.Path != "seed" && k.Path != "name" && !config.OfLauncher(k.Path) {
			out = append(out, k.Path+suffix+"\t"+k.Doc)
		}
	}
	return out
}

// axesOf returns the axes of the command line.
func axesOf(cmd *cobra.Command, args []string, values string, axes []string) ([]sweep.AxisRequest, error) {
	var out []sweep.AxisRequest
	given := cmd.Flags().Changed("values")
	switch {
	case len(args) == 0 && given:
		return nil, usagef(cmd, "--values are those of KEY, which is missing (grpo sweep lr --values 1e-3,3e-3)")
	case len(args) == 0 && len(axes) == 0:
		return nil, usagef(cmd,
			"name the key to sweep, or give axes (grpo sweep lr; grpo sweep --axis lr=1e-3,3e-3)")
	case len(args) == 1:
		a := sweep.DefaultRates()
		a.Key = args[0]
		if given {
			a.From, a.OfDefault = "--values", false
			var err error
			if a.Values, err = sweep.SplitValues(values); err != nil {
				return nil, usagef(cmd, "--values: %w", err)
			}
		} else if _, err := sweep.AxesRequest([]sweep.AxisRequest{a}); err != nil {
			return nil, err
		} else if !slices.Contains([]string{"lr", "learning_rate", "train.learning_rate"}, args[0]) {
			return nil, usagef(cmd, "give the values of %s (--values V1,V2)", args[0])
		}
		out = append(out, a)
	}
	for _, arg := range axes {
		a, err := sweep.ParseAxis(arg)
		if err != nil {
			return nil, usagef(cmd, "%v", err)
		}
		out = append(out, a)
	}
	return out, nil
}
