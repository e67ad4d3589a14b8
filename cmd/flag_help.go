package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/internal/jsonschema"
	"grpo/internal/manpage"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/config"
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

// flagError rewords an error about flags, with a suggestion.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var required *pflag.ValueRequiredError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name, dashes := unknown.GetSpecifiedName(), "--"
		if short, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "="); len(short) == 1 {
			return &usageError{c, err}
		} else if short != "" { // -values for --values
			name, dashes = short, "-"
		}
		err = fmt.Errorf("unknown flag: %s%s%s", dashes, name, suggestFlag(c, name))
	case errors.As(err, &required):
		if want := wanted(required.GetFlag()); want != "" {
			err = fmt.Errorf("--%s needs a value: %s", required.GetFlag().Name, want)
		}
	case errors.As(err, &value):
		f := value.GetFlag()
		want := wanted(f)
		if _, counts := f.Value.(*countFlag); want != "" && !counts {
			want = "want " + want
		} else {
			want = value.Unwrap().Error()
		}
		err = fmt.Errorf("--%s %s: %s", f.Name, textutil.Show(value.GetValue()), want)
	}
	return &usageError{c, err}
}

// wanted says what the values of a flag look like; empty for text.
func wanted(f *pflag.Flag) string {
	return map[string]string{
		"int": "a whole number", "uint64": "a whole number of 0 or more", "float64": "a number",
		"bool": "true or false", "duration": "a time such as 20ms",
		"intSlice": "whole numbers such as 1,2", "float64Slice": "numbers such as 0.5,1",
	}[f.Value.Type()]
}

// otherNames are names of other programs for flags, used only in suggestions. Those of keys are known
// to package config.
var otherNames = map[string]string{
	"output_dir": "out", "output": "out", "outdir": "out", "save_dir": "out",
	"model_name_or_path": "model", "checkpoint": "model", "num_seeds": "seeds",
	"rewards":                "group", // of explain advantages
	"resume_from_checkpoint": "resume", "resume_from": "resume", "config_file": "config", "nproc": "threads",
	"num_threads": "threads", "format": "formats", "gpu": "device", "gpus": "device", "use_cpu": "device",
}

// suggestFlag suggests, for an unknown flag, a flag of this command of another spelling, the flag or
// the setting of a key of that name, a similar flag or key, or the commands that have it.
func suggestFlag(c *cobra.Command, name string) string {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	near := suggest.Nearest(name, flags)
	underscored := strings.ReplaceAll(name, "-", "_")
	for _, same := range []string{name, strings.ReplaceAll(name, "_", "-"), otherNames[underscored]} {
		if slices.Contains(flags, same) {
			return fmt.Sprintf(" (did you mean \"--%s\"?)", same)
		}
	}
	elsewhere := haveFlag(c, name)
	if near != "" && (suggest.Distance(name, near) == 1 || !isKey(c, underscored)) {
		if elsewhere != "" {
			elsewhere = fmt.Sprintf(" --%s is a flag of %s", name, elsewhere)
		}
		return fmt.Sprintf(" (did you mean \"--%s\"?%s)", near, elsewhere)
	}
	if hint := suggestKeyFlag(c, name, underscored); hint != "" {
		return hint
	}
	if elsewhere != "" {
		return " (a flag of " + elsewhere + ")"
	}
	return ""
}

// suggestKeyFlag suggests how to set the key that a flag may mean.
func suggestKeyFlag(c *cobra.Command, name, key string) string {
	if !takesKeys(c) {
		return ""
	}
	k, err := config.FindKey(key)
	if _, hint, ok := strings.Cut(fmt.Sprint(err), "(did you mean "); ok {
		k, _ = config.FindKey(strings.Trim(hint, `"?)`))
	}
	switch {
	case k.Path == "" && err != nil && strings.Contains(err.Error(), "write one of"):
		return fmt.Sprintf(" (%v, with --set)", err)
	case k.Path == "":
		return ""
	case k.Path == "train.learning_rate" && c.Flags().Lookup("values") != nil:
		return " (the learning rates are --values)"
	}
	hint := fmt.Sprintf(" (did you mean --set %s=VALUE?)", k.Path)
	if name == key && err == nil {
		hint = fmt.Sprintf(" (it is a key: --set %s=VALUE)", key)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) { // of a keyFlag
		if strings.HasSuffix(f.Usage, "("+k.Path+")") {
			hint = fmt.Sprintf(" (did you mean \"--%s\"?)", f.Name)
		}
	})
	return hint
}

// haveFlag lists other commands that have a flag, three at most.
func haveFlag(c *cobra.Command, name string) string {
	var others []string
	for _, other := range manpage.Commands(c.Root()) {
		if f := other.Flags().Lookup(name); other != c && f != nil && !f.Hidden && len(others) < 3 {
			others = append(others, fmt.Sprintf("%q", other.CommandPath()))
		}
	}
	return strings.Join(others, ", ")
}

// complete lists the values of a flag for the shell.
func complete(c *cobra.Command, flag string, values func() []string, then cobra.ShellCompDirective) {
	completeWith(c, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), then
	})
}

func completeWith(c *cobra.Command, flag string, list cobra.CompletionFunc) {
	// An error means that the flag does not exist or is registered twice, a mistake of
	// the caller.
	_ = c.RegisterFlagCompletionFunc(flag, list)
}

// completeSettings lists KEY= for the shell, and after it what the key can be.
func completeSettings(c *cobra.Command, flag string, keys func() []string) {
	completeWith(c, flag, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		if key, _, ok := strings.Cut(word, "="); ok && takesKeys(c) {
			return valuesOf(key, key+"="), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		return keys(), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

// valuesOf lists the values of a key that has only some, each after prefix. Of several, joined by
// commas, it lists the first: cobra's script for bash can't complete a word with a comma.
func valuesOf(name, prefix string) (out []string) {
	key, err := config.FindKey(name)
	if err != nil {
		return nil
	}
	s := config.KeySchemas()[key.Path]
	if items, ok := s["items"].(jsonschema.Schema); ok {
		s = items
	}
	values, _ := s["enum"].([]string)
	if s["type"] == "boolean" {
		values = []string{"false", "true"}
	}
	for _, v := range values {
		out = append(out, prefix+v)
	}
	return out
}
