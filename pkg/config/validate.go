package config

import (
	"slices"
	"strconv"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/yamldoc"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

func (c *Config) validate(v *validator) {
	v.notEmpty(&c.Name)
	c.Data.validate(v)
	c.Model.validate(v)
	c.Rollout.validate(v)
	c.validateTrain(v)
	c.Train.LoRA.validate(v, c.Model, "train.lora.rank")
	if c.Train.LoRA.Rank > 0 && c.Algorithm.RefModelSyncSteps != 0 {
		v.reject("%s can't be combined with %s: under LoRA the reference model is the base without the adapters, "+
			"which does not move (leave ref_model_sync_steps out, or train all weights)",
			&c.Algorithm.RefModelSyncSteps, &c.Train.LoRA.Rank)
	}
	c.validateEval(v)
	c.validateOutput(v)
	c.validateReward(v)
	c.validateAlgorithm(v)
	c.validateEffect(v)
	c.Launcher.validate(v)
}

func (c *SFT) validate(v *validator) {
	v.notEmpty(&c.Name)
	c.Data.validate(v)
	c.Model.validate(v)
	c.Model.validateEffect(v)
	c.LoRA.validate(v, c.Model, "lora.rank")
	c.Data.validateChat(v, &c.Model)
	v.in(size, &c.EvalSize)
	v.in(tokens, &c.EvalTokens)
	if c.Data.ValSize != 0 {
		atMost(v, &c.EvalSize, &c.Data.ValSize)
	}
	if len(c.Stages) == 0 {
		v.reject("stages must have at least one stage")
	}
	for i := range c.Stages {
		s := &c.Stages[i]
		s.validate(v, &c.Data)
		for j := range c.Stages[:i] {
			if other := &c.Stages[j]; s.Name == other.Name {
				v.reject("%s must not be the same as %s", &s.Name, &other.Name)
				break
			}
		}
	}
}

func (s *Stage) validate(v *validator, d *Data) {
	v.notEmpty(&s.Name)
	oneOf(v, &s.Corpus, "capability", "preference", "answers")
	v.in(interval{low: 1, high: 1 << 27}, &s.Examples)
	v.in(size, &s.BatchSize)
	v.in(counter, &s.Steps, &s.EveryNSteps)
	v.in(counterOrNone, &s.WarmupSteps)
	v.in(belowOne, &s.AdamBetas)
	v.in(positive, &s.AdamEps)
	v.in(nonNegative, &s.LearningRate, &s.WeightDecay, &s.MaxGradNorm, &s.PromptLossWeight)
	v.in(fraction, &s.FinalLRRatio, &s.StopAtSampledAccuracy, &s.AcceptSampledMin, &s.AcceptSampledMax)
	atMost(v, &s.BatchSize, &s.Examples)
	atMost(v, &s.WarmupSteps, &s.Steps)
	atMost(v, &s.AcceptSampledMin, &s.AcceptSampledMax)
	oneOf(v, &s.LossType, rl.SupervisedLosses()...)
	v.in(anyTokens, &s.MaxLength)
	v.in(counterOrNone, &s.EarlyStoppingPatience)
	v.in(nonNegative, &s.EarlyStoppingThreshold)
	if s.Packing && s.MaxLength == 0 {
		v.reject("%s needs the size of a pack in tokens (set max_length)", &s.Packing)
	}
	if s.EarlyStoppingPatience == 0 {
		v.noEffect(&s.EarlyStoppingPatience, "set early_stopping_patience, or leave this key out", &s.EarlyStoppingThreshold)
	}
	if s.Corpus != "answers" && d.Source != "generated" {
		v.reject("%s consists of generated problems and can't be combined with %s (use answers)", &s.Corpus, &d.Source)
	}
}

func (d *Data) validate(v *validator) {
	oneOf(v, &d.Source, "generated", "gsm8k", "svamp")
	oneOf(v, &d.Annotations, "keep", "strip", "equation")
	oneOf(v, &d.PromptTemplate, "plain", "question_only", "r1_zero", "chat")
	if d.FewShotFile == "" {
		v.in(interval{low: 0, high: 3}, &d.FewShot)
	} else {
		v.in(counterOrNone, &d.FewShot)
	}
	v.in(nonNegative, &d.WeightAdd, &d.WeightSub, &d.WeightMul)
	v.in(sizeOrNone, &d.ValSize, &d.TestSize, &d.UnseenSize, &d.TrainSize)
	if d.WeightAdd == 0 && d.WeightSub == 0 && d.WeightMul == 0 {
		v.reject("%s, %s and %s must not all be 0", &d.WeightAdd, &d.WeightSub, &d.WeightMul)
	}
	if d.Source != "generated" {
		files := map[string][]*string{"": {&d.TrainFile, &d.ValFile}, "train": {&d.TrainFile}, "val": {&d.ValFile},
			"test": {&d.TestFile}}
		for _, file := range files[v.only] {
			if *file == "" {
				v.reject("%s must name a file, because of %s", file, &d.Source)
			}
		}
		return
	}
	v.noEffect(&d.Source, "set data.source to gsm8k or svamp, or leave this key out", &d.Fields.Question, &d.Fields.Answer)
	for _, file := range []*string{&d.TrainFile, &d.ValFile, &d.TestFile} {
		if *file != "" {
			v.reject("%s would not be read, because of %s (set data.source to gsm8k or svamp)", file, &d.Source)
		}
	}
	if d.ValSize == 0 {
		v.reject("%s must be at least 1, because of %s (0 means all problems of a file)", &d.ValSize, &d.Source)
	}
}

func (m *Model) validate(v *validator) {
	v.in(interval{low: 1, high: 1 << 15}, &m.HiddenSize)
	v.in(interval{low: 1, high: 256}, &m.NumLayers)
	oneOf(v, &m.Device, "cpu", "cuda", "auto")
	oneOf(v, &m.Precision, "float32", "tf32", "bf16")
	if !isPath(m.Init) {
		v.noEffect(&m.Init, "it is for a PEFT folder", &m.AdapterBase)
	}
	if m.Init != "base" && m.Init != "random" && !isPath(m.Init) {
		v.reject("%s must be base, random or the path of a safetensors file (write ./%s for a file of this name)%s",
			&m.Init, m.Init, suggest.DidYouMean(m.Init, []string{"base", "random"}))
	}
}

// isPath reports whether a string looks like a path: a misspelled name should not become a missing
// file.
func isPath(s string) bool { return strings.ContainsAny(s, `/\.`) }

func (r *Rollout) validate(v *validator) {
	v.in(size, &r.RolloutBatchSize, &r.GroupSize)
	v.in(temperature, &r.SamplingTemperature)
	v.in(positiveUpTo1, &r.SamplingTopP)
	v.in(sizeOrNone, &r.SamplingTopK)
	v.in(anyTokens, &r.SamplingMinTokens)
	v.in(tokens, &r.SamplingMaxTokens)
	atMost(v, &r.SamplingMinTokens, &r.SamplingMaxTokens)
	v.multiple(&r.RolloutBatchSize, &r.GroupSize)
	v.in(counterOrNone, &r.ResampleEveryNSteps)
}

func (c *Config) validateTrain(v *validator) {
	t := &c.Train
	v.in(counter, &t.NGRPOSteps, &t.EpochsPerRolloutBatch)
	v.in(sizeOrNone, &t.TrainBatchSize)
	v.in(size, &t.GradientAccumulationSteps)
	v.in(sizeOrNone, &t.MicroBatchTokens)
	v.in(belowOne, &t.AdamBetas)
	v.in(positive, &t.AdamEps)
	v.in(nonNegative, &t.LearningRate, &t.WeightDecay, &t.MaxGradNorm)
	v.multiple(&c.Rollout.RolloutBatchSize, &t.TrainBatchSize)
	batch := &t.TrainBatchSize
	if *batch == 0 {
		batch = &c.Rollout.RolloutBatchSize
	}
	v.multiple(batch, &t.GradientAccumulationSteps) // micro-batches have equal sizes
	oneOf(v, &t.LRScheduler, "constant", "linear", "cosine")
	v.in(counterOrNone, &t.WarmupSteps)
	perStep := c.UpdatesPerStep()
	if t.WarmupSteps > 0 && perStep > 0 && float64(t.WarmupSteps) >= c.Updates() {
		v.reject("%s must be less than the number of optimizer updates, which is %s: %s times %s per step",
			&t.WarmupSteps, yamldoc.FormatFloat(c.Updates()), &t.NGRPOSteps, strconv.Itoa(perStep))
	}
}

func (l *LoRA) validate(v *validator, m Model, rank string) {
	v.in(interval{low: 0, high: 1 << 12}, &l.Rank)
	v.in(positive, &l.Alpha)
	v.someOf(&l.Targets, LoRATargets()...)
	if l.Rank == 0 {
		v.noEffect(&l.Rank, "set "+rank+", or leave this key out", &l.Alpha, &l.Targets, &l.UseRSLoRA)
		return
	}
	if !isPath(m.Init) {
		v.reject("%s needs a Llama or Qwen checkpoint: set model.init (--model) to a Hugging Face folder or a GGUF file",
			&l.Rank)
	}
}

func (c *Config) validateEval(v *validator) {
	e := &c.Eval
	v.in(counter, &e.EveryNSteps)
	v.in(temperature, &e.Temperature)
	v.in(positiveUpTo1, &e.TopP)
	v.in(sizeOrNone, &e.TopK, &e.SaveSamples)
	v.in(anyTokens, &e.MinTokens, &e.MaxTokens)
	longest := &e.MaxTokens
	if *longest == 0 {
		longest = &c.Rollout.SamplingMaxTokens
	}
	atMost(v, &e.MinTokens, longest)
	c.validateSets(v)
}

func (c *Config) validateSets(v *validator) {
	e := &c.Eval
	v.in(sizeOrNone, &e.SetSize)
	v.in(counterOrNone, &e.SetsEveryNSteps)
	v.multiple(&e.SetsEveryNSteps, &e.EveryNSteps) // other steps have no evaluation
	known := []string{SetValidation, SetUnseen, SetSVAMP}
	for i, s := range e.Sets {
		if !slices.Contains(known, s) && !isPath(s) {
			v.reject("%s: %q must be one of %s, or the path of a file (write ./%s for a file of this name)%s",
				&e.Sets, s, strings.Join(known, ", "), s, suggest.DidYouMean(s, known))
			return
		}
		if slices.Contains(e.Sets[:i], s) {
			v.reject("%s: %q appears twice", &e.Sets, s)
			return
		}
	}
	if !slices.Contains(e.Sets, SetValidation) {
		v.reject("%s must include %s, which selects the best weights", &e.Sets, SetValidation)
	}
	if slices.Contains(e.Sets, SetSVAMP) && e.SVAMPFile == "" {
		v.reject("%s must be the path of SVAMP.json (from github.com/arkilpatel/SVAMP), because of %s",
			&e.SVAMPFile, &e.Sets)
	}
	// Names of sets are those of splits in eval.jsonl.
	taken := []string{"train", "val", "test", SetValidation, SetUnseen}
	for _, f := range e.SetFiles() {
		if slices.Contains(taken, f.Name) {
			v.reject("%s: the set of %s would be called %q, like another one (rename the file)",
				&e.Sets, f.Path, f.Name)
		}
		taken = append(taken, f.Name)
	}
}

func (c *Config) validateOutput(v *validator) {
	v.in(counterOrNone, &c.Output.CheckpointEveryNSteps)
	v.in(nonNegative, &c.Output.CheckpointEveryMinutes)
	v.in(size, &c.Output.KeepCheckpoints)
	oneOf(v, &c.Output.Keep, "all", "best")
	v.someOf(&c.Output.Formats, FigureFormats...)
}

func (c *Config) validateReward(v *validator) {
	r, a := &c.Reward, &c.Algorithm
	r.validateCustom(v)
	v.someOf(&r.Functions, r.names()...)
	oneOf(v, &r.MultiObjectiveAggregation, "sum_then_normalize", "normalize_then_sum")
	v.in(anyTokens, &r.OverlongCache, &r.CosineMaxLen)
	v.in(interval{low: 1, high: 100}, &r.RepetitionNGrams)
	v.in(interval{low: -1e6, high: 0}, &r.RepetitionMaxPenalty)
	oneOfOrEmpty(v, &r.CosineCorrect, gsm8k.CosineBases()...)
	v.in(moderate, &r.RewardWeights)
	v.in(moderate, &r.CosineMinWrong, &r.CosineMaxWrong, &r.CosineMinCorrect, &r.CosineMaxCorrect)
	atMost(v, &r.CosineMinCorrect, &r.CosineMaxCorrect)
	atMost(v, &r.CosineMinWrong, &r.CosineMaxWrong)
	if have, want := len(r.RewardWeights), len(r.Functions); have != want {
		v.reject("%s must have one weight for each of %s: %d, not %d", &r.RewardWeights, &r.Functions, want, have)
	}
	if slices.Contains(r.Functions, "soft_overlong") {
		atMost(v, &r.OverlongCache, &c.Rollout.SamplingMaxTokens)
	}
	if r.MultiObjectiveAggregation != "normalize_then_sum" {
		return
	}
	// Each function has its own group mean and standard deviation; the sum is then whitened. No
	// other normalization can be combined with it.
	const why = "it normalizes each reward function by its groups (use sum_then_normalize)"
	sum := &r.MultiObjectiveAggregation
	v.compatible(a.BaseLoss() != rl.NoBaseline, sum, &a.LossType, why)
	v.compatible(a.Type == "grpo", sum, &a.Type, why)
	v.compatible(a.Baseline == "", sum, &a.Baseline, why)
	v.compatible(a.Normalizer == "", sum, &a.Normalizer, why)
	v.compatible(a.ScaleRewards == "", sum, &a.ScaleRewards, why)
	v.compatible(a.UseStdNormalization, sum, &a.UseStdNormalization, why)
	v.compatible(!a.PassK, sum, &a.PassK, why)
	v.compatible(a.KLIn == "loss", sum, &a.KLIn, why)
}
