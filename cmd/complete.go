package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/jsonschema"
	"grpo/pkg/config"
)

// complete lists the values of a flag for the shell.
func complete(c *cobra.Command, flag string, values func() []string, then cobra.ShellCompDirective) {
	completeWith(c, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return values(), then })
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
