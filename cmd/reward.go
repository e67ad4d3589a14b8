package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/infer"
)

func newReward(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:     "reward",
		Short:   "Try reward functions",
		Example: "  grpo reward try my.yaml",
	}
	c.AddCommand(newRewardTry(s))
	return c
}

// rewardTryOptions are the inputs of `grpo reward try`.
type rewardTryOptions struct {
	load    config.LoadOptions
	samples string // a file of completions; "" = made from problems
	n       int
	json    bool
}

func newRewardTry(s *State) *cobra.Command {
	o := &rewardTryOptions{}
	var cf configFlags
	keys := []keyFlag{modelKey, skipBad}
	c := &cobra.Command{
		Use:   "try [FILE]",
		Short: "Run the reward functions of a configuration on completions and print their rewards",
		Long: `Try runs the reward functions of a configuration, custom ones included, and prints
a table of their rewards and of the weighted sum. It trains nothing and writes no file.

FILE is a configuration (YAML), over those of -c. The completions are made from its first training
problems: a right answer, a wrong one, one without the format, a truncated one and an
empty one. --samples takes them from a file instead, such as the samples.jsonl of a run.

FILE may also be that file of completions, if its name does not end in .yaml or .yml; the
configuration is then the one of -c, which alone is enough, too. A line is a JSON object with "completion" and, if
known, "gold" (the right answer), "prompt", "problem" (its ID), "step" and "ended".`,
		Example: `  grpo reward try my.yaml
  grpo reward try my.yaml --samples results/train-1a2b3c4d/samples.jsonl --json
  grpo reward try results/train-1a2b3c4d/samples.jsonl -c my.yaml -n 20`,
		Args: takes("one file: a configuration (YAML) or completions (JSONL)", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if len(cf.files) == 0 {
					return usagef(cmd, "reward try: give one file: a configuration (YAML) or completions (JSONL)")
				}
			} else if slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(args[0]))) {
				cf.files = append(cf.files, args[0]) // -c has what it does not set
			} else if o.samples != "" {
				return usagef(cmd, "reward try: %s and --samples %s are both completions (a configuration ends in .yaml)",
					textutil.Quote(args[0]), textutil.Quote(o.samples))
			} else {
				o.samples = args[0]
			}
			o.load = cf.options(cmd, s)
			return run(cmd, s, o, tryRewards)
		},
		Annotations: saves, // ends the processes of commands when it is interrupted
	}
	cf.add(c, config.Names(), keys)
	c.Flags().StringVar(&o.samples, "samples", "", "completions: a JSONL `file`, such as the samples.jsonl of a run "+
		"(\"-\" = standard input)")
	countVar(c.Flags(), &o.n, "n", 0, 0, maxCount,
		"number of problems to make completions from, or of completions of the file (0 = 2 problems, all completions)")
	addJSON(c, &o.json)
	return c
}

func tryRewards(ctx context.Context, s *State, o *rewardTryOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	p := newProgress(s, false)
	note := func(text string) { p.line("%s", textutil.Lines(text)) }
	t, err := infer.TryRewards(ctx, infer.Options{Config: l.Config, Note: note, Progress: p.Doing}, o.samples, s.In, o.n)
	p.done()
	if errors.Is(err, context.Canceled) {
		return errStopped
	}
	if err != nil {
		return missingInput(err)
	}
	if o.json {
		return printJSON(s.Out, t)
	}
	columns := map[string]bool{}
	for _, c := range t.Completions {
		for name := range c.Columns {
			columns[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(columns))
	w := newTable(s.Out)
	line := func(cells ...string) {
		textutil.Fprintf(w, "%s", cells[0])
		for _, c := range cells[1:] {
			textutil.Fprintf(w, "\t%s", c)
		}
		fmt.Fprintln(w)
	}
	head := append([]string{"problem", "kind", "completion", "tokens"}, t.Functions...)
	line(append(append(head, "reward"), names...)...)
	for _, c := range t.Completions {
		row := []string{c.Problem, c.Kind, fmt.Sprintf("%q", textutil.Cut(c.Completion, 40)), fmt.Sprint(c.Tokens)}
		for _, r := range append(slices.Clone(c.Rewards), c.Reward) {
			text := "null"
			if r != nil {
				text = textutil.Rounded(*r)
			}
			row = append(row, text)
		}
		for _, name := range names {
			row = append(row, cell(c.Columns[name]))
		}
		line(row...)
	}
	return w.Flush()
}

// cell writes a value of a column.
func cell(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case float64:
		return textutil.Rounded(x)
	}
	text, _ := json.Marshal(v) // a string
	return textutil.Cut(string(text), 40)
}
