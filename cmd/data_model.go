package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/preference"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
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
			return run(cmd, s, o, showPrompts)
		},
	}
	cf.add(c, config.Names(), dataShowKeys)
	addSplit(c, &o.split, "train", "split")
	countVar(c.Flags(), &o.n, "n", 1, 0, maxCount, "number of prompts to show")
	c.Flags().BoolVar(&o.tokens, "tokens", false, "also list the tokens of each prompt")
	addJSON(c, &o.json)
	return c
}

func showPrompts(_ context.Context, s *State, o *dataShowOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	p, err := infer.ShowPrompts(infer.Options{Config: l.Config, Note: noteTo(s)}, o.split, o.n)
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
				text := x.Tokens[i]
				if !slices.Contains(x.Special, i) { // which are shown by their names
					text = fmt.Sprintf("%q", text)
				}
				textutil.Fprintf(w, "%d\t%s\n", id, text)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	w := newTable(s.Out)
	textutil.Fprintf(w, "\nprompt template\t%s, %s\n", p.Template, textutil.Count(p.FewShot, "worked example"))
	limit := "no limit"
	if p.Context != 0 {
		limit = fmt.Sprintf("%d tokens", p.Context)
	}
	textutil.Fprintf(w, "context\t%s\n", limit)
	for _, row := range p.Special.Rows() {
		textutil.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	for _, text := range p.Stop {
		textutil.Fprintf(w, "text that ends one\t\"%s\"\n", text)
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

// dataPairsOptions are the inputs of `grpo data pairs`.
type dataPairsOptions struct {
	load  config.LoadOptions
	make  infer.PairOptions
	out   string
	json  bool
	quiet bool
}

var dataPairsKeys = []keyFlag{
	{"seed", "seed", "uint", "seed of the problems' order and of sampling"},
	{"group-size", "rollout.group_size", "int", "completions of each problem"},
	{"temperature", "rollout.sampling_temperature", "float", "sampling temperature"},
	modelKey, deviceKey, skipBad,
}

func newDataPairs(s *State) *cobra.Command {
	o := &dataPairsOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use:   "pairs --out FILE",
		Short: "Sample a model, grade its completions and write preference pairs",
		Long: `Pairs samples a group of completions of each problem, computes their rewards with the
configuration's reward functions (by default: is the answer right?) and writes
preference pairs as JSONL, for "grpo dpo --pairs" and "grpo reward-model". The
settings of sampling are those of the section rollout; --model may be a run, whose
configuration is then used. The same configuration and seed give the same file.

--pairs says which completions of a group form pairs: right_wrong pairs right with
wrong ones in their order, length_controlled those of similar length, best_worst the
highest reward with the lowest. A group without a pair is counted.`,
		Example: `  grpo data pairs --out pairs.jsonl
  grpo data pairs --model results/train-1a2b3c4d --n 500 --out after.jsonl
  grpo data pairs --split val --pairs length_controlled --per-group 1 --out heldout.jsonl
  grpo data pairs -c smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf --n 64 --out smollm2.jsonl`,
		Args: takes("no argument (the file is --out)", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.optionsOfRun(cmd, s)
			if o.out == "" {
				return usagef(cmd, "data pairs needs --out FILE")
			}
			if err := o.make.Pairs.Check(); err != nil {
				return usagef(cmd, "--pairs, --per-group: %v", err)
			}
			o.load.Only = o.make.Split
			return run(cmd, s, o, makePairs)
		},
		Annotations: saves, // ends the processes of commands when it is interrupted
	}
	cf.add(c, config.Names(), dataPairsKeys)
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "`file` to write, which must not exist")
	addSplit(c, &o.make.Split, "train", "problems of this split")
	countVar(f, &o.make.Groups, "n", 0, 0, maxCount,
		"number of groups, one for each problem drawn (0 = every problem once)")
	choiceVar(c, (*string)(&o.make.Pairs.Rule), "pairs", string(rl.PairRightWrong), "rule", rl.PairRules(),
		"pairs of a group: `right_wrong|best_worst|length_controlled`")
	countVar(f, &o.make.Pairs.PerGroup, "per-group", 0, 0, maxCount, "most pairs of a group (0 = all)")
	addThreads(f, &o.make.Threads, "; does not affect the pairs")
	addJSON(c, &o.json)
	addQuiet(f, &o.quiet)
	return c
}

func makePairs(ctx context.Context, s *State, o *dataPairsOptions) error {
	l, err := config.Load(o.load)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(o.out); err == nil {
		return fmt.Errorf("%w: write pairs: %s exists; remove it, or use another --out", config.ErrConfig, o.out)
	}
	if err := rundir.Writable(o.out); err != nil {
		return fmt.Errorf("%w: write pairs: %w; use another --out", config.ErrConfig, err)
	}
	p := newProgress(s, o.quiet)
	o.make.Config, o.make.Memory, o.make.Note, o.make.Progress = l.Config, s.checkMemory, p.Note, p.Doing
	pairs, made, err := infer.MakePairs(ctx, o.make)
	p.done()
	switch {
	case errors.Is(err, context.Canceled):
		return errStopped
	case err != nil:
		return missingInput(err)
	case len(pairs) == 0:
		return fmt.Errorf("make pairs: none of %s has a pair: %d all right, %d all wrong, %d without two rewards, "+
			"%d with pairs that can't be written%s "+
			"(sample more groups with --n, larger ones with --group-size, or another model)",
			textutil.Count(made.Groups, "group"), made.AllRight, made.AllWrong, made.Unscored, made.OnlyDropped,
			firstDropped(made))
	}
	var b bytes.Buffer
	if err := preference.Write(&b, pairs); err != nil {
		return err
	}
	if err := rundir.MkdirAll(filepath.Dir(o.out)); err != nil {
		return fmt.Errorf("write pairs: %w", err)
	}
	if err := rundir.WriteFileAtomic(o.out, b.Bytes()); err != nil {
		return err
	}
	made.File = o.out
	if o.json {
		return printJSON(s.Out, made)
	}
	return printPairs(s, made)
}

// firstDropped is the reason of the first pair left out.
func firstDropped(m *infer.PairsMade) string {
	if m.FirstBad == "" {
		return ""
	}
	return " (" + m.FirstBad + ")"
}

func printPairs(s *State, m *infer.PairsMade) error {
	w := newTable(s.Out)
	textutil.Fprintf(w, "groups\t%d of %s, %.3f of which have a reward above 0\n",
		m.Groups, textutil.Count(m.GroupSize, "completion"), m.AboveZero)
	textutil.Fprintf(w, "groups with a pair\t%d\n", m.Paired)
	for _, l := range []struct {
		name string
		n    int
	}{
		{"all right", m.AllRight}, {"all wrong", m.AllWrong},
		{"without two rewards", m.Unscored}, {"only dropped pairs", m.OnlyDropped},
	} {
		if l.n > 0 {
			textutil.Fprintf(w, "  without: %s\t%d\n", l.name, l.n)
		}
	}
	textutil.Fprintf(w, "pairs\t%d (%s)\n", m.Pairs, m.Rule)
	if m.Dropped > 0 {
		textutil.Fprintf(w, "pairs dropped\t%d%s\n", m.Dropped, firstDropped(m))
	}
	textutil.Fprintf(w, "mean difference of the rewards\t%s\n", analysis.Decimals(*m.Margin, 3))
	const length = "mean length of %s\t%.1f tokens, %d cut at the limit\n"
	textutil.Fprintf(w, length, "chosen", *m.ChosenLength, m.ChosenTruncated)
	textutil.Fprintf(w, length, "rejected", *m.RejectedLength, m.RejectedTruncated)
	if m.Retokenized > 0 {
		textutil.Fprintf(w, "completions whose text has other tokens than sampled\t%d\n", m.Retokenized)
	}
	textutil.Fprintf(w, "file\t%s\n", m.File)
	return w.Flush()
}
