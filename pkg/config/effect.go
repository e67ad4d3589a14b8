package config

import (
	"reflect"
	"slices"
	"strings"

	"grpo/pkg/rl"
)

// validateEffect rejects settings without any possible effect because another key is not set. They
// may keep their neutral value.
func (c *Config) validateEffect(v *validator) {
	a, r := &c.Algorithm, &c.Reward
	c.Model.validateEffect(v)
	c.Data.validateChat(v, &c.Model)

	for _, f := range []struct {
		function string
		keys     []any
	}{
		{"soft_overlong", []any{&r.OverlongCache}},
		{"repetition", []any{&r.RepetitionNGrams, &r.RepetitionMaxPenalty}},
		{"cosine", []any{
			&r.CosineCorrect, &r.CosineMaxLen,
			&r.CosineMinCorrect, &r.CosineMaxCorrect, &r.CosineMinWrong, &r.CosineMaxWrong,
		}},
	} {
		if !slices.Contains(r.Functions, f.function) {
			v.noEffect(&r.Functions, "add "+f.function+", or leave this key out", f.keys...)
		}
	}

	c.dpoEffect(v)
	if a.Type != "dpo" {
		a.needsLoss(v, rl.UsesEpsilonHigh, &a.EpsilonHigh)
		a.needsLoss(v, rl.UsesDelta, &a.Delta)
		a.needsLoss(v, rl.UsesDualClip, &a.DualClip)
		a.needsLoss(v, rl.UsesSAPO, &a.SAPOTemperaturePos, &a.SAPOTemperatureNeg)
		a.needsLoss(v, rl.UsesVESPO, &a.VESPOKPos, &a.VESPOLambdaPos, &a.VESPOKNeg, &a.VESPOLambdaNeg)
		if a.ImportanceSamplingLevel != "" {
			a.needsLoss(v, rl.UsesLevel, &a.ImportanceSamplingLevel)
		}
	}

	if a.Beta == 0 {
		v.noEffect(&a.Beta, "set beta, or leave this key out",
			&a.KLEstimator, &a.KLIn, &a.UseBiasCorrectionKL, &a.RefModelSyncSteps)
	}
	if a.KLIn != "loss" {
		v.noEffect(&a.KLIn, "use loss, or leave this key out", &a.UseBiasCorrectionKL)
	}
	if a.RefModelSyncSteps == 0 {
		v.noEffect(&a.RefModelSyncSteps, "set ref_model_sync_steps, or leave this key out", &a.RefModelMixupAlpha)
	}

	const on = "set it to true, or leave this key out"
	if !a.UseAdaptiveEntropy {
		v.noEffect(&a.UseAdaptiveEntropy, on,
			&a.EntropyTarget, &a.EntropyCoefDelta, &a.EntropyCoefMin, &a.EntropyCoefMax)
	}
	if !a.OffPolicyMask {
		v.noEffect(&a.OffPolicyMask, on, &a.OffPolicyMaskThreshold)
	}
	if !a.DynamicSampling {
		v.noEffect(&a.DynamicSampling, on, &a.DynamicSamplingMaxRounds)
	}
	if a.Teacher == "" {
		v.noEffect(&a.Teacher, "name the teacher's checkpoint, or leave this key out",
			&a.TeacherGamma, &a.TeacherLengthNormalization)
	}
	if a.Type != "ppo" {
		v.noEffect(&a.Type, "use ppo, or leave this key out",
			&a.GAELambda, &a.ValueLearningRate, &a.ValueEpochs, &a.ValueClip)
	}
}

// validateChat: a chat needs a checkpoint's template, and only a chat has first messages.
func (d *Data) validateChat(v *validator, m *Model) {
	if d.PromptTemplate != "chat" {
		v.noEffect(&d.PromptTemplate, "use chat, or leave this key out",
			&d.SystemPrompt, &d.FewShot, &d.FewShotFile)
	} else if !isPath(m.Init) {
		v.reject("%s needs a checkpoint with a chat template: set model.init to a Hugging Face folder or a GGUF file",
			&d.PromptTemplate)
	}
}

func (m *Model) validateEffect(v *validator) {
	switch {
	case m.Device != "cpu" || m.Precision == "bf16" && isPath(m.Init):
	case isPath(m.Init):
		v.noEffect(&m.Device, "the CPU computes in float32 or bf16; set model.device to cuda or auto", &m.Precision)
	default:
		v.noEffect(&m.Device, "the CPU computes in float32; set model.device to cuda or auto", &m.Precision)
	}
}

// needsLoss rejects options that the loss does not have.
func (a *Algorithm) needsLoss(v *validator, option rl.Uses, fields ...any) {
	losses := rl.LossesWith(option)
	if slices.Contains(losses, string(a.BaseLoss())) {
		return
	}
	list := losses[len(losses)-1]
	if rest := losses[:len(losses)-1]; len(rest) > 0 {
		list = strings.Join(rest, ", ") + " and " + list
	}
	v.noEffect(&a.LossType, "it is for "+list, fields...)
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
func InertSettings(c Config) []Inert {
	c = Resolve(c)
	v := newValidator(&c, nil)
	c.inert(v)
	var out []Inert
	for _, f := range v.found {
		key := f.keys[0]
		listed := slices.ContainsFunc(out, func(o Inert) bool { return o.Key == key })
		if !listed && !reflect.DeepEqual(atDefault(c, key), c) {
			out = append(out, Inert{key, f.text})
		}
	}
	return out
}

// inert reports settings without effect in this run.
func (c *Config) inert(v *validator) {
	d, a := &c.Data, &c.Algorithm
	if d.Source != "generated" {
		v.noEffect(&d.Source, "it is for generated problems",
			&d.GeneratorSeed, &d.WeightAdd, &d.WeightSub, &d.WeightMul, &d.UnseenSize)
	} else if len(c.Eval.SetFiles()) == 0 && a.DPO.PairsFile == "" && a.DPO.EvalPairsFile == "" {
		v.noEffect(&d.Source, "generated problems have no broken lines", &d.SkipBad)
	}
	v.reject("%s has no effect here: it changes worked answers, and only grpo sft trains on those",
		&d.Annotations)
	e := &c.Eval
	if !slices.Contains(e.Sets, SetSVAMP) {
		v.noEffect(&e.Sets, "add svamp, or leave this key out", &e.SVAMPFile)
	}
	if len(e.SetFiles()) == 0 {
		v.noEffect(&e.Sets, "it is for sets that are read from files", &e.SetSize, &e.SetsEveryNSteps)
	}
	if d.PromptTemplate == "question_only" {
		v.reject("%s has no effect here: its text is that of plain", &d.PromptTemplate)
	}
	if c.Rollout.Stale() && c.Train.NGRPOSteps == 1 {
		v.noEffect(&c.Train.NGRPOSteps, "the first step samples from the initial policy in any case",
			&c.Rollout.ResampleEveryNSteps)
	}
	if a.Type == "dpo" {
		c.inertUnderDPO(v)
	} else {
		c.inertLoss(v)
	}
	if a.RefModelSyncSteps >= c.Train.NGRPOSteps {
		v.noEffect(&c.Train.NGRPOSteps, "the reference would first move after the last step",
			&a.RefModelMixupAlpha, &a.RefModelSyncSteps)
	}
	t := &c.Train
	if c.Updates()-float64(t.WarmupSteps) <= 1 {
		v.noEffect(&t.NGRPOSteps, "there is only one update after the warm-up, and its learning rate is the full one",
			&t.LRScheduler)
	}
	if t.LearningRate == 0 && (a.Type != "ppo" || a.ValueLearningRate == 0) {
		v.noEffect(&t.LearningRate, "there is no learning rate to change", &t.LRScheduler, &t.WarmupSteps)
	}
	if a.TeacherGamma == 0 {
		v.noEffect(&a.TeacherGamma, "without a discount the divisor is 1", &a.TeacherLengthNormalization)
	}
	if a.ValueEpochs <= 1 && !c.smallBatches() {
		v.noEffect(&a.ValueEpochs, "with one update of the critic on each rollout its values have not moved; "+
			"set value_epochs to 2 or more, or a smaller train_batch_size", &a.ValueClip)
	}
}

// inertLoss reports settings of advantages and policy losses without effect in this run.
func (c *Config) inertLoss(v *validator) {
	a := &c.Algorithm
	if a.BaseLoss() == rl.NoBaseline {
		v.noEffect(&a.LossType, "it uses the raw rewards", &a.UseStdNormalization)
	}
	if !c.usesEps() {
		v.reject("%s has no effect here: advantages are not divided by a standard deviation or mean of the rewards",
			&a.AdvantageEps)
	}
	switch a.LengthNormalization {
	case rl.MaskedNormalizeSeq, rl.Constant, rl.SeqMeanTokenSumNorm:
	default:
		v.noEffect(&a.LengthNormalization, "it is for masked_normalize, constant and seq-mean-token-sum-norm",
			&a.NormalizeConstant)
	}
	a.needsLoss(v, rl.UsesEpsilon, &a.Cliprange)
	if !c.offPolicy() {
		const fix = "with one update on each rollout batch the importance ratio is 1; " +
			"set a smaller train_batch_size, or epochs_per_rollout_batch to 2 or more"
		because := &c.Train.TrainBatchSize
		if a.BaseLoss() != rl.CISPO { // its largest ratio is required, and matters below 1
			v.noEffect(because, fix, &a.EpsilonHigh)
		}
		v.noEffect(because, fix, &a.Cliprange, &a.Delta, &a.DualClip, &a.SAPOTemperaturePos, &a.SAPOTemperatureNeg,
			&a.VESPOKPos, &a.VESPOLambdaPos, &a.VESPOKNeg, &a.VESPOLambdaNeg,
			&a.OffPolicyMask, &a.OffPolicyMaskThreshold)
	}
}

// offPolicy: not every importance ratio is 1.
func (c *Config) offPolicy() bool {
	stale := c.Rollout.Stale() && c.Train.NGRPOSteps > 1
	return c.Train.EpochsPerRolloutBatch > 1 || c.smallBatches() || stale
}

func (c *Config) smallBatches() bool {
	n := c.Train.TrainBatchSize
	return n != 0 && n != c.Rollout.RolloutBatchSize
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
	switch normalizer {
	case rl.NormalizerGroupStd, rl.NormalizerBatchStd, rl.NormalizerGroupMean, rl.NormalizerWhiten:
		return true
	}
	return false
}

// atDefault returns c with one key at its default.
func atDefault(c Config, key string) Config {
	d := Default()
	isKey := func(f leaf) bool { return f.path == key }
	from, to := leaves(&d), leaves(&c)
	if i, j := slices.IndexFunc(from, isKey), slices.IndexFunc(to, isKey); i >= 0 && j >= 0 {
		to[j].value.Set(from[i].value)
	}
	return Resolve(c)
}
