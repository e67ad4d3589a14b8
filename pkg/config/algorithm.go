package config

import (
	"cmp"
	"slices"

	"grpo/pkg/rl"
)

// Algorithm is the mathematics of the update. Names are the assignment's, else TRL's, else verl's.
//
// An empty string, and a 0 where noted, means "derive it from the other keys": [Resolve] fills in
// the aggregation, the constant and the level, and [Algorithm.Advantages] returns the baseline and
// the normalizer.
type Algorithm struct {
	Type     string `yaml:"type" of:"grpo|ppo|dpo" neutral:"grpo"`
	LossType string `yaml:"loss_type" of:"losses" needs:"policy-loss"` // see [Algorithm.BaseLoss]
	// LossExpr takes the place of the policy term of LossType, and AdvantageExpr that of baseline and normalizer:
	// see formulas.go.
	LossExpr string `yaml:"loss_expr,omitempty" neutral:"" needs:"advantages"`

	// Baseline, Normalizer, ScaleRewards and UseStdNormalization are names of one choice: see [Algorithm.Advantages].
	// After [Resolve] UseStdNormalization agrees with Normalizer and ScaleRewards, if one of these is given.
	Baseline            rl.Baseline   `yaml:"baseline" of:"baselines|" neutral:"" needs:"advantages no-formula"`
	Normalizer          rl.Normalizer `yaml:"normalizer" of:"normalizers|" neutral:"" needs:"advantages no-formula"`
	ScaleRewards        string        `yaml:"scale_rewards" of:"group|batch|none|" neutral:"" needs:"advantages no-formula"`
	UseStdNormalization bool          `yaml:"use_std_normalization" needs:"advantages no-formula baseline"`
	AdvantageEps        float64       `yaml:"advantage_eps" in:"nonNegative" needs:"advantages no-formula eps"`
	PassK               bool          `yaml:"pass_k" neutral:"false" needs:"no-formula"`
	AdvantageExpr       string        `yaml:"advantage_expr,omitempty" neutral:"" needs:"group-advantages"`
	Gamma               float64       `yaml:"gamma" in:"share" neutral:"1" needs:"advantages"`

	Cliprange   float64 `yaml:"cliprange" in:"positive" needs:"loss.epsilon ratio"`
	EpsilonHigh float64 `yaml:"epsilon_high" in:"nonNegative" neutral:"0" needs:"loss.epsilon_high high-ratio"`
	Delta       float64 `yaml:"delta" in:"nonNegative" neutral:"0" needs:"loss.delta ratio"`
	DualClip    float64 `yaml:"dual_clip" in:"nonNegative" neutral:"0" needs:"loss.dual_clip ratio"`

	ImportanceSamplingLevel rl.ImportanceLevel `yaml:"importance_sampling_level" of:"levels|" neutral:"token" needs:"loss.level"`

	LengthNormalization rl.Aggregation `yaml:"length_normalization" of:"aggregations|" needs:"advantages"`
	NormalizeConstant   float64        `yaml:"normalize_constant" in:"nonNegative" needs:"advantages constant"`
	rl.LossParams

	Beta                float64        `yaml:"beta" in:"nonNegative" neutral:"0" needs:"kl"`
	KLEstimator         rl.KLEstimator `yaml:"kl_estimator" of:"kl-estimators" neutral:"k3" needs:"beta"`
	KLIn                string         `yaml:"kl_in" of:"loss|reward" neutral:"loss" needs:"beta"`
	UseBiasCorrectionKL bool           `yaml:"use_bias_correction_kl" neutral:"false" needs:"beta kl_in"`
	// After each RefModelSyncSteps steps (0 = never) the reference becomes
	// alpha * policy + (1 - alpha) * reference.
	RefModelSyncSteps  int     `yaml:"ref_model_sync_steps" in:"counterOrNone" neutral:"0" needs:"reference moves"`
	RefModelMixupAlpha float64 `yaml:"ref_model_mixup_alpha" in:"share" neutral:"0.6" needs:"sync moves"`

	// With UseAdaptiveEntropy, EntropyCoef is the initial coefficient, which then moves by EntropyCoefDelta a step
	// within its bounds to hold the entropy at EntropyTarget nats.
	EntropyCoef        float64 `yaml:"entropy_coef" in:"nonNegative" neutral:"0" needs:"advantages"`
	UseAdaptiveEntropy bool    `yaml:"use_adaptive_entropy" neutral:"false" needs:"advantages"`
	EntropyTarget      float64 `yaml:"entropy_target" in:"nonNegative" neutral:"0.2" needs:"adaptive-entropy"`
	EntropyCoefDelta   float64 `yaml:"entropy_coef_delta" in:"nonNegative" neutral:"0.005" needs:"adaptive-entropy"`
	EntropyCoefMin     float64 `yaml:"entropy_coef_min" in:"nonNegative" neutral:"0" needs:"adaptive-entropy"`
	EntropyCoefMax     float64 `yaml:"entropy_coef_max" in:"nonNegative" neutral:"1" needs:"adaptive-entropy"`

	TopEntropyQuantile     float64 `yaml:"top_entropy_quantile" in:"share" neutral:"1" needs:"advantages"`
	OffPolicyMask          bool    `yaml:"off_policy_mask" neutral:"false" needs:"advantages off-policy"`
	OffPolicyMaskThreshold float64 `yaml:"off_policy_mask_threshold" in:"nonNegative" neutral:"0" needs:"mask off-policy"`
	// Masked completions still count in their group's baseline.
	MaskTruncatedCompletions bool `yaml:"mask_truncated_completions" neutral:"false" needs:"advantages"`
	SkipFlatGroups           bool `yaml:"skip_flat_groups" neutral:"false" needs:"advantages"`
	DynamicSampling          bool `yaml:"dynamic_sampling" neutral:"false" needs:"sampling"`
	DynamicSamplingMaxRounds int  `yaml:"dynamic_sampling_max_rounds" in:"[1,1000]" neutral:"4" needs:"dynamic-sampling"`

	Teacher                    string  `yaml:"teacher" neutral:"" needs:"advantages"`
	TeacherGamma               float64 `yaml:"teacher_gamma" in:"fraction" neutral:"0" needs:"teacher"`
	TeacherLengthNormalization bool    `yaml:"teacher_length_normalization" neutral:"true" needs:"teacher teacher_gamma"`

	// ValueLearningRate and ValueEpochs 0 are those of the policy, which [Resolve] fills in.
	GAELambda         float64 `yaml:"gae_lambda" in:"fraction" neutral:"0.95" needs:"ppo"`
	ValueLearningRate float64 `yaml:"value_learning_rate" in:"nonNegative" neutral:"0" needs:"ppo"`
	ValueEpochs       int     `yaml:"value_epochs" in:"counterOrNone" neutral:"0" needs:"ppo"`
	ValueClip         float64 `yaml:"value_clip" in:"nonNegative" neutral:"0.2" needs:"ppo old-values"`

	DPO DPO `yaml:"dpo"`
}

// DPO trains on pairs of completions of a prompt, of which one is preferred. The reference policy is
// the run's initial weights. Names up to DiscoPOPTau are those of TRL's DPOConfig; see
// [rl.PreferenceConfig].
type DPO struct {
	// The loss is the sum of LossType, weighted by LossWeights (empty = all 1).
	LossType    []string  `yaml:"loss_type" of:"preference-losses" neutral:"[sigmoid]" needs:"dpo"`
	LossWeights []float64 `yaml:"loss_weights" in:"positive" neutral:"[]" needs:"dpo several-losses"`

	Beta           float64 `yaml:"beta" in:"positive" neutral:"0.1" needs:"dpo"`
	LabelSmoothing float64 `yaml:"label_smoothing" in:"[0,0.5)" neutral:"0" needs:"dpo dpo.label_smoothing"`

	FDivergenceType      string  `yaml:"f_divergence_type" of:"divergences" neutral:"reverse_kl" needs:"dpo dpo.f_divergence_type"`
	FAlphaDivergenceCoef float64 `yaml:"f_alpha_divergence_coef" in:"moderate" neutral:"0.5" needs:"dpo alpha-divergence"`

	LDAlpha      float64 `yaml:"ld_alpha" in:"fraction" neutral:"1" needs:"dpo dpo.ld_alpha"`
	UseWeighting bool    `yaml:"use_weighting" neutral:"false" needs:"dpo"`
	DiscoPOPTau  float64 `yaml:"discopop_tau" in:"positive" neutral:"0.05" needs:"dpo discopop"`

	Pairs         string `yaml:"pairs" of:"pair-rules" neutral:"right_wrong" needs:"dpo sampling"`
	PairsPerGroup int    `yaml:"pairs_per_group" in:"sizeOrNone" neutral:"0" needs:"dpo several-pairs sampling"`
	// PairsFile has the pairs of the whole run, in place of rollouts. The pairs in EvalPairsFile are
	// scored with each evaluation.
	PairsFile     string `yaml:"pairs_file" neutral:"" needs:"dpo"`
	EvalPairsFile string `yaml:"eval_pairs_file" neutral:"" needs:"dpo"`
}

// WhitenTokens is the normalizer rl.WhitenTokens, which whitens the advantages of
// all tokens of the batch.
const WhitenTokens rl.Normalizer = "whiten_tokens"

// Normalizers lists the values of algorithm.normalizer, apart from "": those of
// pkg/rl for completions, and whiten_tokens.
func Normalizers() []string { return append(rl.Normalizers(), string(WhitenTokens)) }

// recipe returns what the loss type means; the zero value for an unknown one.
func (a *Algorithm) recipe() rl.Recipe { return rl.RecipeNamed(a.LossType) }

// BaseLoss returns the loss that the loss type is built on: grpo_clip for TRL's dapo, itself for
// sapo. After [Resolve] the aggregation, the level, the constant and the dual clip are in their own
// keys.
func (a Algorithm) BaseLoss() rl.LossType { return a.recipe().Loss }

// Loss is the policy loss of a resolved configuration. The KL term is in it unless it is in the reward.
func (a Algorithm) Loss() rl.LossConfig {
	c := rl.LossConfig{
		Loss: a.BaseLoss(), Level: a.ImportanceSamplingLevel,
		Aggregation: a.LengthNormalization, NormalizeConstant: a.NormalizeConstant,
		Epsilon: a.Cliprange, EpsilonHigh: a.EpsilonHigh, Delta: a.Delta, DualClip: a.DualClip,
		LossParams:  a.LossParams,
		EntropyCoef: a.EntropyCoef, EntropyOverAll: a.recipe().EntropyOverAll,
		OffPolicyMask: a.OffPolicyMask, OffPolicyMaskThreshold: a.OffPolicyMaskThreshold,
	}
	if l, err := a.lossFormula(); err != nil {
		c.Loss = "" // so that nothing is computed of an invalid configuration
	} else if l != nil {
		c.Loss, c.Formula = "", l
	}
	if a.Beta != 0 && a.KLIn == "loss" {
		c.Beta, c.KL, c.KLBiasCorrection = a.Beta, a.KLEstimator, a.UseBiasCorrectionKL
	}
	return c
}

// Advantages returns the baseline and the normalizer, as given or derived from the other keys:
//
//	scale_rewards group, batch, none    group_mean with group_std, batch_std, none
//	no_baseline                         none, none
//	ppo                                 none, whiten_tokens (none without use_std_normalization)
//	else                                group_mean, group_std (none without use_std_normalization)
//
// Not used with pass_k, advantage_expr and normalize_then_sum, which define their own advantages.
func (a Algorithm) Advantages() (baseline rl.Baseline, normalizer rl.Normalizer) {
	baseline, normalizer = rl.BaselineGroupMean, rl.NormalizerNone
	switch {
	case a.BaseLoss() == rl.NoBaseline:
		baseline = rl.BaselineNone
	case a.ScaleRewards != "" && a.Type != "ppo":
		normalizer = a.scaleNormalizer()
	case a.UseStdNormalization:
		normalizer = a.stdNormalizer()
	}
	if a.Type == "ppo" {
		baseline = rl.BaselineNone
	}
	return cmp.Or(a.Baseline, baseline), cmp.Or(a.Normalizer, normalizer)
}

// scaleNormalizer is the normalizer that scale_rewards means.
func (a *Algorithm) scaleNormalizer() rl.Normalizer {
	opt, err := rl.ScaleRewards(a.ScaleRewards, 0)
	if err != nil {
		return rl.NormalizerNone
	}
	return opt.Normalizer
}

// stdNormalizer is the normalizer that use_std_normalization means.
func (a *Algorithm) stdNormalizer() rl.Normalizer {
	if a.Type == "ppo" {
		return WhitenTokens
	}
	return rl.NormalizerGroupStd
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
