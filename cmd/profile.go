package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// profileKinds are what --profile can record, with the file of each.
var profileKinds = []struct {
	kind, file, show string
	start            func(io.Writer) error
	stop             func(io.Writer) error
}{
	{"cpu", "cpu.pprof", "go tool pprof -top", pprof.StartCPUProfile,
		func(io.Writer) error { pprof.StopCPUProfile(); return nil }},
	{"heap", "heap.pprof", "go tool pprof -sample_index=alloc_space -top", func(io.Writer) error { return nil },
		func(w io.Writer) error { runtime.GC(); return pprof.Lookup("allocs").WriteTo(w, 0) }},
	{"trace", "trace.out", "go tool trace", trace.Start,
		func(io.Writer) error { trace.Stop(); return nil }},
}

// profileFlag is --profile.
type profileFlag struct{ kind string }

func (p *profileFlag) add(fs *pflag.FlagSet, where string) {
	fs.StringVar(&p.kind, "profile", "", "write a profile (`cpu|heap|trace`) to "+where)
}

func (p *profileFlag) check(c *cobra.Command) error {
	var kinds []string
	for _, k := range profileKinds {
		if k.kind == p.kind {
			return nil
		}
		kinds = append(kinds, k.kind)
	}
	if p.kind == "" {
		return nil
	}
	return usagef(c, "--profile %q is not known (%s are)", p.kind, strings.Join(kinds, ", "))
}

// during records while f runs, writes the profile into dir, which f makes, and prints
// how to read it. Without --profile it only runs f.
func (p *profileFlag) during(s *State, dir string, f func() error) error {
	for _, k := range profileKinds {
		if k.kind != p.kind {
			continue
		}
		var to bytes.Buffer
		if err := k.start(&to); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		failed := f()
		if err := k.stop(&to); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		// A folder that was refused is not the run's.
		if _, err := os.Stat(dir); err != nil || errors.Is(failed, config.ErrConfig) {
			return failed
		}
		path := filepath.Join(dir, k.file)
		if err := rundir.WriteFileAtomic(path, to.Bytes()); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		textutil.Fprintf(s.Err, "profile: %s (read it with \"%s %s\")\n", path, k.show, path)
		return failed
	}
	return f()
}
