package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// assignmentKeys are the keys with flags of their own; learning rates are
// --values.
var assignmentKeys = []keyFlag{{"steps", "train.n_grpo_steps", "int", "number of GRPO steps"}, stopDiverged, modelKey}

// assignmentOptions are the inputs of `grpo assignment`.
type assignmentOptions struct {
	sweepFlags
	ask       sweep.Assignment
	continued bool // by a job of the study
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
	plan, err := sweep.NewAssignment(o.ask)
	if err != nil {
		return err
	}
	if err := o.launcher.check(plan.Parts[0].Launcher, o.jobs); err != nil {
		return err
	}
	if err := o.checkGate(plan.Parts[0].Launcher, false, rundir.KindStudy); err != nil {
		return err
	}
	dir, err := o.out.resolve("assignment", plan.Study.Hash)
	switch {
	case err != nil:
		return err
	case o.dryRun:
		err := previewAssignment(ctx, s, &o.sweepFlags, plan, dir)
		if err == nil && plan.Parts[0].Launcher.Type == "slurm" && !o.out.json {
			err = previewFirstJobs(ctx, s, &o.sweepFlags, plan, dir)
		}
		return err
	case isKubernetes(plan.Parts[0]):
		if finished, err := renderAssignment(ctx, s, o, plan, dir); err != nil || !finished {
			return err
		}
	case plan.Parts[0].Launcher.Type == "slurm":
		return submitAssignment(ctx, s, o, plan, dir)
	}
	if err := plan.CheckDisk(dir, o.jobs, s.checkDisk); err != nil {
		return err
	}
	if err := plan.Prepare(dir, s.available()); err != nil {
		return err
	}
	t := assignmentTable(s, o.out.quiet, o.jobs, plan)
	t.line("study folder %s", dir)
	opts, err := o.runOptions(s, t)
	if err != nil {
		return err
	}
	reports := studyReports{analyses: make([]*report.Report, len(plan.Parts))}
	stopped, err := plan.Run(ctx, dir, sweep.StudyOptions{
		Options: opts, Begin: t.begin, Report: reports.write, Best: reports.best,
	})
	if stopped && !errors.Is(err, train.ErrInterrupted) {
		t.erase()
		return err
	}
	t.done()
	if stopped {
		return err
	}
	return errors.Join(err, reports.finish(s, &o.sweepFlags, dir))
}

// assignmentTable has the runs of all parts.
func assignmentTable(s *State, quiet bool, jobs int, plan *sweep.AssignmentPlan) *sweepTable {
	t := newStudyTable(s, quiet, jobs)
	for i, copied := range plan.Copied() {
		t.add(plan.Parts[i].Manifest, copied)
	}
	return t
}

// studyReports are the reports on the parts of a study, each written when the part has ended.
type studyReports struct {
	analyses []*report.Report // nil for a part that has not started
	files    []string
}

func (r *studyReports) write(i int, sw *sweepdir.Sweep) error {
	a, paths, err := report.WriteSweep(sw.Dir, sw, report.Output{})
	r.analyses[i], r.files = a, append(r.files, paths...)
	return err
}

// best is the best learning rate of the first part.
func (r *studyReports) best() (rate, why string, err error) {
	return r.analyses[0].BestValue(sweep.RateKey)
}

// studyOutput is what --json prints.
type studyOutput struct {
	Dir     string              `json:"dir"`
	Files   []string            `json:"files"`
	Results report.StudyResults `json:"results"`
	Checks  []report.Check      `json:"checks"`
}

// finish writes the study's report over those of its parts, and shows it.
func (r *studyReports) finish(s *State, f *sweepFlags, dir string) error {
	st, err := sweepdir.ReadStudy(dir)
	if err != nil {
		return err
	}
	study, err := report.WriteStudyReport(dir, st, r.analyses)
	if err != nil {
		return err
	}
	checks := f.gate.Study(study)
	what := studyOutput{dir, append(r.files, study.Files...), study.Results, checks}
	return errors.Join(showStudy(s, f.out.json, study, what, dir), report.Failed(checks))
}
