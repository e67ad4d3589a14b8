package cmd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/supervised"
)

var sftKeys = []keyFlag{
	{"seed", "seed", "uint", "seed of weights, corpora and batch order"}, modelKey, deviceKey,
}

func newSFT(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "sft",
		Short: "Train a base model in supervised stages",
		Long: `Sft trains a base model with supervised learning. The first stage teaches the
capability; the second, on a corpus of mixed quality, makes the model use it
rarely. GRPO then recovers it and teaches no new arithmetic. "make base" rebuilds
the embedded base model this way, bit for bit. With --model it continues from a
checkpoint; "sft-smollm2" trains a Llama or Qwen model on worked answers.

Run the same command again to show the record of a finished run; an unfinished
one starts over. A different recipe in the same folder is an error.`,
		Example: `  grpo sft --out my-base
  grpo sft --seed 2 --out other-base && grpo train --set model.init=other-base/model.safetensors
  grpo sft --set stages.1.steps=600 --out short-base
  grpo sft -c sft-smollm2 --model SmolLM2-135M-Instruct.gguf --out taught`,
	}
	return records(c, s, config.NamesSFT(), sftKeys, runSFT)
}

func runSFT(ctx context.Context, s *State, o *recordOptions) error {
	run := func(cfg config.SFT, dir string, p *progress) (*supervised.SFTRecord, error) {
		return supervised.RunSFT(ctx, cfg, supervised.Options[supervised.SFTStep]{
			Dir: dir, Threads: o.out.threads, Step: p.SFTStep, Note: p.Note, Memory: s.checkMemory, Progress: p.Doing})
	}
	return trainToRecord(s, o, "sft", config.LoadSFT, run, printSFT)
}

func printSFT(s *State, dir string, rec *supervised.SFTRecord) error {
	w := newTable(s.Out)
	fmt.Fprintln(w, "stage\tsteps\tmean loss\tcorpus accuracy\tval sampled\tval greedy\tunseen sampled\tunseen greedy")
	if e := rec.Initial; e != nil {
		textutil.Fprintf(w, "(before)\t0\tn/a\tn/a\t%.3f\t%.3f\tn/a\tn/a\n",
			e.Sampled.AnswerReward, e.Greedy.AnswerReward)
	}
	for _, st := range rec.Stages {
		sampled, greedy := analysis.Absent, analysis.Absent
		if st.Unseen.Greedy != nil {
			sampled = analysis.Decimals(st.Unseen.Sampled.AnswerReward, 3)
			greedy = analysis.Decimals(st.Unseen.Greedy.AnswerReward, 3)
		}
		textutil.Fprintf(w, "%s\t%d\t%.4f\t%.3f\t%.3f\t%.3f\t%s\t%s\n", st.Name, st.Steps, st.Loss, st.AnswerReward,
			st.Validation.Sampled.AnswerReward, st.Validation.Greedy.AnswerReward, sampled, greedy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := textutil.Fprintf(s.Out, "weights: %s (sha256 of the numbers %s)\n",
		filepath.Join(dir, rundir.ModelFile), rec.Weights)
	return err
}

// recordOptions are the inputs of a command whose result is a record: `grpo sft` and
// `grpo reward-model`.
type recordOptions struct {
	load config.LoadOptions
	out  outFlags
}

// records completes a command whose result is a record: names are those of its embedded configurations,
// and keys have flags of their own.
func records(c *cobra.Command, s *State, names []string, keys []keyFlag,
	do func(context.Context, *State, *recordOptions) error) *cobra.Command {
	o := &recordOptions{}
	var cf configFlags
	c.Annotations = saves
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o.load = cf.options(cmd, s)
		return run(cmd, s, o, do)
	}
	cf.add(c, names, keys)
	o.out.add(c.Flags())
	return c
}

// trainToRecord loads the configuration of such a command, runs it in its folder, and shows the record.
func trainToRecord[C config.Root, R any](s *State, o *recordOptions, command string,
	load func(config.LoadOptions) (*config.Loaded[C], error), run func(cfg C, dir string, p *progress) (*R, error),
	show func(s *State, dir string, rec *R) error) error {
	r, err := load(o.load)
	if err != nil {
		return err
	}
	dir, err := o.out.resolve(command, config.Hash(r.Config))
	if err != nil {
		return err
	}
	p := newProgress(s, o.out.quiet)
	p.headline("run folder %s", dir)
	rec, err := run(r.Config, dir, p)
	p.done()
	if err != nil {
		return err
	}
	if o.out.json {
		return printJSON(s.Out, rec)
	}
	return show(s, dir, rec)
}
