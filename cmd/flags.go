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
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// takes is the rule for a command's arguments: least to most of what; most < 0 is
// without limit.
func takes(what string, least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("%s: give %s", nameOf(c), what)
		case most < 0 || n <= most:
			return nil
		case most == 0:
			return fmt.Errorf("%s takes no argument, but got %s%s",
				nameOf(c), textutil.Quote(args[0]), flagFor(c, args[0]))
		}
		return fmt.Errorf("%s: %s is one argument too many (it takes %s)%s",
			nameOf(c), textutil.Quote(args[most]), what, flagFor(c, args[most]))
	}
}

// nameOf is the command without the program, with which every error starts.
func nameOf(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// flagFor proposes --set for an argument that looks like a setting.
func flagFor(c *cobra.Command, arg string) string {
	if key, _, ok := strings.Cut(arg, "="); ok && isKey(c, key) {
		return fmt.Sprintf(" (did you mean --set %s?)", arg)
	}
	return ""
}

// isKey says whether the command takes a key of this name with --set.
func isKey(c *cobra.Command, name string) bool {
	_, err := config.Get(config.Default(), name)
	return err == nil && takesKeys(c)
}

// takesKeys says whether the command has --set for the keys of [config.Config];
// those of sft and reward-model are others.
func takesKeys(c *cobra.Command) bool {
	return c.Flags().Lookup("set") != nil && c.Name() != "sft" && c.Name() != "reward-model"
}

// missingInput turns the error about a missing file or folder, named on the command
// line, into one with the exit code of usage errors.
func missingInput(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return config.Invalid(err)
	}
	return err
}

// countFlag is an integer within bounds.
type countFlag struct {
	to          *int
	least, most int
}

// countVar adds a flag for an integer of least to most.
func countVar(fs *pflag.FlagSet, to *int, name string, value, least, most int, usage string) {
	*to = value
	fs.Var(&countFlag{to, least, most}, name, usage)
}

func (f *countFlag) String() string {
	if f.to == nil {
		return "0"
	}
	return fmt.Sprint(*f.to)
}

func (f *countFlag) Type() string { return "int" }

func (f *countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < f.least || n > f.most {
		return fmt.Errorf("want a whole number of %d to %d", f.least, f.most)
	}
	*f.to = n
	return nil
}

// Bounds of flags.
const (
	maxThreads = 1024
	maxCount   = 1 << 20
)

func addThreads(fs *pflag.FlagSet, to *int, more string) {
	countVar(fs, to, "threads", 0, 0, maxThreads, "worker threads (0 = one per core)"+more)
}

// configFlags are the flags of every command that resolves a configuration.
type configFlags struct {
	files []string
	set   []string
	keys  []keyFlag
}

// add adds -c, with the names of the embedded configurations, --set, and a flag for each key.
func (f *configFlags) add(c *cobra.Command, names []string, keys []keyFlag) {
	f.keys = keys
	addKeyFlags(c, keys)
	c.Flags().StringArrayVarP(&f.files, "config", "c", nil,
		"configuration: a YAML `file`, or the name of an embedded one (see \"grpo config list\"); "+
			"of several, later ones override earlier ones")
	c.Flags().StringArrayVar(&f.set, "set", nil,
		"set a configuration key, `KEY=VALUE`, e.g. --set rollout.group_size=4 "+
			"(repeatable; see \"grpo config show\")")
	complete(c, "config", func() []string { return names }, cobra.ShellCompDirectiveDefault)
	completeSettings(c, "set", func() (keys []string) {
		if takesKeys(c) {
			for _, k := range config.Keys() {
				keys = append(keys, k.Path+"=\t"+k.Doc)
			}
		}
		return keys
	})
}

// addJSON adds --json to a command whose whole output becomes JSON.
func addJSON(c *cobra.Command, to *bool) { c.Flags().BoolVar(to, "json", false, "print as JSON") }

// keyFlag is a flag for a key that is set often. Help shows its kind or values; the
// flag of a "bool" needs no value.
type keyFlag struct{ flag, key, kind, usage string }

// keyValue is the string of a keyFlag, which the configuration checks.
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
func (f *configFlags) options(c *cobra.Command, s *State) config.LoadOptions {
	out := config.LoadOptions{Env: s.Env, Set: f.set, Flags: givenKeys(c, f.keys), Checkpoint: policy.FindCheckpoint}
	if len(f.files) > 0 {
		out.Path, out.Over = f.files[0], append(out.Over, f.files[1:]...)
	}
	return out
}

// givenKeys returns those of the flags that the user gave.
func givenKeys(c *cobra.Command, flags []keyFlag) (out []config.Flag) {
	for _, k := range flags {
		if fl := c.Flags().Lookup(k.flag); fl.Changed {
			out = append(out, config.Flag{Key: k.key, Name: "--" + k.flag, Value: fl.Value.String()})
		}
	}
	return out
}

// outFlags are the folder of the results and how they are shown.
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

// resolve returns the folder of a run: --out, or the one named by the configuration's
// hash; with --fresh the first of DIR, DIR-2, DIR-3 ... that does not exist.
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
	printed(v, data)
	return writeJSON(w, data)
}

// writeJSON writes a document indented.
func writeJSON(w io.Writer, data []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// table collects lines whose cells are separated by tabs. A line without a tab ends a table.
type table struct {
	bytes.Buffer
	out io.Writer
}

func newTable(out io.Writer) *table { return &table{out: out} }

// Flush writes the lines with aligned columns.
func (t *table) Flush() error {
	var b strings.Builder
	var rows [][]string
	for line := range strings.Lines(t.String()) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) > 1 {
			rows = append(rows, row)
			continue
		}
		writeAligned(&b, rows)
		b.WriteString(line)
		rows = nil
	}
	writeAligned(&b, rows)
	t.Reset()
	_, err := io.WriteString(t.out, b.String())
	return err
}

func writeAligned(b *strings.Builder, rows [][]string) {
	for _, line := range textutil.Align("l", rows) {
		b.WriteString(line + "\n")
	}
}

// wrote names the files written.
func wrote(s *State, paths ...string) {
	for _, p := range paths {
		textutil.Fprintf(s.Err, "wrote %s\n", filepath.ToSlash(p))
	}
}
