package cmd

import (
	"context"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/train"
)

var sftKeys = []keyFlag{{"seed", "seed", "uint", "seed of weights, corpora and batch order"}, deviceKey}

// sftOptions are the inputs of `grpo sft`.
type sftOptions struct {
	state   *State
	cfg     config.SFT
	dir     string
	threads int
	json    bool
	quiet   bool
}

func newSFT(s *State) *cobra.Command {
	var cf configFlags
	var of outFlags
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
			r, err := config.LoadSFT(cf.options(cmd, s, sftKeys))
			if err != nil {
				return err
			}
			o := &sftOptions{state: s, cfg: r.Config, threads: of.threads, json: of.json, quiet: of.quiet}
			if o.dir, err = of.resolve("sft", config.Hash(r.Config)); err != nil {
				return err
			}
			return runSFT(cmd.Context(), o)
		},
		Annotations: saves,
	}
	cf.add(c, config.NamesSFT())
	addKeyFlags(c, sftKeys)
	of.add(c.Flags())
	return c
}

func runSFT(ctx context.Context, o *sftOptions) error {
	s := o.state
	p := newProgress(s, o.quiet)
	p.line("run folder %s", o.dir)
	rec, err := train.RunSFT(ctx, o.cfg, train.SFTOptions{Dir: o.dir, Threads: o.threads, Observer: p, Memory: s.checkMemory})
	p.done()
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, rec)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
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
	_, err = textutil.Fprintf(s.Out, "weights: %s (sha256 of the numbers %s)\n", filepath.Join(o.dir, train.SFTModelFile), rec.Weights)
	return err
}
