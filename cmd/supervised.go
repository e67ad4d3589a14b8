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
checkpoint; "sft-smollm2" trains a Llama or Qwen model on worked answers of
generated problems, and "sft-gsm8k" one on those of GSM8K.

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

var rewardModelKeys = []keyFlag{
	{"pairs", "pairs", "file", "preference pairs to train on"},
	{"eval-pairs", "eval_pairs", "file", "held-out pairs; without it a share of the prompts is held out"},
	{"seed", "seed", "uint", "seed of the batches' order and of the held-out pairs"},
	{"lr", "learning_rate", "float", "learning rate"},
	{"epochs", "epochs", "int", "passes over the pairs"},
	{"skip-bad", "skip_bad", "bool", "skip and count lines that can't be trained on"},
	modelKey, deviceKey,
}

func newRewardModel(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "reward-model --pairs FILE",
		Short: "Train a reward model on preference pairs",
		Long: `Reward-model trains a network with one output, the reward of a completion, so that
chosen completions get higher rewards than rejected ones (Bradley-Terry). It starts
from the embedded base model or from --model, evaluates held-out pairs, and compares
the predicted preferences with those of the pairs: with pairs of "grpo data pairs",
those of the verifier.

The result is a reward function of "grpo train": reward.functions: [{model: DIR}].
A Llama or Qwen network is also a Hugging Face folder, DIR/model, which transformers
loads as a network for sequence classification with one label.

Run the same command again to show the record of a finished run; an unfinished one
starts over.`,
		Example: `  grpo data pairs --out pairs.jsonl
  grpo reward-model --pairs pairs.jsonl --out judge
  grpo reward-model --pairs pairs.jsonl --eval-pairs heldout.jsonl --set center_rewards_coefficient=0.01
  grpo reward-model --pairs chat.jsonl --model SmolLM2-135M-Instruct.Q4_1.gguf --out judge-smollm2`,
		Args: takes("no argument (the pairs are --pairs)", 0, 0),
	}
	return records(c, s, config.NamesRewardModel(), rewardModelKeys, runRewardModel)
}

func runRewardModel(ctx context.Context, s *State, o *recordOptions) error {
	run := func(cfg config.RewardModel, dir string, p *progress) (*supervised.RewardModelRecord, error) {
		return supervised.RunRewardModel(ctx, cfg, supervised.Options[supervised.RewardModelStep]{
			Dir: dir, Threads: o.out.threads, Step: p.RewardModelStep, Note: p.Note, Memory: s.checkMemory, Progress: p.Doing})
	}
	return trainToRecord(s, o, "reward-model", config.LoadRewardModel, run, printRewardModel)
}

func printRewardModel(s *State, dir string, rec *supervised.RewardModelRecord) error {
	w := newTable(s.Out)
	fmt.Fprintln(w, "pairs\tnumber\tloss\taccuracy\tmargin\tmean reward\tmin reward\tmax reward")
	for _, row := range []struct {
		name string
		n    int
		m    *supervised.RewardMetrics
	}{
		{"training, last steps", rec.Pairs, &rec.Train},
		{"held out, before", rec.EvalPairs, rec.Initial},
		{"held out", rec.EvalPairs, rec.Eval},
	} {
		if row.m != nil {
			textutil.Fprintf(w, "%s\t%d\t%.4f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n", row.name, row.n,
				row.m.Loss, row.m.Accuracy, row.m.Margin, row.m.MeanReward, row.m.MinReward, row.m.MaxReward)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if c := rec.Calibration; c != nil {
		textutil.Fprintf(s.Out, "\nheld-out preferences: Brier score %.4f, expected calibration error %.4f\n", c.Brier, c.ECE)
		fmt.Fprintln(w, "predicted probability\tpairs\tmean predicted\tobserved share")
		for _, b := range c.Bins {
			predicted, observed := analysis.Absent, analysis.Absent
			if b.Pairs > 0 {
				predicted, observed = analysis.Decimals(*b.Predicted, 3), analysis.Decimals(*b.Observed, 3)
			}
			textutil.Fprintf(w, "%.1f to %.1f\t%d\t%s\t%s\n", b.Low, b.High, b.Pairs, predicted, observed)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := textutil.Fprintf(s.Out, "reward model: %s (sha256 of the numbers %s)\n",
		filepath.Join(dir, rec.Model), rec.Weights)
	return err
}
