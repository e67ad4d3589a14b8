package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/pattern"
	"grpo/internal/suggest"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep/launch"
)

// countFlag is an integer within bounds.
type countFlag struct {
	to          *int
	least, most int
}

// countVar adds a flag for an integer of least to most; a name of one letter is -n too.
func countVar(fs *pflag.FlagSet, to *int, name string, value, least, most int, usage string) {
	*to = value
	short := ""
	if len(name) == 1 {
		short = name
	}
	fs.VarP(&countFlag{to, least, most}, name, short, usage)
}

func (f *countFlag) String() string { return fmt.Sprint(*f.to) }
func (f *countFlag) Type() string   { return "int" }

func (f *countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < f.least || n > f.most {
		return fmt.Errorf("want a whole number of %d to %d", f.least, f.most)
	}
	*f.to = n
	return nil
}

// choiceFlag is one of several names of what.
type choiceFlag struct {
	to    *string
	what  string
	names []string
}

// choiceVar adds a flag for one of several names, which the shell completes.
func choiceVar(c *cobra.Command, to *string, name, value, what string, names []string, usage string) {
	*to = value
	c.Flags().Var(&choiceFlag{to, what, names}, name, usage)
	complete(c, name, func() []string { return names }, cobra.ShellCompDirectiveNoFileComp)
}

func (f *choiceFlag) String() string { return *f.to }
func (f *choiceFlag) Type() string   { return "string" }

// Set takes the default too, which may be empty.
func (f *choiceFlag) Set(text string) error {
	if text != *f.to && !slices.Contains(f.names, text) {
		return fmt.Errorf("there is no such %s%s (there are %s)",
			f.what, suggest.DidYouMean(text, f.names), strings.Join(f.names, ", "))
	}
	*f.to = text
	return nil
}

// Bounds of flags.
const (
	maxThreads = 1024
	maxCount   = 1 << 20
)

func addThreads(fs *pflag.FlagSet, to *int, more string) {
	countVar(fs, to, "threads", 0, 0, maxThreads, "worker threads (0 = one per core, or per performance core)"+more)
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
			"(repeatable; see \"grpo config show --docs\")")
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

func addQuiet(fs *pflag.FlagSet, to *bool) {
	fs.BoolVarP(to, "quiet", "q", false, "do not show progress on standard error")
}

// addSplit adds --split, the problems that a command uses.
func addSplit(c *cobra.Command, to *string, value, usage string) {
	choiceVar(c, to, "split", value, "split", evalSplits, usage+": `val|test|unseen|train`")
}

var evalSplits = []string{"val", "test", "unseen", "train"}

// addWhich adds --which, a checkpoint of a run.
func addWhich(c *cobra.Command, to *string, value, more string) {
	choiceVar(c, to, "which", value, "checkpoint", []string{"last", "best"}, "checkpoint of a run: `last|best`"+more)
}

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

// optionsOfRun are the options for a command with --model, which by default has the configuration of a run
// that it names.
func (f *configFlags) optionsOfRun(c *cobra.Command, s *State) config.LoadOptions {
	out := f.options(c, s)
	dir := c.Flags().Lookup(modelKey.flag).Value.String()
	if kind, err := rundir.KindOf(dir); out.Path == "" && err == nil && kind == rundir.KindRun {
		out.Path = filepath.Join(dir, rundir.ConfigFile)
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
	addQuiet(fs, &f.quiet)
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
	dir = filepath.Clean(dir) // a number after DIR/ would name a folder in it
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

// gateFlags turn results into the exit code 1, for CI. They are checked after everything is written.
type gateFlags struct {
	report.Gate
	baseline string // file
	drop     bool   // --max-drop was given
}

func (g *gateFlags) add(fs *pflag.FlagSet) {
	const usage = "exit with 1 if the final validation reward (of an arm: the mean over its seeds) is below this " +
		"`reward`, 0 to 1"
	fs.Func("fail-below", usage, func(text string) error {
		v, err := within(text, 1)
		if err != nil {
			return errors.New("want a reward of 0 to 1")
		}
		g.Below = &v
		return nil
	})
	fs.BoolVar(&g.Diverged, "fail-on-diverged", false, "exit with 1 if a run diverged")
	fs.StringVar(&g.baseline, "baseline", "",
		"exit with 1 if the final validation reward is below that in this `file`, an earlier result.json or results.json")
	const drop = "the `points` of 0 to 100 by which it may be below the --baseline (default 0)"
	fs.Func("max-drop", drop, func(text string) (err error) {
		if g.MaxDrop, err = within(text, 100); err != nil {
			return errors.New("want points of 0 to 100")
		}
		g.drop = true
		return nil
	})
}

var weightsHash = pattern.Of(`^[0-9a-f]{8,64}$`)

// addWeights adds the flag for commands about one run.
func (g *gateFlags) addWeights(fs *pflag.FlagSet) {
	const usage = "exit with 1 if the SHA-256 of the final weights does not begin with this `hash`, 8 to 64 hex digits"
	fs.Func("expect-weights", usage, func(text string) error {
		if g.Weights = strings.ToLower(text); !weightsHash().MatchString(g.Weights) {
			return errors.New("want 8 to 64 hex digits, as weights_sha256 in result.json")
		}
		return nil
	})
}

// within reads a number of 0 to most.
func within(text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, errors.New("out of range")
	}
	return v, nil
}

// load reads the baseline, before anything is trained.
func (g *gateFlags) load(kind rundir.Kind) (err error) {
	switch {
	case g.baseline != "":
		g.Baseline, err = report.ReadBaseline(g.baseline, kind)
	case g.drop:
		err = fmt.Errorf("%w: --max-drop compares with an earlier result: add --baseline FILE", config.ErrConfig)
	}
	return err
}

// checkGate loads the baseline, and refuses the flags for a command that ends before there are results.
func (f *sweepFlags) checkGate(k launch.Kind, prepare bool, kind rundir.Kind) error {
	how := ""
	switch {
	case f.gate.Below == nil && !f.gate.Diverged && f.gate.baseline == "":
	case f.dryRun:
		how = "leave out --dry-run"
	case prepare, k.Stays == launch.Never:
		how = "give them to grpo report"
	case k.Stays == launch.WithWait && !f.launcher.wait:
		how = "add --wait, or give them to grpo report"
	}
	if how == "" {
		return f.gate.load(kind)
	}
	return fmt.Errorf("%w: --fail-below, --fail-on-diverged and --baseline check results, which this command ends "+
		"without: %s", config.ErrConfig, how)
}
