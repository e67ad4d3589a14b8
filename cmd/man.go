package cmd

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/manpage"
	"grpo/pkg/rundir"
)

// manOptions are the inputs of `grpo man`.
type manOptions struct {
	of  *cobra.Command
	out string
}

func newMan(s *State) *cobra.Command {
	o := &manOptions{}
	c := &cobra.Command{
		Use:   "man [COMMAND...]",
		Short: "Print the man page of a command, or write those of all commands",
		Long: `Man prints the man page of grpo or of one of its commands. With --out it writes the
pages of all commands into a folder that man(1) can search.`,
		Example: `  grpo man sweep | man -l -
  grpo man --out ~/.local/share/man/man1`,
		Args: takes("a command", 0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			switch {
			case o.out != "" && len(args) > 0:
				return usagef(cmd, "--out writes the pages of all commands: leave out %s", strings.Join(args, " "))
			case err != nil || len(rest) > 0:
				topic := strings.Join(args, " ")
				return usagef(cmd, "there is no command %q%s", topic, suggestion(cmd.Root(), topic))
			}
			o.of = of
			return run(cmd, s, o, showMan)
		},
	}
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		of, rest, err := c.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return subcommands(of), cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().StringVar(&o.out, "out", "", "write the pages of all commands to this `folder`")
	return c
}

func showMan(_ context.Context, s *State, o *manOptions) error {
	if o.out == "" {
		_, err := s.Out.Write(manpage.Page(o.of, "", version))
		return err
	}
	if err := rundir.MkdirAll(o.out); err != nil {
		return err
	}
	for _, c := range manpage.Commands(o.of) {
		path := filepath.Join(o.out, manpage.Name(c)+".1")
		if err := rundir.WriteFileAtomic(path, manpage.Page(c, "", version)); err != nil {
			return err
		}
	}
	wrote(s, o.out)
	return nil
}
