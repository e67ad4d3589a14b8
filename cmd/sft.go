package cmd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/train"
)

var sftKeys = []keyFlag{{"seed", "seed", "uint", "seed of weights, corpora and batch order"}, deviceKey}

// sftOptions are the inputs of `grpo sft`.
type sftOptions struct {
	load config.LoadOptions
	out  outFlags
}

func newSFT(s *State) *cobra.Command {
	o := &sftOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use:   "sft",
		Short: "Train a base model in supervised stages",
		Long: `Sft trains a base model with supervised learning. The first stage teaches the
capability; the second, on a corpus of mixed quality, makes the model use it
rarely. GRPO then recovers it and teaches no new arithmetic. "make base" rebuilds
the embedded base model this way, bit for bit.

Run the same command again to show the record of a finished run; an unfinished
one starts over. A different recipe in the same folder is an error.`,
		Example: `  grpo sft --out my-base
  grpo sft --seed 2 --out other-base && grpo train --set model.init=other-base/model.safetensors
  grpo sft --set stages.1.steps=600 --out short-base`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.options(cmd, s, sftKeys)
			return run(cmd, s, o, runSFT)
		},
		Annotations: saves,
	}
	cf.add(c, config.NamesSFT())
	addKeyFlags(c, sftKeys)
	o.out.add(c.Flags())
	return c
}

func runSFT(ctx context.Context, s *State, o *sftOptions) error {
	r, err := config.LoadSFT(o.load)
	if err != nil {
		return err
	}
	dir, err := o.out.resolve("sft", config.Hash(r.Config))
	if err != nil {
		return err
	}
	p := newProgress(s, o.out.quiet)
	p.line("run folder %s", dir)
	opts := train.SFTOptions{Dir: dir, Threads: o.out.threads, Observer: p, Memory: s.checkMemory}
	rec, err := train.RunSFT(ctx, r.Config, opts)
	p.done()
	if err != nil {
		return err
	}
	if o.out.json {
		return printJSON(s.Out, rec)
	}
	w := newTable(s.Out)
	fmt.Fprintln(w, "stage\tsteps\tloss\tcorpus accuracy\tval sampled\tval greedy\tunseen sampled\tunseen greedy")
	for _, st := range rec.Stages {
		unseen := "n/a\tn/a"
		if st.Unseen.Greedy != nil {
			unseen = fmt.Sprintf("%.3f\t%.3f", st.Unseen.Sampled.AnswerReward, st.Unseen.Greedy.AnswerReward)
		}
		textutil.Fprintf(w, "%s\t%d\t%.4f\t%.3f\t%.3f\t%.3f\t%s\n", st.Name, st.Steps, st.Loss, st.AnswerReward,
			st.Validation.Sampled.AnswerReward, st.Validation.Greedy.AnswerReward, unseen)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = textutil.Fprintf(s.Out, "weights: %s (sha256 of the numbers %s)\n",
		filepath.Join(dir, train.SFTModelFile), rec.Weights)
	return err
}
