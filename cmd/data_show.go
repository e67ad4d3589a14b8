package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/infer"
)

// dataShowOptions are the inputs of `grpo data show`.
type dataShowOptions struct {
	load   config.LoadOptions
	split  string
	n      int
	tokens bool
	json   bool
}

var dataShowKeys = []keyFlag{modelKey, skipBad}

func newDataShow(s *State) *cobra.Command {
	o := &dataShowOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the prompts that the model gets, with their lengths in tokens",
		Long: `Show prints the first prompts of a split as the model gets them: the prompt template
or the model's own chat template, the system prompt, the worked examples and the
question, with special tokens. It counts the tokens of every prompt of the
configuration and says whether they fit in the model's context together with the
longest completion, which tokens end a completion, and which one is put after an
answer to train on. It reads the tokenizer, not the weights.`,
		Example: `  grpo data show
  grpo data show -c smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf -n 1
  grpo data show -c smollm2 --model DIR --set data.few_shot_file=examples.jsonl --split val --tokens`,
		Args: takes("no argument", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.options(cmd, s)
			if !slices.Contains(evalSplits, o.split) {
				return unknownSplit(cmd, o.split)
			}
			return run(cmd, s, o, showPrompts)
		},
	}
	cf.add(c, config.Names(), dataShowKeys)
	c.Flags().StringVar(&o.split, "split", "train", "split: `train|val|test|unseen`")
	o.n = 1
	c.Flags().VarP(&countFlag{&o.n, 0, maxCount}, "n", "n", "number of prompts to show")
	c.Flags().BoolVar(&o.tokens, "tokens", false, "also list the tokens of each prompt")
	addJSON(c, &o.json)
	complete(c, "split", func() []string { return evalSplits }, cobra.ShellCompDirectiveNoFileComp)
	return c
}

func showPrompts(_ context.Context, s *State, o *dataShowOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	p, err := infer.ShowPrompts(l.Config, o.split, o.n)
	if err != nil {
		return missingInput(err)
	}
	if o.json {
		return printJSON(s.Out, p)
	}
	for _, x := range p.Shown {
		textutil.Fprintf(s.Out, "%s %s, %s:\n", p.Split, x.ID, textutil.Count(x.Count, "token"))
		for line := range strings.SplitSeq(x.Text, "\n") {
			textutil.Fprintf(s.Out, "  | %s\n", line)
		}
		if o.tokens {
			w := newTable(s.Out)
			textutil.Fprintf(w, "\nid\ttoken\n")
			for i, id := range x.IDs {
				textutil.Fprintf(w, "%d\t%s\n", id, tokenText(x.Tokens[i], slices.Contains(x.Special, i)))
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	w := newTable(s.Out)
	textutil.Fprintf(w, "\nprompt template\t%s, %s\n", p.Template, textutil.Count(p.FewShot, "worked example"))
	textutil.Fprintf(w, "context\t%s\n", contextText(p.Context))
	for _, row := range p.Special.Rows() {
		textutil.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	textutil.Fprintf(w, "\n")
	textutil.Fprintf(w, "prompt tokens\tproblems\tmin\tp50\tp90\tp99\tmax\tcompletion\ttoo long\n")
	for _, l := range p.Lengths {
		textutil.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\tup to %d\t%d\n",
			l.Split, l.Problems, l.Min, l.P50, l.P90, l.P99, l.Max, l.NewTokens, l.TooLong)
	}
	if err := w.Flush(); err != nil || p.Problem == "" {
		return err
	}
	_, err = textutil.Fprintf(s.Out, "\nnot all prompts fit: %s\n", p.Problem)
	return err
}

func contextText(n int) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d tokens", n)
}

// tokenText shows a token: a special one by its name, another one quoted.
func tokenText(text string, special bool) string {
	if special {
		return text
	}
	return fmt.Sprintf("%q", text)
}
