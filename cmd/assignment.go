package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
)

// assignmentKeys are the keys with flags of their own; learning rates are
// --values.
var assignmentKeys = []keyFlag{{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"}, stopDiverged, modelKey}

// assignmentOptions are the inputs of `grpo assignment`.
type assignmentOptions struct {
	sweepFlags
	ask sweep.Assignment
}

func newAssignment(s *State) *cobra.Command {
	o := &assignmentOptions{}
	var values string
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

--all adds the other experiments of the 2025 handout: off-policy training (epochs per
rollout batch and train batch size), clipping (grpo_clip, clip-higher and no clip,
with four epochs per rollout batch) and the prompt. TinyLM's base model knows only
bare questions, so the last compares a known prompt with an unknown one, not two
wordings.

The folder contains one sweep per question (lr, baseline, lengthnorm, stdnorm;
with --all also offpolicy, clip, prompt), each with its own report, and one report
that answers all questions. Run the same
command again to do only what is missing.`,
		Example: `  grpo assignment
  grpo assignment --dry-run
  grpo assignment --seeds 8 --lr-per-arm
  grpo assignment --all
  grpo assignment --values 3e-4,1e-3 --steps 100 --seeds 1,2
  grpo assignment -c smoke --seeds 2 --out /tmp/assignment`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.ask.Options, err = o.planOptions(cmd, s); err != nil {
				return err
			}
			if cmd.Flags().Changed("values") {
				if o.ask.Rates, err = sweep.SplitValues(values); err != nil {
					return usagef(cmd, "--values: %w", err)
				}
			}
			return run(cmd, s, o, runAssignment)
		},
		Annotations: saves,
	}
	o.add(c, assignmentKeys, "4", "of the study (default results/assignment-<hash of its runs>")
	c.Flags().Lookup("dry-run").Usage = "list the runs of all parts with a time estimate and write nothing"
	c.Flags().StringVar(&values, "values", "",
		"learning rates to sweep, as `floats` (default 1e-4,3e-4,1e-3,1e-2)")
	c.Flags().BoolVar(&o.ask.PerArm, "lr-per-arm", false,
		"train every setting at every learning rate and compare each at its own best")
	c.Flags().BoolVar(&o.ask.All, "all", false, "add the experiments offpolicy, clip and prompt of the 2025 handout")
	// For the job that continues a study: it submits no run again that failed.
	c.Flags().BoolVar(&o.continued, "continued", false, "submit only runs that were not submitted before")
	c.Flags().Lookup("continued").Hidden = true
	return c
}

// runAssignment runs the missing runs of the study, part after part, and reports.
func runAssignment(ctx context.Context, s *State, o *assignmentOptions) error {
	study, err := sweep.NewStudy(o.ask)
	if err != nil {
		return err
	}
	if study.Dir, err = o.out.resolve("assignment", study.Manifest.Hash); err != nil {
		return err
	}
	if _, err := study.Find(); err != nil {
		return err
	}
	return o.start(ctx, s, &launch.Job{Dir: study.Dir, Study: study}, false)
}
