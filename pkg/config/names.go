package config

// The names of pkg/rl, which this package, the lowest, does not import; a test
// holds the lists together.

// namedLoss is what a loss type stands for: a loss of pkg/rl, and where the
// source ties them to it, an aggregation, a level and a dual clip.
type namedLoss struct {
	name, base string
	// aggregation is what an empty length_normalization means.
	aggregation string
	// tied: the name stands for that aggregation and no other.
	tied bool
	// level is what an empty importance_sampling_level means ("": token); with
	// onlyLevel it admits no other.
	level     string
	onlyLevel bool
	// constant is what a normalize_constant of 0 means (0: sampling_max_tokens).
	constant float64
	dualClip float64
	// entropyOverAll: see rl.LossConfig.
	entropyOverAll bool
}

var namedLosses = []namedLoss{
	{name: "no_baseline", base: "no_baseline", aggregation: "masked_mean"},
	{name: "reinforce_with_baseline", base: "reinforce_with_baseline", aggregation: "masked_mean"},
	{name: "grpo_clip", base: "grpo_clip", aggregation: "masked_mean"},
	{name: "grpo_no_clip", base: "grpo_no_clip", aggregation: "masked_mean"},
	// TRL's, of which cispo, sapo and vespo are losses and the others
	// grpo_clip with an aggregation.
	{name: "grpo", base: "grpo_clip", aggregation: "masked_mean", tied: true},
	{name: "bnpo", base: "grpo_clip", aggregation: "token-mean", tied: true},
	{name: "dr_grpo", base: "grpo_clip", aggregation: "masked_normalize", tied: true},
	{name: "dapo", base: "grpo_clip", aggregation: "token-mean", tied: true, entropyOverAll: true},
	{name: "cispo", base: "cispo", aggregation: "token-mean", entropyOverAll: true},
	{name: "sapo", base: "sapo", aggregation: "masked_mean"},
	{name: "luspo", base: "grpo_clip", aggregation: "masked_normalize", tied: true, level: "sequence", onlyLevel: true, constant: 1},
	{name: "vespo", base: "vespo", aggregation: "token-mean", entropyOverAll: true},
	// verl's.
	{name: "vanilla", base: "grpo_clip", aggregation: "token-mean", dualClip: 3},
	{name: "gpg", base: "reinforce_with_baseline", aggregation: "token-mean"},
	{name: "gspo", base: "grpo_clip", aggregation: "seq-mean-token-mean", tied: true, level: "sequence", onlyLevel: true},
	{name: "geo_mean", base: "geo_mean", aggregation: "masked_mean"},
	{name: "cispo_band", base: "cispo_band", aggregation: "token-mean"},
}

func lossNamed(name string) (namedLoss, bool) {
	for _, l := range namedLosses {
		if l.name == name {
			return l, true
		}
	}
	return namedLoss{}, false
}

// LossTypes lists the values of algorithm.loss_type: the assignment's, TRL's
// and verl's.
func LossTypes() []string {
	var names []string
	for _, l := range namedLosses {
		names = append(names, l.name)
	}
	return names
}

// Baselines lists the values of algorithm.baseline, apart from "".
func Baselines() []string {
	return []string{"none", "group_mean", "leave_one_out", "batch_mean", "length_weighted", "greedy"}
}

// Normalizers lists the values of algorithm.normalizer, apart from "": those of
// pkg/rl for completions, and whiten_tokens (rl.WhitenTokens), which whitens the
// advantages of all tokens of the batch.
func Normalizers() []string {
	return []string{"none", "group_std", "batch_std", "group_mean", "whiten", "gpg", "whiten_tokens"}
}

// Aggregations lists the values of algorithm.length_normalization, apart from "".
func Aggregations() []string {
	return []string{
		"masked_mean", "masked_normalize", "constant", "token-mean", "token-sum",
		"seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
	}
}

// ImportanceLevels lists the values of algorithm.importance_sampling_level,
// apart from "".
func ImportanceLevels() []string { return []string{"token", "sequence", "sequence_sum"} }

// KLEstimators lists the values of algorithm.kl_estimator.
func KLEstimators() []string {
	return []string{"k1", "k2", "k3", "abs", "low_var_kl", "k1+", "k3+"}
}

// BaseLoss returns the loss of pkg/rl (rl.LossType) that the loss type stands
// for: grpo_clip for TRL's dapo, itself for sapo. Aggregation, level, constant
// and dual clip stand in their own keys after [Resolve].
func (a Algorithm) BaseLoss() string {
	l, _ := lossNamed(a.LossType)
	return l.base
}

// EntropyOverAll says whether the loss type divides the entropy bonus by all
// tokens even where a policy mask keeps only some (rl.LossConfig).
func (a Algorithm) EntropyOverAll() bool {
	l, _ := lossNamed(a.LossType)
	return l.entropyOverAll
}

// Advantages returns the baseline and the normalizer in force. What is given is
// taken; the rest follows from the other names:
//
//	scale_rewards group, batch, none    group_mean with group_std, batch_std, none
//	no_baseline                         none, none
//	ppo                                 none, whiten_tokens (none without use_std_normalization)
//	else                                group_mean, group_std (none without use_std_normalization)
//
// It has no meaning under pass_k and normalize_then_sum, which have advantages
// of their own.
func (a Algorithm) Advantages() (baseline, normalizer string) {
	baseline, normalizer = "group_mean", "none"
	switch {
	case a.LossType == "no_baseline":
		baseline = "none"
	case a.Type == "ppo":
		baseline = "none"
		if a.UseStdNormalization {
			normalizer = "whiten_tokens"
		}
	case a.ScaleRewards != "":
		normalizer = scaleNormalizer(a.ScaleRewards)
	case a.UseStdNormalization:
		normalizer = "group_std"
	}
	if a.Baseline != "" {
		baseline = a.Baseline
	}
	if a.Normalizer != "" {
		normalizer = a.Normalizer
	}
	return baseline, normalizer
}

// scaleNormalizer translates TRL's scale_rewards.
func scaleNormalizer(scale string) string {
	switch scale {
	case "group":
		return "group_std"
	case "batch":
		return "batch_std"
	}
	return "none"
}
