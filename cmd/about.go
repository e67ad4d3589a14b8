package cmd

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/cores"
	"grpo/internal/manpage"
	"grpo/internal/textutil"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// A release sets both with -ldflags "-X grpo/cmd.version=...".
var (
	version  = "0.1.0-dev"
	revision = "" // of the sources; empty: what the Go command recorded
)

// build describes the binary and the machine, for `version` and meta.json.
func build(s *State) rundir.Meta {
	m := rundir.Meta{
		Version: version, Revision: "unknown", GoVersion: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernel.Name(), Argv: s.Args,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			switch {
			case kv.Key == "vcs.revision":
				m.Revision = kv.Value
			case kv.Key == "vcs.modified" && kv.Value == "true":
				m.Revision += " (modified)"
			}
		}
	}
	if revision != "" {
		m.Revision = revision
	}
	if host, err := s.Host(); err == nil {
		m.Host = host
	}
	return m
}

// cudaState is whether the program can use a GPU.
func cudaState() string {
	if policy.CUDA {
		return "built in"
	}
	return "not built in"
}

// versionLine is what `grpo version` and `grpo --version` print.
func versionLine(m rundir.Meta) string {
	return fmt.Sprintf("grpo %s, revision %s, %s %s/%s, kernel %s, %d threads, CUDA %s",
		m.Version, m.Revision, m.GoVersion, m.OS, m.Arch, m.Kernel, cores.Threads(), cudaState())
}

func newVersion(s *State) *cobra.Command {
	o := &listOptions{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print version, revision, arithmetic kernel, default threads and CUDA support",
		Example: "  grpo version --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd, s, o, showVersion) },
	}
	addJSON(c, &o.json)
	return c
}

// versionOutput is what --json prints.
type versionOutput struct {
	Arch      string `json:"arch"`
	CUDA      string `json:"cuda"`
	GoVersion string `json:"go_version"`
	Kernel    string `json:"kernel"`
	OS        string `json:"os"`
	Revision  string `json:"revision"`
	Threads   int    `json:"threads"` // by default
	Version   string `json:"version"`
}

func showVersion(_ context.Context, s *State, o *listOptions) error {
	m := build(s)
	if o.json {
		return printJSON(s.Out, versionOutput{
			m.Arch, cudaState(), m.GoVersion, m.Kernel, m.OS, m.Revision, cores.Threads(), m.Version,
		})
	}
	_, err := textutil.Fprintf(s.Out, "%s\n", versionLine(m))
	return err
}

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
