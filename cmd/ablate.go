package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/sweep"
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
