package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// configFlags are the flags of every command that resolves a configuration.
type configFlags struct {
	path string
	set  []string
}

func (f *configFlags) add(c *cobra.Command, names []string) {
	c.Flags().StringVarP(&f.path, "config", "c", "",
		"configuration: a YAML `file`, or the name of an embedded one (see \"grpo config list\")")
	c.Flags().StringArrayVar(&f.set, "set", nil,
		"set a configuration key, `KEY=VALUE`, e.g. --set rollout.group_size=4 (repeatable; see \"grpo config show\")")
	complete(c, "config", func() []string { return names }, cobra.ShellCompDirectiveDefault)
	complete(c, "set", func() (keys []string) {
		for _, k := range config.Keys() {
			keys = append(keys, k.Path+"=\t"+k.Doc)
		}
		return keys
	}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp)
}

// complete lists the values of a flag for the shell.
func complete(c *cobra.Command, flag string, values func() []string, then cobra.ShellCompDirective) {
	// The error says that the flag does not exist or is registered twice; both would
	// be mistakes of the caller.
	_ = c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), then
	})
}

// addJSON adds --json to a command whose whole output becomes JSON.
func addJSON(c *cobra.Command, to *bool) { c.Flags().BoolVar(to, "json", false, "print as JSON") }

// keyFlag is a flag of its own for a key that is set often. Help shows kind, or
// the values to choose from; the flag of a "bool" needs no value.
type keyFlag struct{ flag, key, kind, usage string }

// keyValue is the text of a keyFlag, which the configuration checks.
type keyValue struct{ text, kind string }

func (v *keyValue) String() string        { return v.text }
func (v *keyValue) Type() string          { return v.kind }
func (v *keyValue) Set(text string) error { v.text = text; return nil }

func addKeyFlags(c *cobra.Command, flags []keyFlag) {
	for _, f := range flags {
		c.Flags().Var(&keyValue{kind: f.kind}, f.flag, f.usage+" ("+f.key+")")
		if f.kind == "bool" {
			c.Flags().Lookup(f.flag).NoOptDefVal = "true"
		}
	}
}

// options collects the sources of a configuration.
func (f *configFlags) options(c *cobra.Command, s *State, flags []keyFlag) config.LoadOptions {
	out := config.LoadOptions{Path: f.path, Env: s.Env, Set: f.set, Checkpoint: train.FindCheckpoint}
	for _, k := range flags {
		if fl := c.Flags().Lookup(k.flag); fl.Changed {
			out.Flags = append(out.Flags, config.Flag{Key: k.key, Name: "--" + k.flag, Value: fl.Value.String()})
		}
	}
	return out
}

// outFlags say where results go and how they are shown.
type outFlags struct {
	dir     string
	fresh   bool
	json    bool
	quiet   bool
	threads int
}

func (f *outFlags) add(fs *pflag.FlagSet) {
	f.addFolder(fs, "of the run (default results/<command>-<hash of the configuration>", "")
	f.addShow(fs)
	addThreads(fs, &f.threads, "; does not affect the results")
}

func (f *outFlags) addFolder(fs *pflag.FlagSet, what, fresh string) {
	fs.StringVar(&f.dir, "out", "", "`folder` "+what+": the same command finds it again)")
	fs.BoolVar(&f.fresh, "fresh", false, "start over in a new folder"+fresh)
}

func (f *outFlags) addShow(fs *pflag.FlagSet) {
	fs.BoolVar(&f.json, "json", false, "print the result as JSON")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress on standard error")
}

// resolve returns the folder of a run: --out, or the one that the configuration's
// hash names; with --fresh the first of DIR, DIR-2, DIR-3 ... that does not exist.
func (f *outFlags) resolve(command, hash string) (string, error) {
	dir := f.dir
	if dir == "" {
		dir = filepath.Join("results", command+"-"+hash)
	}
	if !f.fresh {
		return dir, nil
	}
	try := dir
	for n := 2; ; n++ {
		switch _, err := os.Lstat(try); {
		case errors.Is(err, fs.ErrNotExist):
			return try, nil
		case err != nil:
			return "", fmt.Errorf("find a fresh folder: %w", err)
		}
		try = dir + "-" + strconv.Itoa(n)
	}
}

// printJSON writes v indented; a number that is not finite becomes null.
func printJSON(w io.Writer, v any) error {
	data, err := rundir.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = b.WriteTo(w)
	return err
}

// newTable returns a writer that aligns columns separated by tabs.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// wrote names the files written, unless quiet.
func wrote(s *State, paths []string, quiet bool) error {
	for _, p := range paths {
		if quiet {
			break
		}
		if _, err := textutil.Fprintf(s.Err, "wrote %s\n", filepath.ToSlash(p)); err != nil {
			return err
		}
	}
	return nil
}
