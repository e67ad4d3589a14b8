package cmd

import (
	"slices"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/sweep"
)

// sweepableKeys lists what can be an axis, for the shell.
func sweepableKeys(suffix string) []string {
	out := []string{"lr" + suffix + "\tthe learning rate"}
	for _, k := range config.Keys() {
		if k.Path != "seed" && k.Path != "name" && !config.OfLauncher(k.Path) {
			out = append(out, k.Path+suffix+"\t"+k.Doc)
		}
	}
	return out
}

// axesOf returns the axes of the command line.
func axesOf(cmd *cobra.Command, args []string, values string, axes []string) ([]sweep.AxisRequest, error) {
	var out []sweep.AxisRequest
	given := cmd.Flags().Changed("values")
	switch {
	case len(args) == 0 && given:
		return nil, usagef(cmd, "--values are those of KEY, which is missing (grpo sweep lr --values 1e-3,3e-3)")
	case len(args) == 0 && len(axes) == 0:
		return nil, usagef(cmd,
			"name the key to sweep, or give axes (grpo sweep lr; grpo sweep --axis lr=1e-3,3e-3)")
	case len(args) == 1:
		a := sweep.AxisRequest{Key: args[0], From: "--values", Values: sweep.DefaultRates()}
		if given {
			var err error
			if a.Values, err = sweep.SplitValues(values); err != nil {
				return nil, usagef(cmd, "--values: %w", err)
			}
		} else if _, err := sweep.AxesRequest([]sweep.AxisRequest{a}); err != nil {
			return nil, err
		} else if !slices.Contains([]string{"lr", "learning_rate", "train.learning_rate"}, args[0]) {
			return nil, usagef(cmd, "give the values of %s (--values V1,V2)", args[0])
		}
		out = append(out, a)
	}
	for _, arg := range axes {
		a, err := sweep.ParseAxis(arg)
		if err != nil {
			return nil, usagef(cmd, "%v", err)
		}
		out = append(out, a)
	}
	return out, nil
}
