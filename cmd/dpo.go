package cmd

import (
	"github.com/spf13/cobra"

	"grpo/pkg/config"
)

// dpoKeys are the keys with flags of their own.
var dpoKeys = append([]keyFlag{
	{"pairs", "algorithm.dpo.pairs_file", "file", "train on the pairs in this JSONL file instead of rollouts"},
	{"eval-pairs", "algorithm.dpo.eval_pairs_file", "file", "score the held-out pairs in this file with each evaluation"},
	onlineKey,
	{"beta", "algorithm.dpo.beta", "float", "scale of the log-ratio to the reference model"},
	{"loss-type", "algorithm.dpo.loss_type", "names", "loss, or several joined by commas"},
}, trainKeys...)

// onlineKey needs no value: it is then 1.
var onlineKey = keyFlag{"online", "rollout.resample_every_n_steps", "k",
	"sample from the current policy, renewed every k steps (1 without =k), instead of the initial one"}

func newDPO(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "dpo",
		Short: "Train a policy on preference pairs",
		Long: `Dpo trains one run by direct preference optimization: on pairs of completions of a
prompt, of which one is preferred, with the losses of TRL's DPOTrainer. It is "grpo
train" with the configuration "dpo", and everything else works as there: the folder,
--resume, evaluation by the verifier, reports, sweeps.

Without --pairs, each step samples groups of completions, grades them, and pairs
right with wrong ones (algorithm.dpo.pairs). The initial policy samples, which is
offline training on as many samples as GRPO takes; with --online the current policy
samples, or with --online=k a copy of it that is renewed every k steps.

With --pairs, the pairs are those of a JSONL file: "grpo data pairs" writes one, and
docs/dpo.md describes it. Their log-probabilities under the reference model, the
initial weights, are computed once and kept in the run's folder.`,
		Example: `  grpo dpo
  grpo dpo --online
  grpo dpo --online=4 --loss-type ipo --beta 0.05
  grpo data pairs --out pairs.jsonl && grpo dpo --pairs pairs.jsonl
  grpo dpo -c dpo -c smoke
  grpo dpo -c dpo-smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf
  grpo dpo --resume results/dpo-1a2b3c4d`,
	}
	c = trains(c, s, dpoKeys, func(load *config.LoadOptions) error {
		if load.Path == "" {
			load.Path = "dpo"
		}
		if !c.Flags().Changed("pairs") {
			return nil
		}
		if c.Flags().Changed("online") {
			return usagef(c, "--pairs trains on the pairs of a file and samples nothing; it can't be combined with --online")
		}
		// The configuration "dpo" sets this key to 0, which is refused with pairs of a file: 1 is the default.
		load.Flags = append(load.Flags, config.Flag{Key: onlineKey.key, Name: "--pairs", Value: "1"})
		return nil
	})
	c.Flags().Lookup(onlineKey.flag).NoOptDefVal = "1"
	return c
}
