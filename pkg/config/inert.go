package config

import (
	"fmt"
	"slices"

	"grpo/pkg/rl"
)

// Inert is a setting that changes nothing in a run.
type Inert struct {
	Key string
	// Text says so, with the reason and the fix.
	Text string
}

// InertSettings lists the settings of a configuration that are not at their
// default and change nothing in the run, because of other settings. Unlike those
// that [Validate] refuses, they are accepted for a single run: published recipes
// name settings that wait for others. An arm of a sweep must not consist of them.
func InertSettings(c Config) []Inert {
	var out []Inert
	for _, r := range rulesInert {
		if text := inertText(r, c); text != "" && !slices.ContainsFunc(out, func(o Inert) bool { return o.Key == r.keys[0] }) {
			out = append(out, Inert{r.keys[0], text})
		}
	}
	return out
}

// inertText is what an inert rule says of c, or empty.
func inertText(r rule, c Config) string {
	c = Resolve(c)
	text := r.check(viewOf(&c, nil), r.keys)
	if reset := atDefault(c, r.keys[0]); text == "" || len(Diff(c, reset)) == 0 {
		return ""
	}
	return text
}

// atDefault returns c with one key at its default.
func atDefault(c Config, key string) Config {
	d := Default()
	from := leaves(&d)
	for i, f := range leaves(&c) {
		if f.path == key {
			f.value.Set(from[i].value)
		}
	}
	return Resolve(c)
}

// Experiment returns the configuration in the form in which two that train and
// evaluate alike (up to the rounding of sums) are equal: what has no effect is at
// its default, and of several names of one thing one is used. It is for comparing
// by [Hash] and not necessarily valid.
//
// What depends on the data is left as it is: a limit that nothing reaches, say.
func Experiment(c Config) Config {
	c = Resolve(c)
	c.Algorithm.plainKL()
	c.Algorithm.plainLoss(offPolicy(viewOf(&c, nil)))
	for _, r := range slices.Concat(rulesEffect, rulesInert) {
		if r.check(viewOf(&c, nil), r.keys) != "" {
			c = atDefault(c, r.keys[0])
		}
	}
	a := &c.Algorithm
	a.plainAggregation(c.Train.TrainBatchSize)
	// Both save time or memory and leave the gradient as it is.
	c.Train.GradientAccumulationSteps, a.SkipFlatGroups = 1, false
	if c.Reward.CosineMaxLen == c.Rollout.SamplingMaxTokens {
		c.Reward.CosineMaxLen = 0
	}
	if a.EpsilonHigh == a.Cliprange && a.BaseLoss() != "cispo" {
		a.EpsilonHigh = 0
	}
	if !a.PassK && c.Reward.MultiObjectiveAggregation == "sum_then_normalize" {
		a.Baseline, a.Normalizer = a.Advantages()
		a.ScaleRewards, a.UseStdNormalization = "", true
		if a.LossType == "no_baseline" {
			a.LossType = "reinforce_with_baseline"
		}
	}
	return c
}

// plainKL: the straight-through estimators have the gradient of k2; in the reward,
// where there is no gradient, they have the values of k1 and k3.
func (a *Algorithm) plainKL() {
	switch {
	case a.KLIn == "reward" && a.KLEstimator == "k1+":
		a.KLEstimator = "k1"
	case a.KLIn == "reward" && a.KLEstimator == "k3+":
		a.KLEstimator = "k3"
	case a.KLIn == "loss" && !a.UseBiasCorrectionKL && (a.KLEstimator == "k1+" || a.KLEstimator == "k3+"):
		a.KLEstimator = "k2"
	}
}

// plainLoss replaces a name by the loss that it stands for. On-policy the ratio is
// 1, and every loss has the gradient of the one without a ratio. Where a sequence
// has one ratio, that holds if all of its tokens weigh the same.
func (a *Algorithm) plainLoss(offPolicy bool) {
	bonus := a.EntropyCoef != 0 || a.UseAdaptiveEntropy
	capped := a.LossType == "cispo" && a.EpsilonHigh < 1
	_, normalizer := a.Advantages()
	ofTokens := a.Type == "ppo" || a.Gamma != 1 || a.Teacher != "" || normalizer == "whiten_tokens" || a.TopEntropyQuantile < 1 ||
		a.Beta != 0 && a.UseBiasCorrectionKL
	base, level := a.BaseLoss(), a.ImportanceSamplingLevel
	oneRatio := level == "sequence" || base == "geo_mean"
	switch {
	case a.LossType == "no_baseline":
	case a.EntropyOverAll() && bonus && a.TopEntropyQuantile < 1:
	case offPolicy || capped || level == "sequence_sum" && base != "geo_mean" || oneRatio && ofTokens:
		a.LossType = base
	default:
		a.LossType, a.ImportanceSamplingLevel = "reinforce_with_baseline", "token"
	}
}

// plainAggregation writes sums over a constant as masked_normalize. Where no
// completion is masked, none is empty, so that there are as many sequences as
// completions.
func (a *Algorithm) plainAggregation(completions int) {
	sum := func(z float64) { a.LengthNormalization, a.NormalizeConstant = "masked_normalize", z }
	switch a.LengthNormalization {
	case "constant":
		sum(a.NormalizeConstant / float64(completions))
	case "token-sum":
		sum(1 / float64(completions))
	}
	if a.MaskTruncatedCompletions {
		return
	}
	switch a.LengthNormalization {
	case "seq-mean-token-mean":
		a.LengthNormalization = "masked_mean"
	case "seq-mean-token-sum":
		sum(1)
	case "seq-mean-token-sum-norm":
		sum(a.NormalizeConstant)
	}
}

// rulesInert are like rulesEffect, in the order in which one follows from another.
var rulesInert = []rule{
	needsGenerated("data.generator_seed"),
	needsGenerated("data.weight_add"),
	needsGenerated("data.weight_sub"),
	needsGenerated("data.weight_mul"),
	needsGenerated("data.unseen_size"),
	effective("data.skip_bad", "data.source", "generated problems have no broken lines", func(v *view) bool { return v.text("data.source") != "generated" }),
	custom(func(v *view, k []string) string {
		return v.name(k[0]) + " has no effect here: it changes worked answers, and only grpo sft trains on those"
	}, "data.annotations"),
	custom(func(v *view, k []string) string {
		if v.text(k[0]) != "question_only" {
			return ""
		}
		return v.name(k[0]) + " has no effect here: its text is that of plain"
	}, "data.prompt_template"),

	effective("algorithm.use_std_normalization", "algorithm.loss_type", "it uses the raw rewards", func(v *view) bool { return v.text("algorithm.loss_type") != "no_baseline" }),
	custom(epsUsed, "algorithm.advantage_eps", "algorithm.pass_k", "reward.multi_objective_aggregation"),
	effective("algorithm.normalize_constant", "algorithm.length_normalization", "it is for masked_normalize, constant and seq-mean-token-sum-norm", func(v *view) bool {
		return slices.Contains([]string{"masked_normalize", "constant", "seq-mean-token-sum-norm"}, v.text("algorithm.length_normalization"))
	}),
	withLoss("algorithm.cliprange", rl.UsesEpsilon),
	needsRatio("algorithm.cliprange"),
	needsRatio("algorithm.epsilon_high"),
	needsRatio("algorithm.delta"),
	needsRatio("algorithm.dual_clip"),
	needsRatio("algorithm.sapo_temperature_pos"),
	needsRatio("algorithm.sapo_temperature_neg"),
	needsRatio("algorithm.vespo_k_pos"),
	needsRatio("algorithm.vespo_lambda_pos"),
	needsRatio("algorithm.vespo_k_neg"),
	needsRatio("algorithm.vespo_lambda_neg"),
	needsRatio("algorithm.off_policy_mask"),
	needsRatio("algorithm.off_policy_mask_threshold"),
	effective("algorithm.ref_model_mixup_alpha", "train.n_grpo_steps", "the reference would first move after the last step", syncs),
	effective("algorithm.ref_model_sync_steps", "train.n_grpo_steps", "the reference would first move after the last step", syncs),
	effective("algorithm.teacher_length_normalization", "algorithm.teacher_gamma", "without a discount the divisor is 1", func(v *view) bool { return v.num("algorithm.teacher_gamma") > 0 }),
	effective("algorithm.value_clip", "algorithm.value_epochs", "with one update of the critic on each rollout its values have not moved; set value_epochs to 2 or more, or a smaller train_batch_size",
		func(v *view) bool { return v.num("algorithm.value_epochs") > 1 || smallBatches(v) }),
}

func needsGenerated(key string) rule {
	return effective(key, "data.source", "it is for generated problems", func(v *view) bool { return v.text("data.source") == "generated" })
}

// needsRatio: on-policy every importance ratio is 1. cispo's largest ratio must be
// given, and below 1 it has an effect all the same.
func needsRatio(key string) rule {
	return effective(key, "train.train_batch_size", "with one update on each rollout batch the importance ratio is 1; set a smaller train_batch_size, or epochs_per_rollout_batch to 2 or more",
		func(v *view) bool {
			return offPolicy(v) || key == "algorithm.epsilon_high" && v.text("algorithm.loss_type") == "cispo"
		})
}

func offPolicy(v *view) bool { return v.num("train.epochs_per_rollout_batch") > 1 || smallBatches(v) }

func smallBatches(v *view) bool {
	n := v.num("train.train_batch_size")
	return n != 0 && n != v.num("rollout.rollout_batch_size")
}

func syncs(v *view) bool {
	return v.num("algorithm.ref_model_sync_steps") < v.num("train.n_grpo_steps")
}

// epsUsed: advantage_eps belongs to the normalizers that divide by something of
// the rewards.
func epsUsed(v *view, k []string) string {
	a := Algorithm{Type: v.text("algorithm.type"), LossType: v.text("algorithm.loss_type"), Baseline: v.text("algorithm.baseline"), Normalizer: v.text("algorithm.normalizer"),
		ScaleRewards: v.text("algorithm.scale_rewards"), UseStdNormalization: v.on("algorithm.use_std_normalization")}
	_, normalizer := a.Advantages()
	switch {
	case v.text(k[2]) == "normalize_then_sum", v.on(k[1]) && a.UseStdNormalization:
		return ""
	case !v.on(k[1]) && slices.Contains([]string{"group_std", "batch_std", "group_mean", "whiten"}, normalizer):
		return ""
	}
	return fmt.Sprintf("%s has no effect here: advantages are not divided by a standard deviation or mean of the rewards", v.name(k[0]))
}
