package config

import (
	"cmp"

	"grpo/pkg/rl"
)

// Algorithm is the mathematics of the update. Names are the assignment's, else TRL's, else verl's.
//
// An empty string, and a 0 where noted, means "derive it from the other keys": [Resolve] fills in
// the aggregation, the constant and the level, and [Algorithm.Advantages] returns the baseline and
// the normalizer.
type Algorithm struct {
	// Type: "grpo" (the baseline is the group), "ppo" (the baseline is a critic's value head, with
	// generalized advantage estimation) or "dpo" (pairs of completions, see [DPO]).
	Type string `yaml:"type" neutral:"grpo"`
	// LossType is one of rl.RecipeNames; see [Algorithm.BaseLoss].
	LossType string `yaml:"loss_type"`

	// Baseline is one of rl.Baselines, Normalizer one of [Normalizers]; empty follows
	// ScaleRewards, LossType and UseStdNormalization: [Algorithm.Advantages].
	Baseline   rl.Baseline   `yaml:"baseline" neutral:""`
	Normalizer rl.Normalizer `yaml:"normalizer" neutral:""`
	// ScaleRewards is TRL's name for the normalizer: "group", "batch", "none" or
	// empty.
	ScaleRewards string `yaml:"scale_rewards" neutral:""`
	// UseStdNormalization divides advantages by the group's sample standard
	// deviation (plus AdvantageEps). After [Resolve] it agrees with Normalizer and
	// ScaleRewards, if one of these is given.
	UseStdNormalization bool    `yaml:"use_std_normalization"`
	AdvantageEps        float64 `yaml:"advantage_eps"`
	// PassK rewards only the best completion of a group, by its lead over the
	// second best.
	PassK bool `yaml:"pass_k" neutral:"false"`
	// Gamma discounts a completion's reward backwards from its last token.
	Gamma float64 `yaml:"gamma" neutral:"1"`

	// Cliprange is the assignment's name of epsilon; files and --set take both.
	Cliprange float64 `yaml:"cliprange"`
	// EpsilonHigh is the upper clip range (0 = Cliprange); for cispo the largest
	// ratio itself.
	EpsilonHigh float64 `yaml:"epsilon_high" neutral:"0"`
	Delta       float64 `yaml:"delta" neutral:"0"`     // 0 = none
	DualClip    float64 `yaml:"dual_clip" neutral:"0"` // 0 = none (vanilla: 3)
	// ImportanceSamplingLevel: "token", "sequence" or "sequence_sum"; empty is
	// the loss type's own, which [Resolve] fills in.
	ImportanceSamplingLevel rl.ImportanceLevel `yaml:"importance_sampling_level" neutral:"token"`
	// LengthNormalization is one of rl.Aggregations; empty is the loss type's own,
	// which [Resolve] fills in.
	LengthNormalization rl.Aggregation `yaml:"length_normalization"`
	// NormalizeConstant is Z of the aggregations that divide by a constant; 0
	// means sampling_max_tokens (luspo: 1), which [Resolve] fills in.
	NormalizeConstant float64 `yaml:"normalize_constant"`

	// Temperatures of sapo's gate for positive and negative advantages.
	SAPOTemperaturePos float64 `yaml:"sapo_temperature_pos" neutral:"1"`
	SAPOTemperatureNeg float64 `yaml:"sapo_temperature_neg" neutral:"1.05"`
	// Shape of vespo's weight for positive and negative advantages.
	VESPOKPos      float64 `yaml:"vespo_k_pos" neutral:"2"`
	VESPOLambdaPos float64 `yaml:"vespo_lambda_pos" neutral:"3"`
	VESPOKNeg      float64 `yaml:"vespo_k_neg" neutral:"3"`
	VESPOLambdaNeg float64 `yaml:"vespo_lambda_neg" neutral:"2"`

	// Beta weighs the KL divergence to the reference policy, the run's initial weights (0 = none).
	Beta float64 `yaml:"beta" neutral:"0"`
	// KLEstimator is one of rl.KLEstimators.
	KLEstimator rl.KLEstimator `yaml:"kl_estimator" neutral:"k3"`
	// KLIn: "loss" or "reward" (summed over a completion, or token by token if
	// advantages are per token: ppo, whiten_tokens).
	KLIn string `yaml:"kl_in" neutral:"loss"`
	// UseBiasCorrectionKL multiplies the KL term of the loss by the ratio.
	UseBiasCorrectionKL bool `yaml:"use_bias_correction_kl" neutral:"false"`
	// After each RefModelSyncSteps steps (0 = never) the reference becomes
	// alpha * policy + (1 - alpha) * reference.
	RefModelSyncSteps  int     `yaml:"ref_model_sync_steps" neutral:"0"`
	RefModelMixupAlpha float64 `yaml:"ref_model_mixup_alpha" neutral:"0.6"`

	// EntropyCoef weighs the entropy bonus (0 = none). With UseAdaptiveEntropy it is
	// the initial coefficient, which then moves by EntropyCoefDelta a step within
	// its bounds to hold the entropy at EntropyTarget nats.
	EntropyCoef        float64 `yaml:"entropy_coef" neutral:"0"`
	UseAdaptiveEntropy bool    `yaml:"use_adaptive_entropy" neutral:"false"`
	EntropyTarget      float64 `yaml:"entropy_target" neutral:"0.2"`
	EntropyCoefDelta   float64 `yaml:"entropy_coef_delta" neutral:"0.005"`
	EntropyCoefMin     float64 `yaml:"entropy_coef_min" neutral:"0"`
	EntropyCoefMax     float64 `yaml:"entropy_coef_max" neutral:"1"`

	// TopEntropyQuantile is the share of tokens, those of highest entropy, that
	// the policy term counts (1 = all).
	TopEntropyQuantile float64 `yaml:"top_entropy_quantile" neutral:"1"`
	// OffPolicyMask leaves out completions with a negative advantage whose mean
	// of old - new log-probability is above the threshold, in nats a token.
	OffPolicyMask          bool    `yaml:"off_policy_mask" neutral:"false"`
	OffPolicyMaskThreshold float64 `yaml:"off_policy_mask_threshold" neutral:"0"`
	// MaskTruncatedCompletions leaves completions without <eos> out of the loss; they
	// still count in their group's baseline.
	MaskTruncatedCompletions bool `yaml:"mask_truncated_completions" neutral:"false"`
	// SkipFlatGroups leaves completions of advantage 0 out of the update, whose
	// gradient is the same.
	SkipFlatGroups bool `yaml:"skip_flat_groups" neutral:"false"`
	// DynamicSampling replaces zero-variance groups by groups of new prompts, in at most
	// DynamicSamplingMaxRounds rounds per step, including the first.
	DynamicSampling          bool `yaml:"dynamic_sampling" neutral:"false"`
	DynamicSamplingMaxRounds int  `yaml:"dynamic_sampling_max_rounds" neutral:"4"`

	// Teacher is the checkpoint whose log-probabilities give MiniLLM's token
	// rewards, added to the advantages of the rewards: empty (none), "base", or
	// a path.
	Teacher                    string  `yaml:"teacher" neutral:""`
	TeacherGamma               float64 `yaml:"teacher_gamma" neutral:"0"`
	TeacherLengthNormalization bool    `yaml:"teacher_length_normalization" neutral:"true"`

	// The rest is for ppo only.

	GAELambda float64 `yaml:"gae_lambda" neutral:"0.95"`
	// ValueLearningRate and ValueEpochs are the critic's learning rate and passes over a rollout; 0
	// means those of the policy, which [Resolve] fills in.
	ValueLearningRate float64 `yaml:"value_learning_rate" neutral:"0"`
	ValueEpochs       int     `yaml:"value_epochs" neutral:"0"`
	// ValueClip limits the change of a value in an update (0 = no clip).
	ValueClip float64 `yaml:"value_clip" neutral:"0.2"`

	DPO DPO `yaml:"dpo"`
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
		SAPOTempPos: a.SAPOTemperaturePos, SAPOTempNeg: a.SAPOTemperatureNeg,
		VESPOKPos: a.VESPOKPos, VESPOLambdaPos: a.VESPOLambdaPos,
		VESPOKNeg: a.VESPOKNeg, VESPOLambdaNeg: a.VESPOLambdaNeg,
		EntropyCoef: a.EntropyCoef, EntropyOverAll: a.recipe().EntropyOverAll,
		OffPolicyMask: a.OffPolicyMask, OffPolicyMaskThreshold: a.OffPolicyMaskThreshold,
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
// Not used with pass_k and normalize_then_sum, which define their own advantages.
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
