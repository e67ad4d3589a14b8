package cmd

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/sweep"
)

func newAblate(s *State) *cobra.Command {
	o := &sweepCommand{state: s}
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
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := sweep.LoadRequest(args[0])
			if err != nil {
				return err
			}
			opts, err := o.options(cmd, "ablate", req)
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
			var names []string
			for _, a := range sweep.Ablations() {
				names = append(names, a.Name+"\t"+a.Question)
			}
			return names, cobra.ShellCompDirectiveDefault
		},
	}
	o.add(c)
	c.AddCommand(newAblateList(s), newAblateShow(s))
	return c
}

func newAblateList(s *State) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the embedded ablations",
		Example: "  grpo ablate list",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(s.Out, sweep.Ablations())
			}
			w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ablation\tarms\tquestion")
			for _, a := range sweep.Ablations() {
				textutil.Fprintf(w, "%s\t%d\t%s\n", a.Name, a.Arms, a.Question)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}

func newAblateShow(s *State) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the YAML file of an ablation, as a template for your own",
		Example: "  grpo ablate show baseline > my.yaml",
		Args:    takes("the name of an ablation (grpo ablate list)", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := sweep.AblationText(args[0])
			if err != nil {
				return err
			}
			_, err = s.Out.Write(text)
			return err
		},
		ValidArgsFunction: cobra.FixedCompletions(sweep.AblationNames(), cobra.ShellCompDirectiveNoFileComp),
	}
}
