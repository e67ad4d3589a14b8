package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/policy"
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

// configShowOptions are the inputs of `grpo config show`.
type configShowOptions struct {
	load               config.LoadOptions
	origin, docs, json bool
}

func newConfigShow(s *State) *cobra.Command {
	o := &configShowOptions{}
	var f configFlags
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the resolved configuration (defaults < file < environment < --set < flags)",
		Example: `  grpo config show                     as YAML, ready for -c
  grpo config show --docs              the meaning and the possible values of each key
  GRPO_SEED=3 grpo config show --origin --set group_size=4`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.origin && o.docs {
				return usagef(cmd, "--origin and --docs exclude each other")
			}
			o.load = f.options(cmd, s)
			return run(cmd, s, o, showConfig)
		},
	}
	f.add(c, config.Names(), trainKeys)
	c.Flags().BoolVar(&o.origin, "origin", false, "print where each value comes from")
	c.Flags().BoolVar(&o.docs, "docs", false, "print what each key means")
	c.Flags().BoolVar(&o.json, "json", false,
		"print values and origins (with --docs: defaults and meanings) as JSON")
	return c
}

// configOutput is what --json prints: of each key, value and origin, or default and meaning.
type configOutput map[string]map[string]string

// showConfig prints the configuration as YAML, or a row of each key.
func showConfig(_ context.Context, s *State, o *configShowOptions) error {
	r, err := config.Load(o.load)
	if err != nil {
		return err
	}
	if !o.origin && !o.docs && !o.json {
		_, err = s.Out.Write(config.Marshal(r.Config))
		return err
	}
	names := [3]string{"key", "value", "origin"}
	var rows [][3]string
	if o.docs {
		names[1], names[2] = "default", "meaning"
		for _, k := range config.Keys() {
			rows = append(rows, [3]string{k.Path, k.Default, k.Doc})
		}
	} else {
		for _, row := range r.Rows() {
			rows = append(rows, [3]string{row.Key, row.Value, row.Origin.String()})
		}
	}
	if o.json {
		out := configOutput{}
		for _, row := range rows {
			out[row[0]] = map[string]string{names[1]: row[1], names[2]: row[2]}
		}
		return printJSON(s.Out, out)
	}
	w := newTable(s.Out)
	for _, row := range append([][3]string{names}, rows...) {
		textutil.Fprintf(w, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	return w.Flush()
}

// configCheckOptions are the inputs of `grpo config check`.
type configCheckOptions struct {
	file string
	sft  bool
}

func newConfigCheck(s *State) *cobra.Command {
	o := &configCheckOptions{}
	c := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file; report errors with line and fix",
		Example: "  grpo config check my.yaml\n  grpo config check --sft my-base.yaml",
		Args:    takes("one configuration file", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return run(cmd, s, o, checkConfig)
		},
	}
	c.Flags().BoolVar(&o.sft, "sft", false, "FILE is a recipe of \"grpo sft\"")
	return c
}

func checkConfig(_ context.Context, s *State, o *configCheckOptions) error {
	load := config.LoadOptions{Path: o.file, Checkpoint: policy.FindCheckpoint}
	hash := ""
	if o.sft {
		r, err := config.LoadSFT(load)
		if err != nil {
			return err
		}
		hash = config.Hash(r.Config)
	} else {
		r, err := config.Load(load)
		if err != nil {
			return err
		}
		hash = config.Hash(r.Config)
	}
	_, err := textutil.Fprintf(s.Out, "%s: ok, hash %s\n", o.file, hash)
	return err
}

func newConfigList(s *State) *cobra.Command {
	o := &listOptions{}
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the embedded configurations and what each is for",
		Example: "  grpo config list\n  grpo config list --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, listConfigs) },
	}
	addJSON(c, &o.json)
	return c
}

// listedConfig is a row of the list.
type listedConfig struct {
	Name    string `json:"name"`
	Command string `json:"command"`
	About   string `json:"about"`
}

func listConfigs(_ context.Context, s *State, o *listOptions) error {
	var list []listedConfig
	for _, n := range config.Names() {
		list = append(list, listedConfig{n, "grpo train -c " + n, config.About(n)})
	}
	for _, n := range config.NamesSFT() {
		list = append(list, listedConfig{n, "grpo sft -c " + n, config.About(n)})
	}
	for _, n := range config.NamesRewardModel() {
		list = append(list, listedConfig{n, "grpo reward-model -c " + n, config.About(n)})
	}
	if o.json {
		return printJSON(s.Out, list)
	}
	w := newTable(s.Out)
	for _, l := range list {
		textutil.Fprintf(w, "%s\t%s\t%s\n", l.Name, l.Command, l.About)
	}
	return w.Flush()
}
