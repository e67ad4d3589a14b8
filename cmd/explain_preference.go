package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grpo/pkg/explain"
	"grpo/pkg/rl"
)

func newExplainDPO(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "dpo",
		Short: "The loss of preference pairs: rewards, margins and gradients; plots a figure with --out",
		Long: `Dpo computes the loss of preference pairs from the log-probabilities of their tokens
under the policy and the reference: log-ratios, implicit rewards, margins, the loss
and its gradient, and the same pairs under every loss. Options have TRL's names.

Each of the four rows is given once for each pair. "grpo explain logprobs --json"
prints the log-probabilities of a completion under a checkpoint.`,
		Example: `  grpo explain dpo
  grpo explain dpo --loss-type sigmoid,sft --loss-weights 1,0.5 --beta 0.5
  grpo explain dpo --chosen -1.2,-0.4 --ref-chosen -1.5,-0.4 --rejected -0.9 --ref-rejected -0.6 --json`,
	}
	opts := worked(s, c, explain.DefaultDPO(), explain.DPO)
	o, f := &opts.numbers, c.Flags()
	const row = "log-probabilities of the %s completion's tokens under the %s, `floats` such as -0.1,-2.5 (repeat for each pair)"
	for _, r := range []struct {
		name, completion, model string
		to                      *[][]float64
	}{
		{"chosen", "chosen", "policy", &o.Chosen}, {"ref-chosen", "chosen", "reference", &o.RefChosen},
		{"rejected", "rejected", "policy", &o.Rejected}, {"ref-rejected", "rejected", "reference", &o.RefRejected},
	} {
		rowVar(f, r.to, r.name, fmt.Sprintf(row, r.completion, r.model))
	}
	preferenceVars(c, f, &o.Config)
	hasFigure(c, &opts.out)
	return c
}

// preferenceVars adds the flags of the loss.
func preferenceVars(c *cobra.Command, f *pflag.FlagSet, cfg *rl.PreferenceConfig) {
	listVar(f, &cfg.Losses, "loss-type", "`names` of the losses: "+strings.Join(rl.PreferenceLosses(), ", ")+" (default sigmoid)",
		func(text string) (list []rl.PreferenceLoss, err error) {
			for name := range strings.SplitSeq(text, ",") {
				list = append(list, rl.PreferenceLoss(name))
			}
			return list, nil
		})
	listVar(f, &cfg.Weights, "loss-weights", "weight of each loss, as comma-separated `floats` (default 1 each)", parseRow)
	f.Float64Var(&cfg.Beta, "beta", cfg.Beta, "factor of the log-ratios in the rewards")
	f.Float64Var(&cfg.LabelSmoothing, "label-smoothing", 0, "probability of a wrong label, for exo_pair, robust, aot and aot_unpaired")
	f.StringVar(&cfg.Divergence, "f-divergence-type", cfg.Divergence, "`name` of the divergence: "+strings.Join(rl.Divergences(), ", "))
	f.Float64Var(&cfg.AlphaCoef, "f-alpha-divergence-coef", cfg.AlphaCoef, "alpha of alpha_divergence")
	f.Float64Var(&cfg.LDAlpha, "ld-alpha", cfg.LDAlpha, "weight of the tokens beyond the shorter completion's length (1 = off)")
	f.Float64Var(&cfg.DiscoPOPTau, "discopop-tau", 0, "temperature of discopop (0 = 0.05)")
	complete(c, "loss-type", rl.PreferenceLosses, cobra.ShellCompDirectiveNoFileComp)
	complete(c, "f-divergence-type", rl.Divergences, cobra.ShellCompDirectiveNoFileComp)
}

func newExplainRewardModel(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "reward-model",
		Short: "The Bradley-Terry loss of a reward model's scores, with margin and centering",
		Example: `  grpo explain reward-model
  grpo explain reward-model --chosen 1.2,0.3 --rejected 0.4,0.9 --margin 0.5,0 --centering 0 --json`,
	}
	o := &worked(s, c, explain.DefaultRewardModel(), explain.RewardModel).numbers
	f := c.Flags()
	f.Float64SliceVar(&o.Chosen, "chosen", o.Chosen, "scores of the chosen completions, as comma-separated `floats`")
	f.Float64SliceVar(&o.Rejected, "rejected", o.Rejected, "scores of the rejected completions, as comma-separated `floats`")
	listVar(f, &o.Margins, "margin", "margin of each pair, as comma-separated `floats` (default 0 each)", parseRow)
	f.Float64Var(&o.Centering, "centering", o.Centering, "center_rewards_coefficient: weight of the squared sum of a pair's scores")
	return c
}
