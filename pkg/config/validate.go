package config

import (
	"slices"
	"strconv"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/yamldoc"
	"grpo/pkg/rl"
	"grpo/pkg/stats"
)

func (c *Config) train() *Config { return c }

func (c *Config) validate(v *validator) {
	v.notEmpty(&c.Name)
	c.Data.validate(v, c.Model)
	c.Model.validate(v)
	atMost(v, &c.Rollout.SamplingMinTokens, &c.Rollout.SamplingMaxTokens)
	v.multiple(&c.Rollout.RolloutBatchSize, &c.Rollout.GroupSize)
	if c.Rollout.LogProbs == "sampled" && c.Model.Device == "cuda" {
		v.reject("%s can't be combined with %s: log-probabilities of cut distributions are computed on the CPU only "+
			"(set model.device to cpu, or leave logprobs out)", &c.Rollout.LogProbs, &c.Model.Device)
	}
	c.validateTrain(v)
	c.Train.LoRA.validate(v, c.Model)
	if c.Train.LoRA.Rank > 0 && c.Algorithm.RefModelSyncSteps != 0 {
		v.reject("%s can't be combined with %s: under LoRA the reference model is the base without the adapters, "+
			"which does not move (leave ref_model_sync_steps out, or train all weights)",
			&c.Algorithm.RefModelSyncSteps, &c.Train.LoRA.Rank)
	}
	c.validateEval(v)
	c.validateReward(v)
	c.validateAnswers(v)
	c.validateAlgorithm(v)
	c.Launcher.validate(v)
}

func (d *Data) validate(v *validator, m Model) {
	if d.FewShotFile == "" && d.FewShot > 3 {
		v.reject("%s must be at most 3 without a few_shot_file", &d.FewShot)
	}
	if d.WeightAdd == 0 && d.WeightSub == 0 && d.WeightMul == 0 {
		v.reject("%s, %s and %s must not all be 0", &d.WeightAdd, &d.WeightSub, &d.WeightMul)
	}
	if d.PromptTemplate == "chat" && !v.mayBePath(m.Init) {
		v.reject("%s needs a checkpoint with a chat template: set model.init to a Hugging Face folder or a GGUF file",
			&d.PromptTemplate)
	}
	if d.PromptTemplate == "few_shot" && d.FewShot == 0 && d.FewShotFile == "" {
		v.reject("%s needs worked examples: set %s to 1 to 3, or few_shot_file", &d.PromptTemplate, &d.FewShot)
	}
	for i := range d.Stop {
		if d.Stop[i] == "" {
			v.reject("%s must not have an empty text, which would end every completion at once", &d.Stop)
		}
	}
	d.validateTask(v)
	if !d.Generated() {
		files := map[string][]*string{"": {&d.TrainFile, &d.ValFile}, "train": {&d.TrainFile}, "val": {&d.ValFile},
			"test": {&d.TestFile}}
		for _, file := range files[v.only] {
			if *file == "" {
				v.reject("%s must name a file, because of %s", file, &d.Source)
			}
		}
		return
	}
	for _, file := range []*string{&d.TrainFile, &d.ValFile, &d.TestFile} {
		if *file != "" {
			v.reject("%s would not be read, because of %s (set data.source to file)", file, &d.Source)
		}
	}
	if d.ValSize == 0 {
		v.reject("%s must be at least 1, because of %s (0 means all problems of a file)", &d.ValSize, &d.Source)
	}
}

func (m *Model) validate(v *validator) {
	if m.Init != "base" && m.Init != "random" && !v.mayBePath(m.Init) {
		v.reject("%s must be base, random or the file or folder of a checkpoint, and there is no file or folder of this "+
			"name (for a model of Hugging Face: grpo pull model OWNER/NAME, then OWNER/NAME here)%s",
			&m.Init, suggest.DidYouMean(m.Init, []string{"base", "random"}))
	}
}

// isPath reports whether a string looks like a path: a misspelled name should not become a missing
// file.
func isPath(s string) bool { return strings.ContainsAny(s, `/\.`) }

// mayBePath is isPath; where another key is wrong, names of files and folders were not looked for.
func (v *validator) mayBePath(s string) bool {
	return isPath(s) || v.partial && s != "base" && s != "random"
}

// trainBatch returns the key that has the size of a train batch.
func (c *Config) trainBatch() *int {
	if c.Train.TrainBatchSize == 0 {
		return &c.Rollout.RolloutBatchSize
	}
	return &c.Train.TrainBatchSize
}

func (c *Config) validateTrain(v *validator) {
	t := &c.Train
	v.multiple(&c.Rollout.RolloutBatchSize, &t.TrainBatchSize)
	v.multiple(c.trainBatch(), &t.GradientAccumulationSteps) // micro-batches have equal sizes
	perStep := c.UpdatesPerStep()
	if t.WarmupSteps > 0 && perStep > 0 && float64(t.WarmupSteps) >= c.Updates() {
		v.reject("%s must be less than the number of optimizer updates, which is %s: %s times %s per step",
			&t.WarmupSteps, yamldoc.FormatFloat(c.Updates()), &t.NGRPOSteps, strconv.Itoa(perStep))
	}
}

func (l *LoRA) validate(v *validator, m Model) {
	if l.Rank != 0 && !v.mayBePath(m.Init) {
		v.reject("%s needs a checkpoint: set model.init (--model) to a Hugging Face folder or a GGUF file",
			&l.Rank)
	}
}

func (c *Config) validateEval(v *validator) {
	e := &c.Eval
	longest := &e.MaxTokens
	if *longest == 0 {
		longest = &c.Rollout.SamplingMaxTokens
	}
	atMost(v, &e.MinTokens, longest)
	v.multiple(&e.SetsEveryNSteps, &e.EveryNSteps) // other steps have no evaluation
	if e.FinalSize > 0 && e.FinalSize < c.Data.ValSize {
		v.reject("%s must be at least %s (0 = the same)", &e.FinalSize, &c.Data.ValSize)
	}
	e.validateSamples(v)
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
	taken := []string{"train", "val", "val_final", "test", SetValidation, SetUnseen}
	for _, f := range e.SetFiles() {
		if slices.Contains(taken, f.Name) {
			v.reject("%s: the set of %s would be called %q, like another one (rename the file)",
				&e.Sets, f.Path, f.Name)
		}
		taken = append(taken, f.Name)
	}
}

// validateSamples checks the numbers of completions of a problem, and the k of pass@k and maj@k.
func (e *Eval) validateSamples(v *validator) {
	// grpo eval takes the samples of its flag for those of a run.
	if v.only == "" && e.FinalSamples > 1 && e.FinalSamples <= e.Samples {
		v.reject("%s has no effect, because of %s (the last evaluation takes the larger number)", &e.FinalSamples, &e.Samples)
	}
	last := &e.Samples
	if e.FinalSamples > e.Samples {
		last = &e.FinalSamples
	}
	if len(e.MajorityAt) > 0 && *last > stats.MaxChoose {
		v.reject("%s can't be computed from more than %s completions: lower %s, or leave majority_at out",
			&e.MajorityAt, strconv.Itoa(stats.MaxChoose), last)
	}
	for _, field := range []*[]int{&e.PassAt, &e.MajorityAt} {
		for i, k := range *field {
			switch {
			case *last > 1 && k > *last:
				v.reject("%s: element %s must be at most %s", field, strconv.Itoa(i+1), last)
			case i > 0 && k <= (*field)[i-1]:
				v.reject("%s: element %s must be larger than the one before", field, strconv.Itoa(i+1))
			}
		}
	}
}

func (c *Config) validateReward(v *validator) {
	r, a := &c.Reward, &c.Algorithm
	r.validateCustom(v)
	atMost(v, &r.CosineMinCorrect, &r.CosineMaxCorrect)
	atMost(v, &r.CosineMinWrong, &r.CosineMaxWrong)
	if have, want := len(r.RewardWeights), len(r.Functions); have != want {
		v.reject("%s must have one weight for each of %s: %d, not %d", &r.RewardWeights, &r.Functions, want, have)
	}
	if slices.Contains(r.Functions, "soft_overlong") {
		atMost(v, &r.OverlongCache, &c.Rollout.SamplingMaxTokens)
	}
	r.validateNoise(v, a)
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
	v.compatible(a.AdvantageExpr == "", sum, &a.AdvantageExpr, why)
	v.compatible(a.KLIn == "loss", sum, &a.KLIn, why)
}
