package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/sweep"
)

// assignmentKeys are the keys with flags of their own; learning rates are
// --values.
var assignmentKeys = []keyFlag{{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"}, stopDiverged}

// assignmentOptions are the inputs of `grpo assignment`.
type assignmentOptions struct {
	state  *State
	plan   *sweep.AssignmentPlan
	dir    string
	flags  sweepFlags
	json   bool
	quiet  bool
	dryRun bool
}

// assignmentCommand holds the flags of the command.
type assignmentCommand struct {
	sweepCommand
	values string
	perArm bool
}

func newAssignment(s *State) *cobra.Command {
	o := &assignmentCommand{sweepCommand: sweepCommand{state: s}}
	c := &cobra.Command{
		Use:   "assignment",
		Short: "Run the four experiments of CS336 assignment 5, section 8",
		Long: `Assignment answers four questions, each with several seeds: Which learning rate
is best? Does a baseline help? How should losses be normalized for length? Does
dividing by the group's standard deviation help?

The learning-rate sweep runs first. The three comparisons use its best rate: the
one with the highest mean final validation reward among those that did not
diverge. Runs that the sweep has already trained are copied. The rate was tuned
with one of the compared settings, which gives that setting an advantage. For a
fair comparison, --lr-per-arm trains every setting at every rate and compares
each at its own best; this takes more runs.

The folder contains one sweep per question (lr, baseline, lengthnorm, stdnorm),
each with its own report, and one report that answers all four. Run the same
command again to do only what is missing.`,
		Example: `  grpo assignment
  grpo assignment --dry-run
  grpo assignment --seeds 8 --lr-per-arm
  grpo assignment --values 3e-4,1e-3 --steps 100 --seeds 1,2
  grpo assignment -c smoke --seeds 2 --out /tmp/assignment`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := o.options(cmd)
			if err != nil {
				return err
			}
			return runAssignment(cmd.Context(), opts)
		},
		Annotations: saves,
	}
	o.config.add(c, config.Names())
	addKeyFlags(c, assignmentKeys)
	fs := c.Flags()
	fs.StringVar(&o.seeds, "seeds", "", "`N` for seeds 1 to N, or a list such as 1,2,5 (default 4)")
	fs.StringVar(&o.values, "values", "", "learning rates to sweep, as `floats` (default 1e-4,3e-4,1e-3,1e-2)")
	fs.BoolVar(&o.perArm, "lr-per-arm", false, "train every setting at every learning rate and compare each at its own best")
	o.addOut(fs)
	fs.Lookup("out").Usage = "`folder` of the study (default results/assignment-<hash of its runs>: the same command finds it again)"
	o.run.add(fs)
	fs.BoolVar(&o.dryRun, "dry-run", false, "list the runs of all parts with a time estimate and write nothing")
	return c
}

// options resolves the request; nothing is written.
func (o *assignmentCommand) options(c *cobra.Command) (*assignmentOptions, error) {
	if err := o.run.check(); err != nil {
		return nil, err
	}
	load := o.config.options(c, o.state, assignmentKeys)
	ask := sweep.Assignment{PerArm: o.perArm, Options: sweep.PlanOptions{Path: load.Path, Env: load.Env, Set: load.Set, Flags: load.Flags, Argv: o.state.Args, Fresh: o.out.fresh}}
	var err error
	if c.Flags().Changed("seeds") {
		if ask.Options.Seeds, err = sweep.ParseSeeds(o.seeds); err != nil {
			return nil, err
		}
	}
	if c.Flags().Changed("values") {
		if ask.Rates, err = sweep.SplitValues(o.values); err != nil {
			return nil, &usageError{c, fmt.Errorf("--values: %w", err)}
		}
	}
	plan, err := sweep.NewAssignment(ask)
	if err != nil {
		return nil, err
	}
	dir, err := o.out.resolve("assignment", plan.Study.Hash)
	if err != nil {
		return nil, err
	}
	return &assignmentOptions{state: o.state, plan: plan, dir: dir, flags: o.run, json: o.out.json, quiet: o.out.quiet, dryRun: o.dryRun}, nil
}
