package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"grpo/internal/yamldoc"
	"grpo/pkg/rl"
)

// DPO trains on pairs of completions of a prompt, of which one is preferred. The reference policy is
// the run's initial weights. Names up to DiscoPOPTau are those of TRL's DPOConfig; see
// [rl.PreferenceConfig].
type DPO struct {
	LossType             []string  `yaml:"loss_type" neutral:"[sigmoid]"` // their sum, by LossWeights
	LossWeights          []float64 `yaml:"loss_weights" neutral:"[]"`     // empty = all 1
	Beta                 float64   `yaml:"beta" neutral:"0.1"`
	LabelSmoothing       float64   `yaml:"label_smoothing" neutral:"0"`
	FDivergenceType      string    `yaml:"f_divergence_type" neutral:"reverse_kl"`
	FAlphaDivergenceCoef float64   `yaml:"f_alpha_divergence_coef" neutral:"0.5"`
	LDAlpha              float64   `yaml:"ld_alpha" neutral:"1"`
	UseWeighting         bool      `yaml:"use_weighting" neutral:"false"`
	DiscoPOPTau          float64   `yaml:"discopop_tau" neutral:"0.05"`

	// Pairs is the rule that makes pairs of a group's completions, one of [rl.PairRules], and
	// PairsPerGroup the most of them (0 = all that the rule allows).
	Pairs         string `yaml:"pairs" neutral:"right_wrong"`
	PairsPerGroup int    `yaml:"pairs_per_group" neutral:"0"`
	// PairsFile has the pairs of the whole run, in place of rollouts. The pairs in EvalPairsFile are
	// scored with each evaluation.
	PairsFile     string `yaml:"pairs_file" neutral:""`
	EvalPairsFile string `yaml:"eval_pairs_file" neutral:""`
}

// Preference returns the loss of pairs.
func (d DPO) Preference() rl.PreferenceConfig {
	c := rl.PreferenceConfig{
		Beta: d.Beta, LabelSmoothing: d.LabelSmoothing, Divergence: d.FDivergenceType,
		AlphaCoef: d.FAlphaDivergenceCoef, LDAlpha: d.LDAlpha, Weighting: d.UseWeighting,
	}
	for _, l := range d.LossType {
		c.Losses = append(c.Losses, rl.PreferenceLoss(l))
	}
	if slices.Contains(d.LossType, string(rl.DPODiscoPOP)) {
		c.DiscoPOPTau = d.DiscoPOPTau
	}
	if len(d.LossWeights) > 0 {
		c.Weights = d.LossWeights
	}
	return c
}

// Rule returns how pairs are made of rollouts.
func (d DPO) Rule() rl.PairOptions {
	return rl.PairOptions{Rule: rl.PairRule(d.Pairs), PerGroup: d.PairsPerGroup}
}

// FromFile reports whether the run trains on pairs of a file.
func (a Algorithm) FromFile() bool { return a.Type == "dpo" && a.DPO.PairsFile != "" }

// shortForms replaces the short forms of a file: a single name in algorithm.dpo.loss_type, and
// [inlineRewards].
func shortForms(d *yamldoc.Document, root *yaml.Node) {
	if n := valueOf(valueOf(valueOf(root, "algorithm"), "dpo"), "loss_type"); n != nil && n.Kind == yaml.ScalarNode {
		name := *n
		*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Content: []*yaml.Node{&name}}
	}
	inlineRewards(d, root)
}
