package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
)

// recordOptions are the inputs of a command whose result is a record: `grpo sft` and
// `grpo reward-model`.
type recordOptions struct {
	load config.LoadOptions
	out  outFlags
}

// records completes a command whose result is a record: names are those of its embedded configurations,
// and keys have flags of their own.
func records(c *cobra.Command, s *State, names []string, keys []keyFlag,
	do func(context.Context, *State, *recordOptions) error) *cobra.Command {
	o := &recordOptions{}
	var cf configFlags
	c.Annotations = saves
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o.load = cf.options(cmd, s)
		return run(cmd, s, o, do)
	}
	cf.add(c, names, keys)
	o.out.add(c.Flags())
	return c
}

// trainToRecord loads the configuration of such a command, runs it in its folder, and shows the record.
func trainToRecord[C config.Root, R any](s *State, o *recordOptions, command string,
	load func(config.LoadOptions) (*config.Loaded[C], error), run func(cfg C, dir string, p *progress) (*R, error),
	show func(s *State, dir string, rec *R) error) error {
	r, err := load(o.load)
	if err != nil {
		return err
	}
	dir, err := o.out.resolve(command, config.Hash(r.Config))
	if err != nil {
		return err
	}
	p := newProgress(s, o.out.quiet)
	p.headline("run folder %s", dir)
	rec, err := run(r.Config, dir, p)
	p.done()
	if err != nil {
		return err
	}
	if o.out.json {
		return printJSON(s.Out, rec)
	}
	return show(s, dir, rec)
}
