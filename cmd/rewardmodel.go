package cmd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/supervised"
)

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
	}{{"training, last steps", rec.Pairs, &rec.Train}, {"held out, before", rec.EvalPairs, rec.Initial}, {"held out", rec.EvalPairs, rec.Eval}} {
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
	_, err := textutil.Fprintf(s.Out, "reward model: %s (sha256 of the numbers %s)\n", filepath.Join(dir, rec.Model), rec.Weights)
	return err
}
