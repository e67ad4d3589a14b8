package cmd

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

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
	return fmt.Sprintf("grpo %s, revision %s, %s %s/%s, kernel %s, CUDA %s",
		m.Version, m.Revision, m.GoVersion, m.OS, m.Arch, m.Kernel, cudaState())
}

func newVersion(s *State) *cobra.Command {
	o := &listOptions{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print version, revision, arithmetic kernel and CUDA support",
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
	Version   string `json:"version"`
}

func showVersion(_ context.Context, s *State, o *listOptions) error {
	m := build(s)
	if o.json {
		return printJSON(s.Out, versionOutput{
			m.Arch, cudaState(), m.GoVersion, m.Kernel, m.OS, m.Revision, m.Version,
		})
	}
	_, err := textutil.Fprintf(s.Out, "%s\n", versionLine(m))
	return err
}
