package cmd

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/train"
)

func newConfig(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and check configurations",
		Example: `  grpo config show -c smoke
  grpo config check my.yaml`,
	}
	c.AddCommand(newConfigShow(s), newConfigCheck(s), newConfigList(s))
	return c
}

func newConfigShow(s *State) *cobra.Command {
	var f configFlags
	var origin, docs, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the resolved configuration (defaults < file < environment < --set < flags)",
		Example: `  grpo config show                     as YAML, ready for -c
  grpo config show --docs              the meaning and the possible values of each key
  GRPO_SEED=3 grpo config show --origin --set group_size=4`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := config.Load(f.options(cmd, s, trainKeys))
			if err != nil {
				return err
			}
			switch {
			case origin && docs:
				return &usageError{cmd, errors.New("--origin and --docs exclude each other")}
			case docs && asJSON:
				rows := map[string]map[string]string{}
				for _, k := range config.Keys() {
					rows[k.Path] = map[string]string{"default": k.Default, "meaning": k.Doc}
				}
				return printJSON(s.Out, rows)
			case asJSON:
				rows := map[string]map[string]string{}
				for _, row := range r.Rows() {
					rows[row.Key] = map[string]string{"value": row.Value, "origin": row.Origin.String()}
				}
				return printJSON(s.Out, rows)
			case docs:
				w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "key\tdefault\tmeaning")
				for _, k := range config.Keys() {
					textutil.Fprintf(w, "%s\t%s\t%s\n", k.Path, k.Default, k.Doc)
				}
				return w.Flush()
			case origin:
				w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "key\tvalue\torigin")
				for _, row := range r.Rows() {
					textutil.Fprintf(w, "%s\t%s\t%s\n", row.Key, row.Value, row.Origin)
				}
				return w.Flush()
			}
			_, err = s.Out.Write(config.Marshal(r.Config))
			return err
		},
	}
	f.add(c, config.Names())
	addKeyFlags(c, trainKeys)
	c.Flags().BoolVar(&origin, "origin", false, "print where each value comes from")
	c.Flags().BoolVar(&docs, "docs", false, "print what each key means")
	c.Flags().BoolVar(&asJSON, "json", false, "print values and origins (with --docs: defaults and meanings) as JSON")
	return c
}

func newConfigCheck(s *State) *cobra.Command {
	var sft bool
	c := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file; report errors with line and fix",
		Example: "  grpo config check my.yaml\n  grpo config check --sft my-base.yaml",
		Args:    takes("one configuration file", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			opts := config.LoadOptions{Path: args[0], Checkpoint: train.FindCheckpoint}
			hash := ""
			if sft {
				r, err := config.LoadSFT(opts)
				if err != nil {
					return err
				}
				hash = config.Hash(r.Config)
			} else {
				r, err := config.Load(opts)
				if err != nil {
					return err
				}
				hash = config.Hash(r.Config)
			}
			_, err := textutil.Fprintf(s.Out, "%s: ok, hash %s\n", args[0], hash)
			return err
		},
	}
	c.Flags().BoolVar(&sft, "sft", false, "FILE is a recipe of \"grpo sft\"")
	return c
}

func newConfigList(s *State) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the embedded configurations",
		Example: "  grpo config list",
		RunE: func(*cobra.Command, []string) error {
			about := map[string]string{}
			for _, p := range config.Presets() {
				about[p.Name] = p.About
			}
			w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
			for _, n := range config.Names() {
				textutil.Fprintf(w, "%s\tgrpo train -c %s\t%s\n", n, n, about[n])
			}
			for _, n := range config.NamesSFT() {
				textutil.Fprintf(w, "%s\tgrpo sft -c %s\t\n", n, n)
			}
			return w.Flush()
		},
	}
}
