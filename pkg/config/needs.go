package config

import (
	"reflect"
	"slices"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
	"grpo/pkg/task"
)

// need is what keys with its name in their tag needs require to have an effect. A key that is set without it is
// an error: a run would differ from what its author expects, and all arms of a sweep over the key would be equal.
//
// It is only a notice ([InertSettings]) if notice is set, because published recipes have such settings, and for keys
// of the first release, which have a value in every configuration.
type need struct {
	key    string // the other key that decides; "" if it is several
	fix    string // or the reason
	notice bool
	met    func(c *Config) bool
}

// needs are the needs by name. A name with a prefix is of a family: see [needOf].
var needs = map[string]need{
	// data, model
	"files": {"data.source", "set data.source to file, or leave this key out", false,
		func(c *Config) bool { return !c.Data.Generated() }},
	"answers": {"data.source", "set data.source to file, or leave this key out", false,
		func(c *Config) bool { return c.Data.Source != "generated" }},
	"text": {"data.answer", "use text, or leave this key out", false,
		func(c *Config) bool { return c.Data.Answer == string(gsm8k.KindText) }},
	"generated": {"data.source", "it is for generated problems", true,
		func(c *Config) bool { return c.Data.Generated() }},
	"word-problems": {"data.source", "it is for generated word problems", true, func(c *Config) bool {
		return c.Data.Source == "generated" || c.Data.Source == task.Prefix+"arithmetic"
	}},
	"task": {"data.source", "it is for the built-in tasks, such as task:sort; leave this key out", false,
		func(c *Config) bool { return c.Data.Builtin() != nil }},
	"words": {"data.source", "it is for task:sort, task:reverse and task:copy; leave this key out", false,
		func(c *Config) bool { t := c.Data.Builtin(); return t != nil && t.Words }},
	"numbers": {"data.source", "it is for task:countdown; leave this key out", false,
		func(c *Config) bool { t := c.Data.Builtin(); return t != nil && t.Numbers }},
	"lines": {"data.source", "generated problems have no broken lines", true, func(c *Config) bool {
		d := &c.Algorithm.DPO
		return !c.Data.Generated() || len(c.Eval.SetFiles()) > 0 || d.PairsFile != "" || d.EvalPairsFile != ""
	}},
	"worked-answers": {"", "it changes worked answers: those of few_shot_file, and those that grpo sft trains on", true,
		func(c *Config) bool { return c.Data.FewShotFile != "" }},
	"own-text": {"", "its text is that of plain", true,
		func(c *Config) bool { return c.Data.PromptTemplate != "question_only" }},
	"chat": {"data.prompt_template", "use chat, or leave this key out", false,
		func(c *Config) bool { return c.Data.PromptTemplate == "chat" }},
	"examples": {"data.prompt_template", "use chat or few_shot, or leave this key out", false,
		func(c *Config) bool { return c.Data.PromptTemplate == "chat" || c.Data.PromptTemplate == "few_shot" }},
	"checkpoint": {"model.init", "it is for a PEFT folder", false, func(c *Config) bool { return isPath(c.Model.Init) }},
	"device": {"model.device", "the CPU computes in float32, and for a Hugging Face folder or a GGUF file also in bf16; " +
		"set model.device to cuda or auto", false, func(c *Config) bool {
		m := &c.Model
		return m.Device != "cpu" || m.Precision == "bf16" && isPath(m.Init)
	}},

	// rollout
	"rollouts": {"algorithm.dpo.pairs_file", "the completions are in the file", true,
		func(c *Config) bool { return !c.Algorithm.FromFile() }},
	"sampling": {"algorithm.dpo.pairs_file", "the pairs are in the file; leave this key out", false,
		func(c *Config) bool { return !c.Algorithm.FromFile() }},
	"cut": {"", "nothing is cut off when sampling; set sampling_top_p, sampling_top_k or sampling_min_tokens, or leave " +
		"this key out", true, func(c *Config) bool { return c.Rollout.Cuts() }},
	"second-step": {"train.n_grpo_steps", "the first step samples from the initial policy in any case", true,
		func(c *Config) bool { return c.Train.NGRPOSteps != 1 }},
	"comparison": {"algorithm.type", "a positive weight of a single reward function changes no comparison of rewards",
		true, func(c *Config) bool {
			w := c.Reward.RewardWeights
			return c.Algorithm.Type != "dpo" || len(w) != 1 || w[0] <= 0
		}},

	// reward.noise
	"verifier": {"reward.functions", "it is for functions that decide right or wrong: add " +
		strings.Join(gsm8k.Verifiers(), ", ") + " or cosine, or leave this key out", false,
		func(c *Config) bool { return len(c.Reward.Verifiers()) > 0 }},
	"noise": {"reward.noise.false_positive", "the verifier does not err; set it, or false_negative", false,
		func(c *Config) bool { return c.Reward.Noise.On() }},
	"uncancelled": {"algorithm.loss_type", "a baseline cancels the constant that it adds to all rewards, and the " +
		"division by a standard deviation the factor of backward; use no_baseline, or baseline none", false,
		(*Config).correctionActs},

	// algorithm
	"policy-loss": {"algorithm.type", "its loss is algorithm.dpo.loss_type", true, notDPO},
	"advantages":  {"algorithm.type", "it has no advantages and no importance ratio; leave this key out", false, notDPO},
	"group-advantages": {"algorithm.type", "formulas are for groups of grpo: the baseline of ppo is its critic, and " +
		"dpo has no advantages; leave this key out", false, func(c *Config) bool { return c.Algorithm.Type == "grpo" }},
	"no-formula": {"algorithm.advantage_expr", "that is the advantage; leave one of them out", false,
		func(c *Config) bool { return c.Algorithm.AdvantageExpr == "" }},
	"kl": {"algorithm.type", "the weight of its KL divergence is algorithm.dpo.beta", false, notDPO},
	"baseline": {"algorithm.loss_type", "it uses the raw rewards", true,
		func(c *Config) bool { return c.Algorithm.BaseLoss() != rl.NoBaseline }},
	"eps": {"", "advantages are not divided by a standard deviation or mean of the rewards", true,
		(*Config).usesEps},
	"off-policy": {"train.train_batch_size", onPolicy, true, (*Config).offPolicy},
	"ratio": {"train.train_batch_size", onPolicy, true, func(c *Config) bool {
		return c.offPolicy() || c.Algorithm.LossExpr != "" // which may use these keys for something else
	}},
	"high-ratio": {"train.train_batch_size", onPolicy, true, func(c *Config) bool {
		a := &c.Algorithm // cispo's largest ratio is required, and matters below 1
		return c.offPolicy() || a.BaseLoss() == rl.CISPO || a.LossExpr != ""
	}},
	"constant": {"algorithm.length_normalization", "it is for masked_normalize, constant and seq-mean-token-sum-norm",
		true, func(c *Config) bool {
			divided := []rl.Aggregation{rl.MaskedNormalizeSeq, rl.Constant, rl.SeqMeanTokenSumNorm}
			return slices.Contains(divided, c.Algorithm.LengthNormalization)
		}},
	"beta": {"algorithm.beta", "set beta, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.Beta != 0 }},
	"reference": {"algorithm.beta", "set beta, name ref in loss_expr, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.NeedsReference() }},
	"kl_in": {"algorithm.kl_in", "use loss, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.KLIn == "loss" }},
	"sync": {"algorithm.ref_model_sync_steps", "set ref_model_sync_steps, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.RefModelSyncSteps != 0 }},
	"moves": {"train.n_grpo_steps", "the reference would first move after the last step", true,
		func(c *Config) bool { return c.Algorithm.RefModelSyncSteps < c.Train.NGRPOSteps }},
	"adaptive-entropy": {"algorithm.use_adaptive_entropy", switchOn, false,
		func(c *Config) bool { return c.Algorithm.UseAdaptiveEntropy }},
	"mask": {"algorithm.off_policy_mask", switchOn, false, func(c *Config) bool { return c.Algorithm.OffPolicyMask }},
	"dynamic-sampling": {"algorithm.dynamic_sampling", switchOn, false,
		func(c *Config) bool { return c.Algorithm.DynamicSampling }},
	"teacher": {"algorithm.teacher", "name the teacher's checkpoint, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.Teacher != "" }},
	"teacher_gamma": {"algorithm.teacher_gamma", "without a discount the divisor is 1", true,
		func(c *Config) bool { return c.Algorithm.TeacherGamma != 0 }},
	"ppo": {"algorithm.type", "use ppo, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.Type == "ppo" }},
	"old-values": {"algorithm.value_epochs", "with one update of the critic on each rollout its values have not moved; " +
		"set value_epochs to 2 or more, or a smaller train_batch_size", true,
		func(c *Config) bool { return c.Algorithm.ValueEpochs > 1 || c.smallBatches() }},

	// algorithm.dpo
	"dpo": {"algorithm.type", "use dpo, or leave this key out", false,
		func(c *Config) bool { return c.Algorithm.Type == "dpo" }},
	"several-losses": {"algorithm.dpo.loss_type",
		"a weight is for several losses; the learning rate scales a single one", false, func(c *Config) bool {
			d := &c.Algorithm.DPO
			return len(d.LossType) != 1 || len(d.LossWeights) != 1
		}},
	"alpha-divergence": {"algorithm.dpo.f_divergence_type", "it is for " + rl.AlphaDivergence, false,
		func(c *Config) bool { return c.Algorithm.DPO.FDivergenceType == rl.AlphaDivergence }},
	"discopop": {"algorithm.dpo.loss_type", "it is for " + string(rl.DPODiscoPOP), false,
		func(c *Config) bool { return slices.Contains(c.Algorithm.DPO.LossType, string(rl.DPODiscoPOP)) }},
	"several-pairs": {"algorithm.dpo.pairs", "it makes one pair of a group in any case", false, func(c *Config) bool {
		d := &c.Algorithm.DPO
		return d.Pairs != string(rl.PairBestWorst) || d.PairsPerGroup != 1
	}},

	// train, eval
	"schedule": {"train.n_grpo_steps",
		"there is only one update after the warm-up, and its learning rate is the full one", true,
		func(c *Config) bool { return c.Updates()-float64(c.Train.WarmupSteps) > 1 }},
	"rate": {"train.learning_rate", "there is no learning rate to change", true, func(c *Config) bool {
		return c.Train.LearningRate != 0 || c.Algorithm.Type == "ppo" && c.Algorithm.ValueLearningRate != 0
	}},
	"lora": {"train.lora.rank", "set the rank, or leave this key out", false,
		func(c *Config) bool { return c.Train.LoRA.Rank != 0 }},
	"svamp": {"eval.sets", "add svamp, or leave this key out", true,
		func(c *Config) bool { return slices.Contains(c.Eval.Sets, SetSVAMP) }},
	"several-samples": {"eval.samples", "set eval.samples or eval.final_samples to 2 or more, or leave this key out", false,
		func(c *Config) bool { return c.Eval.LastSamples() > 1 }},
	"set-files": {"eval.sets", "it is for sets that are read from files", true,
		func(c *Config) bool { return len(c.Eval.SetFiles()) > 0 }},
}

const (
	switchOn = "set it to true, or leave this key out"
	onPolicy = "with one update on each rollout batch the importance ratio is 1; " +
		"set a smaller train_batch_size, or epochs_per_rollout_batch to 2 or more"
)

func notDPO(c *Config) bool { return c.Algorithm.Type != "dpo" }

// needOf returns the need of a name under c: one of [needs] or of a family:
//
//	reward.X  reward.functions has X
//	loss.X    the loss of tokens has the option X (rl.LossesWith), or loss_expr uses it, and it is not dpo
//	dpo.X     the losses of algorithm.dpo use X (rl.PreferenceConfig)
func needOf(name string, c *Config) need {
	never := func(*Config) bool { return false }
	family, option, _ := strings.Cut(name, ".")
	switch family {
	case "reward":
		return need{"reward.functions", "add " + option + ", or leave this key out", false,
			func(c *Config) bool { return slices.Contains(c.Reward.Functions, option) }}
	case "loss":
		if !notDPO(c) {
			return needs["advantages"]
		}
		if c.Algorithm.LossExpr != "" {
			return need{"algorithm.loss_expr", "it does not use this key; leave it out", false,
				func(c *Config) bool { return c.Algorithm.formulaUses(option) }}
		}
		losses := rl.LossesWith(option)
		list := strings.Join(losses, ", ")
		if n := len(losses); n > 1 {
			list = strings.Join(losses[:n-1], ", ") + " and " + losses[n-1]
		}
		return need{"algorithm.loss_type", "it is for " + list, false,
			func(c *Config) bool { return slices.Contains(losses, string(c.Algorithm.BaseLoss())) }}
	case "dpo":
		for _, u := range c.Algorithm.DPO.Preference().Unused() {
			if u.Name == option {
				return need{"algorithm.dpo.loss_type", "it is for " + strings.Join(u.UsedBy, ", "), false, never}
			}
		}
	}
	return needs[name]
}

// effects rejects the keys that are set but have no effect: those with an error, or with a notice.
func (v *validator) effects(notices bool) {
	c := v.root.train()
	for i := range v.keys {
		k := &v.keys[i]
		for _, name := range k.needs {
			n := needOf(name, c)
			if (n.notice || !k.hasNeutral) != notices || n.met == nil || n.met(c) {
				continue
			}
			switch because := v.keys.find(n.key); {
			case k.isNeutral() || v.isDefault(k.path):
			case n.key == "":
				v.reject("%s has no effect here: %s", k.field(), n.fix)
			case because == nil: // of grpo sft
				v.noEffect(v.keys.find(strings.TrimPrefix(n.key, "train.")).field(), n.fix, k.field())
			default:
				v.noEffect(because.field(), n.fix, k.field())
			}
			break
		}
	}
}

// noEffect reports that a field has no effect because of another, unless it is at its neutral value.
func (v *validator) noEffect(because any, fix string, fields ...any) {
	for _, field := range fields {
		if !v.byField[field].isNeutral() {
			v.reject("%s has no effect, because of %s (%s)", field, because, fix)
		}
	}
}

// isDefault reports whether a key of a run is at its default, or at what [Resolve] derives from it.
func (v *validator) isDefault(path string) bool {
	c, ok := v.root.(*Config)
	return ok && reflect.DeepEqual(atDefault(*c, path), Resolve(*c))
}

// usesEps reports whether a normalizer divides by a statistic of the rewards, to which
// advantage_eps is added.
func (c *Config) usesEps() bool {
	a := &c.Algorithm
	_, normalizer := a.Advantages()
	switch {
	case c.Reward.MultiObjectiveAggregation == "normalize_then_sum":
		return true
	case a.PassK:
		return a.UseStdNormalization
	}
	divides := []rl.Normalizer{rl.NormalizerGroupStd, rl.NormalizerBatchStd, rl.NormalizerGroupMean, rl.NormalizerWhiten}
	return slices.Contains(divides, normalizer)
}

// correctionActs: the correction of a noisy reward changes advantages. Forward adds a constant to the rewards; backward
// also multiplies them.
func (c *Config) correctionActs() bool {
	a, n := &c.Algorithm, c.Reward.Noise
	if a.Type == "ppo" || a.AdvantageExpr != "" { // the critic predicts the rewards as they are; who knows
		return true
	}
	baseline, normalizer := a.Advantages()
	whitened := c.Reward.MultiObjectiveAggregation == "normalize_then_sum" || normalizer == WhitenTokens && a.Gamma == 1
	shift := !whitened && !a.PassK && !rl.CancelsShift(baseline, normalizer)
	if n.Correction != rl.BackwardCorrection || shift {
		return shift
	}
	scaled := whitened || rl.CancelsScale(normalizer)
	if a.PassK {
		scaled = a.UseStdNormalization
	}
	// Not if other rewards, or a KL penalty in the reward, keep their size.
	alone := len(c.Reward.Functions) == 1 && !(a.Beta != 0 && a.KLIn == "reward")
	return !scaled || !alone && c.Reward.MultiObjectiveAggregation == "sum_then_normalize"
}

// Inert is a setting without effect in a run.
type Inert struct {
	Key string
	// Text explains it, with the reason and the fix.
	Text string
}

// InertSettings lists the settings of a configuration that are not at their default and change
// nothing in the run, because of other settings. [Validate] accepts them, because published recipes
// include settings that only matter together with others. An arm of a sweep must not consist of
// them.
func InertSettings(c Config) (out []Inert) {
	c = Resolve(c)
	v := newValidator(&c, nil)
	v.effects(true)
	for _, f := range v.found {
		out = append(out, Inert{f.keys[0], f.text})
	}
	return out
}

// withoutInert resets settings without effect, one at a time, because resetting one may affect
// others.
func withoutInert(c Config) Config {
	for {
		v := newValidator(&c, nil)
		v.effects(false)
		v.effects(true)
		if len(v.found) == 0 {
			return c
		}
		c = atDefault(c, v.found[0].keys[0])
	}
}

// atDefault returns c with one key at its default.
func atDefault(c Config, path string) Config {
	d := Default()
	if from, to := keysOf(&d).find(path), keysOf(&c).find(path); from != nil && to != nil {
		to.value.Set(from.value)
	}
	return Resolve(c)
}
