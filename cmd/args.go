package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/words"
	"grpo/pkg/config"
)

// takes is the rule for a command's arguments: at least and at most this many of
// what; most < 0 is without limit.
func takes(what string, least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("%s: give %s", nameOf(c), what)
		case most < 0 || n <= most:
			return nil
		case most == 0:
			return fmt.Errorf("%s takes no argument, but got %s%s", nameOf(c), words.Quote(args[0]), flagFor(c, args[0]))
		}
		return fmt.Errorf("%s: %s is one argument too many (it takes %s)%s",
			nameOf(c), words.Quote(args[most]), what, flagFor(c, args[most]))
	}
}

// nameOf is the command without the program, which every error has in front.
func nameOf(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// flagFor proposes a flag in place of an argument that looks like a setting.
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
// those of sft are others.
func takesKeys(c *cobra.Command) bool { return c.Flags().Lookup("set") != nil && c.Name() != "sft" }

// missingInput makes the error about a file or folder that was named on the command
// line and is not there one of usage.
func missingInput(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return config.Invalid(err)
	}
	return err
}

// flagError rewords an error about flags, and proposes the flag or the key that was
// probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		err = fmt.Errorf("unknown flag: --%s%s", name, suggestFlag(c, name))
	case errors.As(err, &value):
		f := value.GetFlag()
		want, ok := map[string]string{
			"int": "a whole number", "uint64": "a whole number of 0 or more", "float64": "a number",
			"bool": "true or false", "duration": "a time such as 20ms",
			"intSlice": "whole numbers such as 1,2", "float64Slice": "numbers such as 0.5,1",
		}[f.Value.Type()]
		if _, counts := f.Value.(*countFlag); ok && !counts {
			want = "want " + want
		} else {
			want = value.Unwrap().Error()
		}
		err = fmt.Errorf("--%s %s: %s", f.Name, words.Show(value.GetValue()), want)
	}
	return &usageError{c, err}
}

// suggestFlag answers an unknown flag: a flag of this command that differs by a
// letter, a key of that name, a flag or a key that is similar, or the commands
// that have the flag.
func suggestFlag(c *cobra.Command, name string) string {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	near := words.Nearest(name, flags)
	flag := fmt.Sprintf(" (did you mean \"--%s\"?)", near)
	if near != "" && words.Distance(name, near) == 1 {
		return flag
	}
	if isKey(c, name) {
		if c.Flags().Lookup("values") != nil && (name == "lr" || name == "learning_rate") {
			return " (the learning rates are --values)"
		}
		return fmt.Sprintf(" (it is a key: --set %s=VALUE)", name)
	}
	if near != "" {
		return flag
	}
	var others []string
	for _, other := range c.Root().Commands() {
		if other != c && !other.Hidden && other.Flags().Lookup(name) != nil {
			others = append(others, fmt.Sprintf("%q", other.CommandPath()))
		}
	}
	if len(others) > 0 {
		return " (a flag of " + strings.Join(others, ", ") + ")"
	}
	if takesKeys(c) {
		if _, err := config.Get(config.Default(), name); err != nil && strings.Contains(err.Error(), "did you mean") {
			_, hint, _ := strings.Cut(err.Error(), "(did you mean ")
			return " (did you mean --set " + strings.TrimSuffix(strings.ReplaceAll(hint, `"`, ""), "?)") + "=VALUE?)"
		}
	}
	return ""
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
