package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/sweepdir"
)

func newAblate(s *State) *cobra.Command {
	o := &sweepOptions{}
	c := &cobra.Command{
		Use:   "ablate NAME|FILE",
		Short: "Compare the arms of an ablation with several seeds",
		Long: `Ablate runs a prepared comparison: arms that differ only in the setting under
test. "grpo ablate list" lists the embedded ones.

An ablation is a YAML file ("grpo ablate show baseline" prints one that explains
every key). Use the name of an embedded one, your own file, or the sweep.yaml of
any sweep, which repeats that sweep with the same runs. --set, --lr and --steps
change settings that the arms share; they can't override an arm's own settings.

As with "grpo sweep", run the same command again to do only what is missing.`,
		Example: `  grpo ablate list
  grpo ablate baseline
  grpo ablate stdnorm --seeds 8 --lr 3e-4
  grpo ablate lengthnorm -c smoke --seeds 2 --out /tmp/lengthnorm
  grpo ablate clip --dry-run
  grpo ablate show baseline > my.yaml
  grpo ablate my.yaml
  grpo ablate results/sweep-1a2b3c4d/sweep.yaml --fresh --out again`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name an ablation or a file (\"grpo ablate list\" lists the embedded ones)")
			}
			return takes("one ablation or file", 1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.ablation = args[0]
			if o.plan, err = o.planOptions(cmd, s); err != nil {
				return err
			}
			return run(cmd, s, o, runSweep)
		},
		Annotations: saves,
		ValidArgsFunction: noMore(func() (names []string) {
			for _, a := range sweep.Ablations() {
				names = append(names, a.Name+"\t"+a.Question)
			}
			return names
		}, cobra.ShellCompDirectiveDefault),
	}
	o.add(c)
	c.Flags().BoolVar(&o.reused, "reuse-choice", false,
		"of arms that are tuned (best_over): compare on the seeds of the choice, not on fresh ones; fewer runs, and biased")
	c.AddCommand(newAblateList(s), newAblateShow(s))
	return c
}

func newAblateList(s *State) *cobra.Command {
	o := &listOptions{}
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the embedded ablations",
		Example: "  grpo ablate list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, listAblations) },
	}
	addJSON(c, &o.json)
	return c
}

// listOptions are the inputs of commands that only list something.
type listOptions struct{ json bool }

func listAblations(_ context.Context, s *State, o *listOptions) error {
	if o.json {
		return printJSON(s.Out, sweep.Ablations())
	}
	w := newTable(s.Out)
	fmt.Fprintln(w, "ablation\tarms\tquestion")
	for _, a := range sweep.Ablations() {
		textutil.Fprintf(w, "%s\t%d\t%s\n", a.Name, a.Arms, a.Question)
	}
	return w.Flush()
}

// ablateShowOptions are the inputs of `grpo ablate show`.
type ablateShowOptions struct{ name string }

func newAblateShow(s *State) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the YAML file of an ablation, as a template for your own",
		Example: "  grpo ablate show baseline > my.yaml",
		Args:    takes("the name of an ablation (grpo ablate list)", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, s, &ablateShowOptions{args[0]}, showAblation)
		},
		ValidArgsFunction: cobra.FixedCompletions(sweep.AblationNames(), cobra.ShellCompDirectiveNoFileComp),
	}
}

func showAblation(_ context.Context, s *State, o *ablateShowOptions) error {
	text, err := sweep.AblationText(o.name)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(text)
	return err
}

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
		Short: "Run the experiments of CS336 assignment 5 (2025 or 2026)",
		Long: `Assignment answers the questions of the handout, each with several seeds. Those
of 2025 (section 8) are: Which learning rate is best? Does a baseline help? How
should losses be normalized for length? Does dividing by the group's standard
deviation help?

The learning-rate sweep runs first. The three comparisons use its best rate: the
one with the highest mean final validation reward among those that did not
diverge. They have fresh seeds (5 to 8 after 1 to 4), because the runs that won
the choice of the rate have been lucky. This takes 32 runs; --reuse-choice
compares on the seeds of the choice, with 28 runs and in favor of the setting
with which the rate was chosen. That setting has an advantage anyway: the rate
is tuned for it. --lr-per-arm trains every setting at every rate and compares
each at its own best; this takes more runs.

--all adds the other experiments of the 2025 handout: off-policy training (epochs per
rollout batch and train batch size), clipping (grpo_clip, clip-higher and no clip,
with four epochs per rollout batch) and the prompt (of a checkpoint three prompts,
"grpo ablate prompts"). TinyLM's base model knows only bare questions, so of TinyLM
the last compares a known prompt with an unknown one, not two wordings.

--edition 2026 asks the questions of that handout: standard GRPO and its learning
rate (lr); the prompt (prompt; of a checkpoint three prompts, "grpo ablate
prompts"); GRPO with a constant length normalization, Dr. GRPO, RFT and MaxRL
(variants); and 32 updates per rollout batch with no ratio, no clip, a clip and
GSPO (offpolicy-loss). It starts from the configuration a5-2026, with 75 steps. Each
variant and each off-policy loss is trained at several rates with two seeds and
compared at its best with four others. The handout takes the rate of standard GRPO for
all, and so does --lr-per-arm=false.

The folder contains one sweep per question (lr, baseline, lengthnorm, stdnorm;
with --all also offpolicy, clip, prompt), each with its own report, and one report
that answers all questions. Run the same
command again to do only what is missing.`,
		Example: `  grpo assignment
  grpo assignment --dry-run
  grpo assignment --seeds 8 --lr-per-arm
  grpo assignment --all
  grpo assignment --edition 2026
  grpo assignment --edition 2026 --dry-run
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
			if !cmd.Flags().Changed("lr-per-arm") {
				o.ask.PerArm = sweep.TunesArms(o.ask.Edition)
			}
			return run(cmd, s, o, runAssignment)
		},
		Annotations: saves,
	}
	o.add(c, assignmentKeys, "4", "of the study (default results/assignment-<hash of its runs>")
	c.Flags().Lookup("dry-run").Usage = "list the runs of all parts with a time estimate and write nothing"
	c.Flags().StringVar(&o.ask.Edition, "edition", sweep.Editions()[0],
		"`year` of the handout: "+strings.Join(sweep.Editions(), " or "))
	complete(c, "edition", sweep.Editions, cobra.ShellCompDirectiveNoFileComp)
	c.Flags().StringVar(&values, "values", "",
		"learning rates to sweep, as `floats` (default 1e-4,3e-4,1e-3,1e-2; of 2026 3e-4,1e-3,3e-3; "+
			"of a checkpoint in proportion to its train.learning_rate)")
	c.Flags().BoolVar(&o.ask.PerArm, "lr-per-arm", false,
		"train every setting at every learning rate and compare each at its own best (2026 does; =false turns it off)")
	c.Flags().BoolVar(&o.reused, "reuse-choice", false,
		"compare on the seeds that chose the learning rate: fewer runs, and biased")
	c.Flags().BoolVar(&o.ask.All, "all", false, "add the experiments offpolicy, clip and prompt of the 2025 handout")
	return c
}

// ofRelease is the study in the folder dir, or in its folder by default, if a version made it that had no
// --reuse-choice; nil otherwise.
func (o *assignmentOptions) ofRelease(dir string) *sweep.Study {
	ask := o.ask
	ask.Options.ReuseChoice = true
	if o.ask.Options.ReuseChoice || sweepdir.IsStudy(dir) && !sweep.IsOfRelease(dir) {
		return nil
	}
	old, err := sweep.NewStudy(ask)
	if err != nil {
		return nil
	}
	if old.Dir, err = o.out.resolve("assignment", old.Manifest.Hash); err != nil || !sweep.IsOfRelease(old.Dir) {
		return nil
	}
	if found, err := old.Find(); err != nil || !found {
		return nil
	}
	return old
}

// runAssignment runs the missing runs of the study, part after part, and reports.
func runAssignment(ctx context.Context, s *State, o *assignmentOptions) error {
	study, err := sweep.NewStudy(o.ask)
	if err != nil {
		return err
	}
	var told []string
	for _, part := range study.Parts {
		for _, note := range part.Notes {
			if !o.out.quiet && !slices.Contains(told, note) {
				noteTo(s)(note)
				told = append(told, note)
			}
		}
	}
	if study.Dir, err = o.out.resolve("assignment", study.Manifest.Hash); err != nil {
		return err
	}
	if old := o.ofRelease(study.Dir); old != nil {
		noteTo(s)("this study was made by an earlier version, which compared on the seeds that chose the learning rate, " +
			"and goes on in that way; --fresh starts over")
		study = old
	} else if _, err := study.Find(); err != nil {
		return err
	}
	return o.start(ctx, s, &launch.Job{Dir: study.Dir, Study: study}, false)
}
